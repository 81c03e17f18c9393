// Permutation: maps by hand, gradients by differences, precisions, traps.
#include "assay/te/ops/permute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using Ints = std::vector<std::int64_t>;

template <typename T>
std::vector<T> items(const Tensor& t) {
  return {t.data<T>(), t.data<T>() + t.numel()};
}

Tensor ints(const std::vector<std::int32_t>& values, Shape shape) {
  Tensor t = Tensor::empty(DType::kI32, std::move(shape));
  std::copy(values.begin(), values.end(), t.mutable_data<std::int32_t>());
  return t;
}

Tensor mask(const std::vector<std::uint8_t>& values, Shape shape) {
  Tensor t = Tensor::empty(DType::kBool, std::move(shape));
  std::copy(values.begin(), values.end(), t.mutable_data<std::uint8_t>());
  return t;
}

Tensor random_mask(std::int64_t tokens, std::int64_t experts, unsigned seed) {
  std::mt19937 rng(seed);
  Tensor t = Tensor::empty(DType::kBool, {tokens, experts});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.mutable_data<std::uint8_t>()[i] = rng() % 3 == 0;
  return t;
}

// Token 0 to experts 0 and 2, token 1 nowhere, token 2 to expert 2.
const Tensor& small_mask() {
  static const Tensor m = mask({1, 0, 1, 0, 0, 0, 0, 0, 1}, {3, 3});
  return m;
}

TEST(RowMap, OfAMaskByHand) {
  const RowMap map = row_map_from_mask(small_mask());
  EXPECT_EQ(map.rows, 3);
  EXPECT_EQ(items<std::int32_t>(map.source),
            (std::vector<std::int32_t>{0, 0, 2}));
  // Rows descending, their experts, the count: as NVTE lays it out.
  EXPECT_EQ(items<std::int32_t>(map.slots),
            (std::vector<std::int32_t>{1,  0,  -1, 2,  0,  -1, 2,  //
                                       -1, -1, -1, -1, -1, -1, 0,
                                       2,  -1, -1, 2,  -1, -1, 1}));
  EXPECT_EQ(items<std::int64_t>(map.tokens_per_expert), (Ints{1, 0, 2}));
}

