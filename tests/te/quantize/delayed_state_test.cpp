#include "assay/te/quantize/delayed_state.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/te/quantize/tensors.h"

namespace assay::te {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
using Floats = std::vector<float>;

DelayedScalingState with_history(std::int64_t length, Floats values) {
  const auto slots = static_cast<std::int64_t>(values.size()) / length;
  DelayedScalingState state(length, slots);
  std::copy(values.begin(), values.end(), state.staging());
  return state;
}

// By hand: the column 7, 3, 9 with 7 staged becomes 0, 9, 7 and its largest
// is 9; scale 448 / 9.
TEST(DelayedUpdate, FusedMovesTheColumnAndTakesItsLargest) {
  auto state = with_history(3, {7, 3, 9});
  delayed_update_fused(state, {}, {});
  EXPECT_EQ(floats(state.amax_history), (Floats{0, 9, 7}));
  EXPECT_EQ(floats(state.scale), (Floats{448.0f / 9}));
}

// The oldest entry counts once more before it leaves.
TEST(DelayedUpdate, OldestEntryCountsOnceMore) {
  auto state = with_history(3, {1, 100, 2});
  delayed_update_fused(state, {}, {});
  EXPECT_EQ(floats(state.amax_history), (Floats{0, 2, 1}));
  EXPECT_EQ(floats(state.scale), (Floats{4.48f}));
  state.staging()[0] = 1;
  delayed_update_fused(state, {}, {});
  EXPECT_EQ(floats(state.scale), (Floats{224.0f}));
}

// T2: a zero leaves fused history alone, moves the others.
TEST(DelayedUpdate, ZeroAmaxIsWhereTheFormsDiffer) {
  auto fused = with_history(3, {0, 3, 9});
  auto unfused = fused.copy(), single = fused.copy();
  delayed_update_fused(fused, {}, {});
  delayed_update_unfused(unfused, {}, {});
  delayed_update_single(single, {});
  EXPECT_EQ(floats(fused.amax_history), (Floats{0, 3, 9}));
  EXPECT_EQ(floats(fused.scale), (Floats{1}));
  EXPECT_EQ(floats(unfused.amax_history), (Floats{0, 9, 0}));
  EXPECT_EQ(floats(single.amax_history), (Floats{0, 9, 0}));
  EXPECT_EQ(floats(single.scale), (Floats{448.0f / 9}));
}

// T2: a NaN is skipped by fused, keeps the old scale in unfused.
TEST(DelayedUpdate, NanAmaxIsWhereTheFormsDiffer) {
  auto fused = with_history(2, {kNan, 4});
  auto unfused = fused.copy();
  delayed_update_fused(fused, {}, {});
  delayed_update_unfused(unfused, {}, {});
  EXPECT_EQ(floats(fused.scale), (Floats{112}));
  EXPECT_EQ(floats(unfused.scale), (Floats{1}));
}

TEST(DelayedUpdate, F01_NothingUsableKeepsTheScale) {
  for (float amax : {kInf, kNan, 0.0f}) {
    auto state = with_history(1, {amax});
    state.scale.mutable_data<float>()[0] = 3;
    delayed_update_fused(state, {}, {});
    EXPECT_EQ(floats(state.scale), (Floats{3})) << amax;
    delayed_update_unfused(state, {}, {});
    EXPECT_EQ(floats(state.scale), (Floats{3})) << amax;
  }
  auto tiny = with_history(1, {1e-38f});
  delayed_update_fused(tiny, {}, {});
  EXPECT_EQ(floats(tiny.scale), (Floats{kMax}));
}

TEST(DelayedUpdate, MarginHalvesTheRange) {
  auto state = with_history(2, {7, 0});
  delayed_update_fused(state, {}, {.margin = 3});
  EXPECT_EQ(floats(state.scale), (Floats{8}));
  auto unfused = with_history(2, {7, 0});
  delayed_update_unfused(unfused, {}, {.margin = 3});
  // rn(rn(1/7) * 448) / 8, one ulp of what division gives at most.
  EXPECT_NEAR(floats(unfused.scale)[0], 8.0f, 1e-6f);
}

TEST(DelayedUpdate, MostRecentLooksAtNothingElse) {
  auto state = with_history(3, {7, 300, 200});
  delayed_update_fused(state, {}, {.algorithm = AmaxAlgorithm::kMostRecent});
  EXPECT_EQ(floats(state.scale), (Floats{64}));
}

TEST(DelayedUpdate, CallablesReplaceEitherHalf) {
  DelayedUpdateOptions options;
  options.amax_function = [](const Tensor& history) {
    EXPECT_EQ(history.shape(), (Shape{2, 2}));
    return f32({2}, {history.data<float>()[2], 8});
  };
  auto state = with_history(2, {1, 2, 7, 4});
  DelayedScalingState* const states[] = {&state};
  delayed_bulk_update(states, nullptr, options);
  EXPECT_NEAR(floats(state.scale)[0], 64, 1e-5);
  EXPECT_EQ(floats(state.scale)[1], 56);
  options = {};
  options.scale_function = [](const Tensor& amax, const Tensor& scale,
                              float fp8_max) {
    EXPECT_EQ(fp8_max, 448.0f);
    EXPECT_EQ(scale.shape(), amax.shape());
    return f32({2}, {amax.data<float>()[0] * 10, 5});
  };
  delayed_bulk_update(states, nullptr, options);
  EXPECT_EQ(floats(state.scale)[1], 5);
  options.scale_function = [](const Tensor&, const Tensor&, float) {
    return f32({3}, {1, 1, 1});
  };
  EXPECT_EQ(error_of([&] { delayed_bulk_update(states, nullptr, options); }),
            "delayed_update: scale: shape [3], expected [2]");
}

class Fixed : public AmaxReduction {
 public:
  explicit Fixed(Floats values) : values_(std::move(values)) {}
  void reduce_max(float* values, std::int64_t count) override {
    seen.assign(values, values + count);
    for (std::int64_t i = 0; i < count; ++i)
      values[i] = std::max(values[i], values_[static_cast<std::size_t>(i)]);
  }
  Floats seen;

