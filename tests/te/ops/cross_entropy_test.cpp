// Cross entropy: values by hand, field log, ranks, gradients by differences.
#include "assay/te/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <limits>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "assay/te/ops/split.h"
#include "assay/te/precision.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

constexpr Device kRef = Device::kReference;

Tensor targets(const std::vector<std::int64_t>& values,
               DType dtype = DType::kI64) {
  Tensor t = Tensor::empty(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(dtype, static_cast<double>(values[i]), t.mutable_data(),
                      static_cast<std::int64_t>(i));
  return t;
}

double loss_of(const Tensor& x, const Tensor& y,
               const CrossEntropyOptions& o = {}) {
  return values_of(cross_entropy_forward(x, y, o).loss)[0];
}

TEST(CrossEntropy, ByHand) {
  const Tensor x = make_tensor({0, 0, std::log(3.0), 0}, {2, 2});
  const Tensor y = targets({1, 0}, DType::kI32);
  const auto loss = values_of(cross_entropy_forward(x, y, {}).loss);
  EXPECT_NEAR(loss[0], std::log(2.0), 1e-7);
  EXPECT_NEAR(loss[1], std::log(4.0 / 3), 1e-7);
  Tensor g = make_tensor(values_of(x), {2, 2});
  cross_entropy_forward_in_place(g, y, {});
  expect_close(g, make_tensor({.5, -.5, -.25, .25}, {2, 2}), 1e-6, 0, "grad");
  cross_entropy_scale_in_place(g, make_tensor({2, 4}, {2}));
  expect_close(g, make_tensor({1, -1, -1, 1}, {2, 2}), 1e-6, 0, "scaled");
}

// Ignored rows are not counted: smoothing .2 of two equal logits is log 2.
TEST(CrossEntropy, F33_SmoothingDoesNotCountIgnoredRows) {
  const Tensor x = make_tensor({0, 0, 10, -10}, {2, 2});
  CrossEntropyOptions o{.label_smoothing = .2, .reduce_loss = true};
  EXPECT_NEAR(loss_of(x, targets({0, -100}), o), 0.693147, 1e-6);
  Tensor g = make_tensor({0, 0, 10, -10}, {2, 2});
  const auto out = cross_entropy_forward_in_place(g, targets({0, -100}), o);
  EXPECT_EQ(out.counted, 1);
  expect_close(g, make_tensor({.5 - .9, .5 - .1, 0, 0}, {2, 2}), 1e-6, 1e-8,
               "gradient of the ignored row");
}

TEST(CrossEntropy, NoRowLeftIsNanWithZeroGradient) {
  Tensor x = normal_tensor({3, 5}, DType::kF32, 1);
  const CrossEntropyOptions o{.reduce_loss = true};
  EXPECT_TRUE(std::isnan(loss_of(x, targets({-100, -100, -100}), o)));
  cross_entropy_forward_in_place(x, targets({-100, -100, -100}), o);
  EXPECT_EQ(values_of(x), std::vector<double>(15, 0.0));
}

// A sixth row behind the five: nothing may be read from it.
TEST(CrossEntropy, F40_TargetsOutOfRangeAreErrors) {
  const Tensor x = normal_tensor({2, 5}, DType::kF32, 1);
  EXPECT_EQ(error_of([&] {
              loss_of(x, targets({0, 5}));
            }),
            "cross_entropy_forward: target: 5 in row 1, expected 0 to 4 or "
            "ignore_index -100");
  error_of([&] { loss_of(x, targets({-1, 0})); });
  error_of([&] { loss_of(x, targets({0, 0, 0})); });
  // An ignore_index inside the vocabulary ignores.
  EXPECT_EQ(loss_of(x, targets({3, 0}), {.ignore_index = 3}), 0);
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  const Tensor x = make_tensor({1e4, -1e4, 0}, {1, 3});
  EXPECT_EQ(loss_of(x, targets({0})), 0);
  EXPECT_EQ(loss_of(x, targets({1})), 2e4);
}

TEST(CrossEntropy, NanStaysInItsRow) {
  for (Device device : {Device::kCpu, kRef}) {
    Tensor x = normal_tensor({3, 40}, DType::kF32, 1, device);
    x.mutable_data<float>()[40 + 17] = std::nanf("");
    x.mutable_data<float>()[80 + 17] = -std::numeric_limits<float>::infinity();
    Tensor y = targets({0, 1, 2});
    y.device = device;
    const auto loss = values_of(cross_entropy_forward_in_place(x, y, {}).loss);
    EXPECT_TRUE(std::isfinite(loss[0]) && std::isfinite(loss[2]));
    EXPECT_TRUE(std::isnan(loss[1]));
    for (int i = 0; i < 120; ++i)
      EXPECT_EQ(std::isnan(x.data<float>()[i]), i / 40 == 1);
    EXPECT_EQ(x.data<float>()[80 + 17], 0);
  }
}

TEST(CrossEntropy, GradientsByDifferences) {
  const Tensor x = normal_tensor({3, 7}, DType::kF32, 1, kRef);
  Tensor y = targets({2, -100, 6});
  y.device = kRef;
  for (double smoothing : {0.0, 0.3})
    for (bool reduce : {false, true}) {
      CrossEntropyOptions o{.label_smoothing = smoothing,
                            .reduce_loss = reduce};
      const Tensor d = reduce ? make_tensor({1.5}, {1}, DType::kF32, kRef)
                              : normal_tensor({3}, DType::kF32, 2, kRef);
      const auto out = cross_entropy_forward(x, y, o);
      expect_gradient(
          [&](const Tensor& at) {
            return cross_entropy_forward(at, y, o).loss;
          },
          x, d, cross_entropy_backward(d, x, y, out, o), 1e-4, "logits");
    }
}

TEST(CrossEntropy, AgreesWithTheReferenceDevice) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (std::int64_t n : {1, 15, 16, 17, 63, 64, 65, 255, 1003}) {
      const Tensor x = normal_tensor({9, n}, dtype, 1, Device::kCpu, 3);
      std::vector<std::int64_t> at;
      for (std::int64_t t = 0; t < 9; ++t) at.push_back(t * 7 % n);
      const Tensor y = targets(at);
      const CrossEntropyOptions o{.label_smoothing = .1};
      const auto ours = cross_entropy_forward(x, y, o);
      const auto theirs = cross_entropy_forward(on(kRef, x), on(kRef, y), o);
      expect_close(ours.loss, theirs.loss, 2e-6, 2e-6, "loss");
      const Tensor d = normal_tensor({9}, DType::kF32, 2);
      const double rtol = 2 * unit_roundoff(dtype) + 5e-6;
      expect_close(cross_entropy_backward(d, x, y, ours, o),
                   cross_entropy_backward(on(kRef, d), on(kRef, x), on(kRef, y),
                                          theirs, o),
                   rtol, 1e-6, "gradient");
      // In place and fresh are the same function for d_loss = 1.
      Tensor fused = make_tensor(values_of(x), {9, n}, dtype);
      cross_entropy_forward_in_place(fused, y, o);
      const Tensor ones = make_tensor(std::vector<double>(9, 1), {9});
      expect_close(fused, cross_entropy_backward(ones, x, y, ours, o), rtol,
                   1e-6, "in place");
    }
}