TEST(RowMap, PaddedAndCut) {
  const RowMap padded = row_map_from_mask(small_mask(), -1, 4);
  EXPECT_EQ(items<std::int32_t>(padded.source),
            (std::vector<std::int32_t>{0, -1, -1, -1, 0, 2, -1, -1}));
  EXPECT_EQ(items<std::int64_t>(padded.padded_tokens_per_expert),
            (Ints{4, 0, 4}));
  const RowMap cut = row_map_from_mask(small_mask(), 2);
  EXPECT_EQ(items<std::int32_t>(cut.source), (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(items<std::int64_t>(cut.tokens_per_expert), (Ints{1, 0, 1}));
  EXPECT_EQ(row_map_from_mask(small_mask(), 5).source.data<std::int32_t>()[4],
            -1);
}

// F40: no expert is guessed for an index that names none.
TEST(RowMap, F40_IndicesOutOfRangeAreErrors) {
  const RowMap map = row_map_from_indices(ints({2, 0, -1, 2}, {2, 2}));
  EXPECT_EQ(items<std::int32_t>(map.source),
            (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(
      error_of([] {
        row_map_from_indices(ints({0, -2}, {1, 2}));
      }),
      "row_map_from_indices: indices: -2, expected an expert below 65536, "
      "or -1 for none");
  error_of([] { row_map_from_indices(ints({0, 1 << 30}, {1, 2})); });
}

// F46: integers come out exactly; the map against a stable sort.
TEST(RowMap, F46_IsAStableSort) {
  std::mt19937 rng(4);
  std::vector<std::int32_t> experts(700 * 3);
  for (auto& e : experts) e = static_cast<std::int32_t>(rng() % 11);
  std::vector<std::int32_t> order(experts.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<std::int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return experts[static_cast<std::size_t>(a)] <
           experts[static_cast<std::size_t>(b)];
  });
  for (auto& flat : order) flat /= 3;
  const RowMap map = row_map_from_indices(ints(experts, {700, 3}));
  EXPECT_EQ(items<std::int32_t>(map.source), order);
}

// The two maps of one routing put the same rows at the same places.
TEST(RowMap, MaskAndIndicesAgree) {
  const Tensor routing = random_mask(300, 9, 2);
  const RowMap by_mask = row_map_from_mask(routing);
  std::vector<std::int32_t> experts(300 * 9, -1);
  for (std::size_t i = 0; i < experts.size(); ++i)
    if (routing.data<std::uint8_t>()[i])
      experts[i] = static_cast<std::int32_t>(i % 9);
  const RowMap by_index = row_map_from_indices(ints(experts, {300, 9}));
  EXPECT_TRUE(same_bits(by_mask.source, by_index.source));
}

TEST(Permute, AnyDtypeAndZeroProbabilitiesPad) {
  const RowMap map = row_map_from_mask(small_mask(), -1, 2);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kE4M3FN, DType::kI64}) {
    const Tensor x = make_tensor({1, 2, 3, 4, 5, 6}, {3, 2}, dtype);
    EXPECT_EQ(values_of(moe_permute_forward(x, map).rows),
              (std::vector<double>{1, 2, 0, 0, 1, 2, 5, 6}));
  }
  const Tensor x = make_tensor({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor probs = make_tensor({.5, 9, 0, 9, 9, 9, 9, 9, .25}, {3, 3});
  const Permuted out = moe_permute_forward(x, map, probs);
  EXPECT_EQ(values_of(out.rows), (std::vector<double>{1, 2, 0, 0, 0, 0, 5, 6}));
  EXPECT_EQ(values_of(out.probs), (std::vector<double>{.5, 0, 0, .25}));
}

// Merging what was permuted gives count * token, without weights.
TEST(Unpermute, UndoesPermute) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Tensor routing = random_mask(77, 5, 3);
    const RowMap map = row_map_from_mask(routing);
    const Tensor x = normal_tensor({77, 33}, dtype, 1);
    const Tensor y =
        moe_unpermute_forward(moe_permute_forward(x, map).rows, map);
    for (std::int64_t t = 0; t < 77; ++t) {
      const auto n = std::count_if(routing.data<std::uint8_t>() + 5 * t,
                                   routing.data<std::uint8_t>() + 5 * t + 5,
                                   [](int v) { return v; });
      for (std::int64_t h = 0; h < 33; ++h)
        ASSERT_NEAR(load_as_double(dtype, y.view.data, t * 33 + h),
                    static_cast<double>(n) *
                        load_as_double(dtype, x.view.data, t * 33 + h),
                    unit_roundoff(dtype) * 40);
    }
  }
}

TEST(Unpermute, AgreesWithTheReferenceDevice) {
  const RowMap map = row_map_from_mask(random_mask(130, 7, 5));
  const RowMap there = row_map_from_mask(
      on(Device::kReference, random_mask(130, 7, 5)));
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (std::int64_t h : {1, 15, 16, 17, 64, 65, 257}) {
      const Tensor rows = normal_tensor({map.rows, h}, dtype, 1);
      const Tensor probs = normal_tensor({130, 7}, DType::kF32, 2);
      const Tensor dy = normal_tensor({130, h}, dtype, 3);
      const auto at = [&](Device d) { return on(d, rows); };
      const double rtol = 2 * unit_roundoff(dtype), atol = 1e-6;
      expect_close(moe_unpermute_forward(rows, map, probs),
                   moe_unpermute_forward(at(Device::kReference), there,
                                         on(Device::kReference, probs)),
                   rtol, atol, "merged");
      const auto ours = moe_unpermute_backward(dy, map, rows, probs);
      const auto theirs = moe_unpermute_backward(on(Device::kReference, dy),
                                                 there, at(Device::kReference),
                                                 on(Device::kReference, probs));
      expect_close(ours.rows, theirs.rows, rtol, atol, "d_rows");
      expect_close(ours.merging_probs, theirs.merging_probs, 1e-5, 1e-5,
                   "d_probs");
    }
}

TEST(Unpermute, GradientsByDifferences) {
  constexpr Device kRef = Device::kReference;
  const RowMap map = row_map_from_mask(on(kRef, random_mask(6, 4, 7)));
  const Tensor rows = normal_tensor({map.rows, 3}, DType::kF32, 1, kRef);
  const Tensor probs = normal_tensor({6, 4}, DType::kF32, 2, kRef);
  const Tensor dy = normal_tensor({6, 3}, DType::kF32, 3, kRef);
  const auto g = moe_unpermute_backward(dy, map, rows, probs);
  expect_gradient(
      [&](const Tensor& r) { return moe_unpermute_forward(r, map, probs); },
      rows, dy, g.rows, 1e-4, "rows");
  expect_gradient(
      [&](const Tensor& p) { return moe_unpermute_forward(rows, map, p); },
      probs, dy, g.merging_probs, 1e-4, "probs");
  const Tensor x = normal_tensor({6, 3}, DType::kF32, 4, kRef);
  expect_gradient(
      [&](const Tensor& t) { return moe_permute_forward(t, map).rows; }, x,
      rows, moe_permute_backward(rows, map).tokens, 1e-4, "tokens");
  const Tensor weights = normal_tensor({map.rows}, DType::kF32, 5, kRef);
  expect_gradient(
      [&](const Tensor& p) { return moe_permute_forward(x, map, p).probs; },
      probs, weights, moe_permute_backward(rows, map, weights).probs, 1e-4,
      "permuted probs");
}

// 300 copies of 1 in bf16: a running sum in the working precision stalls.
TEST(Unpermute, PrecisionIsTheOneAskedFor) {
  const Tensor routing = mask(std::vector<std::uint8_t>(300, 1), {1, 300});
  const RowMap map = row_map_from_mask(routing);
  const Tensor ones =
      make_tensor(std::vector<double>(300, 1), {300, 1}, DType::kBF16);
  using enum InternalPrecision;
  for (InternalPrecision p : kInternalPrecisions)
    EXPECT_EQ(values_of(moe_unpermute_forward(ones, map, {}, {p}))[0],
              p == kWorking ? 256 : 300)
        << precision_name(p);
}

TEST(SortChunks, ForwardAndBack) {
  const Tensor x = make_tensor({1, 2, 3, 4, 5}, {5, 1}, DType::kBF16);
  const Tensor probs = make_tensor({.1, .2, .3, .4, .5}, {5});
  const Ints sizes = {2, 0, 3}, order = {2, 0, 1};
  const Permuted out = moe_sort_chunks_forward(x, sizes, order, probs);
  EXPECT_EQ(values_of(out.rows), (std::vector<double>{3, 4, 5, 1, 2}));
  const Permuted back =
      moe_sort_chunks_backward(out.rows, sizes, order, out.probs);
  EXPECT_TRUE(same_bits(back.rows, x));
  EXPECT_TRUE(same_bits(back.probs, probs));
  EXPECT_EQ(
      error_of([&] {
        moe_sort_chunks_forward(x, sizes, Ints{0, 0, 1});
      }),
      "moe_sort_chunks_forward: order: chunk 0, expected each of 0..2 once");
  error_of([&] { moe_sort_chunks_forward(x, Ints{2, 0, 4}, order); });
}

TEST(Permute, StridedAndEmptyInputs) {
  const RowMap map = row_map_from_mask(small_mask());
  const Tensor x = normal_tensor({3, 4}, DType::kBF16, 1);
  EXPECT_TRUE(same_bits(moe_permute_forward(strided_like(x), map).rows,
                        moe_permute_forward(x, map).rows));
  const RowMap none = row_map_from_mask(Tensor::empty(DType::kBool, {0, 4}));
  EXPECT_EQ(none.rows, 0);
  const Tensor empty = Tensor::empty(DType::kF32, {0, 8});
  EXPECT_EQ(moe_permute_forward(empty, none).rows.shape(), (Shape{0, 8}));
  EXPECT_EQ(moe_unpermute_forward(empty, none).shape(), (Shape{0, 8}));
  const RowMap nowhere = row_map_from_mask(Tensor::zeros(DType::kU8, {2, 4}));
  EXPECT_EQ(values_of(moe_unpermute_forward(empty, nowhere)),
            std::vector<double>(16, 0.0));
}

TEST(Permute, WrongShapesAreNamed) {
  const RowMap map = row_map_from_mask(small_mask());
  const Tensor x = normal_tensor({4, 2}, DType::kF32, 1);
  EXPECT_EQ(error_of([&] { moe_permute_forward(x, map); }),
            "moe_permute_forward: tokens: shape [4, 2], expected [3, 2]");
  EXPECT_NE(error_of([&] {
              moe_unpermute_backward(normal_tensor({3, 2}, DType::kF32, 1), map,
                                     {}, normal_tensor({3, 3}, DType::kF32, 1));
            }).find("rows: none"),
            std::string::npos);
}

TEST(Permute, SameBitsForAnyNumberOfThreads) {
  const Tensor routing = random_mask(3000, 16, 9);
  const Tensor x = normal_tensor({3000, 64}, DType::kBF16, 1);
  const Tensor probs = normal_tensor({3000, 16}, DType::kF32, 2);
  expect_thread_invariance(
      [&] {
        const RowMap map = row_map_from_mask(routing, -1, 16);
        const Permuted p = moe_permute_forward(x, map, probs);
        const auto g = moe_unpermute_backward(x, map, p.rows, probs);
        return std::vector<Tensor>{map.slots, p.rows,
                                   moe_unpermute_forward(p.rows, map, probs),
                                   g.rows, g.merging_probs};
      },
      "permute");
}

}  // namespace
}  // namespace assay::te