 private:
  Floats values_;
};

TEST(DelayedUpdate, StatesOfARegionAreReducedTogether) {
  auto a = with_history(2, {1, 2, 0, 0}), b = with_history(3, {7, 0, 0});
  DelayedScalingState* const states[] = {&a, &b};
  Fixed other({0, 56, 3});
  delayed_bulk_update(states, &other, {});
  EXPECT_EQ(other.seen, (Floats{1, 2, 7}));
  EXPECT_EQ(floats(a.scale), (Floats{448, 8}));
  EXPECT_EQ(floats(b.scale), (Floats{64}));
  EXPECT_EQ(error_of([&] {
              delayed_bulk_update(states, std::span<const float>(), {});
            }),
            "delayed_update: reduced: 0 values, expected 3");
}

TEST(DelayedState, F07_LengthIsConstantHoweverManySteps) {
  DelayedScalingState state(16, 2);
  for (int step = 0; step < 1000; ++step) {
    state.record(0, 1.0f + static_cast<float>(step % 7));
    delayed_update_fused(state, {}, {});
  }
  EXPECT_EQ(state.amax_history.shape(), (Shape{16, 2}));
}

TEST(DelayedState, LengthGrowsWithZerosAndShrinksFromTheEnd) {
  auto state = with_history(2, {1, 2, 3, 4});
  state.set_length(3);
  EXPECT_EQ(floats(state.amax_history), (Floats{1, 2, 3, 4, 0, 0}));
  state.set_length(1);
  EXPECT_EQ(floats(state.amax_history), (Floats{1, 2}));
  EXPECT_EQ(error_of([&] { state.set_length(0); }),
            "DelayedScalingState: amax_history_len: 0, expected 1 or more");
}

TEST(RecomputeStash, RecomputationUsesTheFirstPass) {
  DelayedScalingState state(2, 1);
  state.scale.mutable_data<float>()[0] = 2;
  RecomputeStash stash;
  stash.save(state);
  state.scale.mutable_data<float>()[0] = 4;
  stash.save(state);
  state.scale.mutable_data<float>()[0] = 8;
  stash.begin(state);
  EXPECT_EQ(floats(state.scale), (Floats{2}));
  EXPECT_EQ(error_of([&] { stash.begin(state); }),
            "RecomputeStash: begin: inside a recomputation, expected end() "
            "before");
  state.record(0, 99);  // thrown away
  stash.end(state);
  EXPECT_EQ(floats(state.scale), (Floats{8}));
  EXPECT_EQ(floats(state.amax_history), (Floats{0, 0}));
  stash.begin(state);
  EXPECT_EQ(floats(state.scale), (Floats{4}));
  stash.end(state);
  EXPECT_EQ(stash.saved(), 0u);
  EXPECT_NE(error_of([&] { stash.begin(state); }), "no error");
  EXPECT_NE(error_of([&] { stash.end(state); }), "no error");
}

// Over non-zero finite maxima the fused and the single form are the same, and
// after `length` steps of a constant the scale is that of the constant.
RC_GTEST_PROP(DelayedUpdate, FusedAndSingleAgreeWhereNothingIsZero, ()) {
  const auto length = *rc::gen::inRange(1, 9);
  DelayedScalingState a(length, 1), b(length, 1);
  const auto steps =
      *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 100000));
  for (int step : steps) {
    a.record(0, static_cast<float>(step));
    b.record(0, static_cast<float>(step));
    delayed_update_fused(a, {}, {});
    delayed_update_single(b, {});
  }
  for (int i = 0; i <= length; ++i) {
    a.record(0, 7);
    b.record(0, 7);
    delayed_update_fused(a, {}, {});
    delayed_update_single(b, {});
  }
  RC_ASSERT(floats(a.amax_history) == floats(b.amax_history));
  RC_ASSERT(floats(a.scale) == (Floats{64}));
  RC_ASSERT(floats(b.scale) == (Floats{64}));
}

}  // namespace
}  // namespace assay::te