// Ranks as threads in lock step: all_reduce over what each put down.
class Ranks {
 public:
  explicit Ranks(int count) : count_(count) {}

  void combine(std::span<float> values, bool max) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (arrived_ == 0)
      sum_.assign(values.begin(), values.end());
    else
      for (std::size_t i = 0; i < values.size(); ++i)
        sum_[i] = max ? std::max(sum_[i], values[i]) : sum_[i] + values[i];
    if (++arrived_ == count_) {
      arrived_ = 0;
      ++round_;
      result_ = sum_;
      ready_.notify_all();
    } else {
      ready_.wait(lock, [&] { return round_ != round; });
    }
    std::copy(result_.begin(), result_.end(), values.begin());
  }

 private:
  int count_, arrived_ = 0, round_ = 0;
  std::vector<float> sum_, result_;
  std::mutex mutex_;
  std::condition_variable ready_;
};

class Reducer : public VocabReducer {
 public:
  explicit Reducer(Ranks& ranks) : ranks_(ranks) {}
  void all_reduce_max(std::span<float> v) override { ranks_.combine(v, true); }
  void all_reduce_sum(std::span<float> v) override { ranks_.combine(v, false); }

 private:
  Ranks& ranks_;
};

TEST(CrossEntropy, RanksTogetherEqualOne) {
  const Tensor x = normal_tensor({6, 90}, DType::kF32, 1, Device::kCpu, 4);
  const Tensor y = targets({0, 29, 30, 89, -100, 60});
  CrossEntropyOptions whole{.label_smoothing = .1, .reduce_loss = true};
  Tensor expected = make_tensor(values_of(x), {6, 90});
  const auto one = cross_entropy_forward_in_place(expected, y, whole);

  const std::vector<std::int64_t> sizes = {30, 40, 20};
  std::vector<Tensor> slices = split(x, sizes, 1);
  std::vector<double> losses(3);
  Ranks ranks(3);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      Reducer reducer(ranks);
      CrossEntropyOptions o = whole;
      o.vocab_offset = r == 0 ? 0 : r == 1 ? 30 : 70;
      o.vocab_size = 90;
      o.reducer = &reducer;
      const auto out = cross_entropy_forward_in_place(slices[r], y, o);
      losses[r] = values_of(out.loss)[0];
    });
  for (auto& thread : threads) thread.join();
  for (double loss : losses) EXPECT_NEAR(loss, values_of(one.loss)[0], 2e-6);
  expect_close(concatenate(slices, 1), expected, 5e-6, 1e-7, "gradient");
}

TEST(CrossEntropy, PrecisionsEmptyStridedThreads) {
  const Tensor x = normal_tensor({40, 700}, DType::kBF16, 1);
  const Tensor y = targets(std::vector<std::int64_t>(40, 3));
  const double plain = loss_of(x, y);
  for (InternalPrecision p : kInternalPrecisions) {
    PrecisionScope scope("cross_entropy", p);
    // 700 terms added in bf16 stop growing long before the end.
    EXPECT_NEAR(loss_of(x, y), plain,
                p == InternalPrecision::kWorking ? 1.0 : 1e-5);
    if (p == InternalPrecision::kWorking) EXPECT_NE(loss_of(x, y), plain);
  }
  EXPECT_EQ(loss_of(strided_like(x), y), plain);
  const auto none = cross_entropy_forward(Tensor::empty(DType::kF32, {0, 4}),
                                          targets({}), {});
  EXPECT_EQ(none.loss.shape(), (Shape{0}));
  expect_thread_invariance(
      [&] {
        Tensor g = make_tensor(values_of(x), {40, 700}, DType::kBF16);
        const auto out =
            cross_entropy_forward_in_place(g, y, {.reduce_loss = true});
        return std::vector<Tensor>{g, out.loss};
      },
      "cross entropy");
}

}  // namespace
}  // namespace assay::te
