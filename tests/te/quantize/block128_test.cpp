#include "assay/te/quantize/block128.h"

#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/parallel.h"
#include "assay/te/quantize/current.h"
#include "tests/te/quantize/tensors.h"

namespace assay::te {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Floats = std::vector<float>;

Block128Quantizer block(int dim, bool pow2 = true,
                        DType format = DType::kE4M3FN) {
  return Block128Quantizer({format, dim, pow2, 0});
}

Tensor filled(DType dtype, const Shape& shape, float value) {
  return tensor_of(
      dtype, shape,
      Floats(static_cast<std::size_t>(*checked_numel(shape)), value));
}

TEST(Block128, F02_ZeroBlockBesideAnotherIsZero) {
  Floats values(256, 0);
  values[128] = 1;
  const auto q = block(1).quantize(f32({1, 256}, values));
  EXPECT_EQ(floats(q.rowwise->scale_inv), (Floats{1, 1 / 256.0f}));
  EXPECT_EQ(floats(dequantize(q, DType::kF32)), values);
  for (std::size_t i = 0; i < 128; ++i)
    ASSERT_EQ(codes(q.rowwise->data)[i], 0u);
}

// Rows of their own: a zero row has a scale, the next one is untouched.
TEST(Block128, F03_ZeroRowLeavesTheOthersAlone) {
  const auto q =
      block(1, false).quantize(f32({2, 4}, {0, 0, 0, 0, 1, 2, 3, 4}));
  EXPECT_EQ(floats(q.rowwise->scale_inv), (Floats{1, 4 / 448.0f}));
  const Floats back = floats(dequantize(q, DType::kF32));
  EXPECT_EQ(back[0], 0.0f);
  EXPECT_NEAR(back[7], 4.0f, 1e-6f);
}

// A row's last block is short and has a scale of its own.
TEST(Block128, F17_ShortBlocksDoNotRunOnIntoTheNextRow) {
  Floats values(2 * 136, 1);
  std::fill(values.begin() + 136, values.end(), 1024.0f);
  for (bool pow2 : {false, true}) {
    const auto q = block(1, pow2).quantize(f32({2, 136}, values));
    EXPECT_EQ(q.rowwise->scale_inv.shape(), (Shape{2, 2}));
    EXPECT_EQ(floats(dequantize(*q.rowwise, q.shape, DType::kF32)), values);
  }
}

TEST(Block128, NanDoesNotCountAndInfinityMeansOne) {
  Floats values(256, 1.75f);
  values[3] = kNan;
  values[130] = -kInf;
  const auto q = block(1).quantize(f32({1, 256}, values));
  EXPECT_EQ(floats(q.rowwise->scale_inv), (Floats{1 / 256.0f, 1}));
  EXPECT_EQ(codes(q.rowwise->data)[3], 0x7fu);
  EXPECT_EQ(codes(q.rowwise->data)[130], 0xfeu);
  EXPECT_EQ(codes(q.rowwise->data)[131], 0x3eu);
}

// T6: 448 / 1e-38 becomes the largest bf16 for bf16, the largest fp32 for
// fp32; both 2^127 as powers of two.
TEST(Block128, T6_OverflowingScaleIsTheInputsLargestValue) {
  const auto bf16 =
      block(1, false).quantize(filled(DType::kBF16, {1, 4}, 1e-38f));
  EXPECT_EQ(floats(bf16.rowwise->scale_inv), (Floats{1 / 0x1.fep127f}));
  const auto f32 =
      block(1, false).quantize(filled(DType::kF32, {1, 4}, 1e-38f));
  EXPECT_EQ(floats(f32.rowwise->scale_inv), (Floats{0x1p-128f}));
  const auto f16 =
      block(1, false).quantize(filled(DType::kF16, {1, 4}, 0x1p-24f));
  EXPECT_EQ(floats(f16.rowwise->scale_inv), (Floats{1 / (448 * 0x1p24f)}));
}

TEST(Block128, PowerOfTwoScalesAreExact) {
  const auto q = block(2).quantize(normal(DType::kBF16, {200, 300}, 2));
  for (float s : floats(q.rowwise->scale_inv)) {
    int exponent;
    EXPECT_EQ(std::frexp(s, &exponent), 0.5f);
  }
}

// Columns are quantised from the input: as the rows of its transpose.
TEST(Block128, ColumnsAreTheRowsOfTheTranspose) {
  for (int dim : {1, 2}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{127, 129}, Shape{128, 128},
                               Shape{129, 513}, Shape{300, 7}}) {
      const Tensor x = normal(DType::kF32, shape, 3);
      Tensor t = x;
      t.view.shape = {shape[1], shape[0]};
      t.view.strides = {1, shape[1]};
      const auto q = block(dim, false).quantize(x);
      const auto qt = block(dim, false).quantize(t);
      expect_same_bits(q.columnwise->data, qt.rowwise->data, "codes");
      expect_same_bits(q.columnwise->scale_inv, qt.rowwise->scale_inv,
                       "scales");
      for (DType out : {DType::kF32, DType::kBF16}) {
        const Floats a = floats(dequantize(*q.columnwise, shape, out));
        const Floats b = floats(dequantize(*qt.rowwise, t.shape(), out));
        for (std::int64_t r = 0; r < shape[0]; ++r)
          for (std::int64_t c = 0; c < shape[1]; ++c)
            ASSERT_EQ(a[static_cast<std::size_t>(r * shape[1] + c)],
                      b[static_cast<std::size_t>(c * shape[0] + r)]);
      }
    }
  }
}

// One tile is a tensor: current scaling gives the same codes.
TEST(Block128, OneTileIsCurrentScaling) {
  const Tensor x = normal(DType::kF32, {128, 128}, 8);
  const auto tile = block(2, false).quantize(x);
  CurrentScalingQuantizer current({});
  expect_same_bits(tile.rowwise->data, current.quantize(x).rowwise->data, "");
}

TEST(Block128, SameBitsForAnyThreadsAndAsThePlainLoops) {
  for (int dim : {1, 2}) {
    const Tensor x = normal(DType::kBF16, {261, 1029}, 6);
    Tensor plain = x;
    plain.device = Device::kReference;
    set_thread_count(1);
    const auto one = block(dim).quantize(x);
    set_thread_count(4);
    const auto four = block(dim).quantize(x);
    set_thread_count(0);
    expect_same_bits(one, four, "threads");
    expect_same_bits(one, block(dim).quantize(plain), "reference");
  }
}

TEST(Block128, OneDirectionIsThatOfBoth) {
  for (int dim : {1, 2}) {
    const Tensor x = normal(DType::kF16, {140, 200}, 6);
    auto quantizer = block(dim);
    const auto both = quantizer.quantize(x);
    quantizer.set_usage({false, true});
    const auto columns = quantizer.quantize(x);
    EXPECT_FALSE(columns.rowwise);
    expect_same_bits(both.columnwise->data, columns.columnwise->data, "");
    quantizer.set_usage({true, false});
    const auto rows = quantizer.quantize(x);
    expect_same_bits(both.rowwise->data, rows.rowwise->data, "");
    expect_same_bits(both.rowwise->scale_inv, rows.rowwise->scale_inv, "");
  }
}

TEST(Block128, ZeroRowsGiveEmptyData) {
  for (int dim : {1, 2}) {
    const auto q = block(dim).quantize(Tensor::empty(DType::kBF16, {0, 200}));
    EXPECT_EQ(q.rowwise->scale_inv.shape(),
              (dim == 1 ? Shape{0, 2} : Shape{0, 2}));
    EXPECT_EQ(q.columnwise->data.shape(), (Shape{200, 0}));
    EXPECT_EQ(dequantize(*q.columnwise, q.shape, DType::kF32).numel(), 0);
  }
}

TEST(Block128, SeveralTensorsAreAsOneAfterTheOther) {
  const std::vector<Tensor> xs = {normal(DType::kBF16, {130, 260}, 1),
                                  normal(DType::kF32, {1, 700}, 2)};
  auto quantizer = block(1);
  const auto all = quantizer.quantize_multi(xs);
  for (std::size_t i = 0; i < xs.size(); ++i)
    expect_same_bits(all[i], quantizer.quantize(xs[i]), std::to_string(i));
}

// T9: block formats see the operator's result in the tensor's dtype.
TEST(Block128, FusedInputIsRoundedFirst) {
  const Tensor x = f32({1, 2}, {256.75f, 0.5f});  // bf16: 256
  const auto q = block(1, false).quantize_fused(x, DType::kBF16);
  EXPECT_EQ(floats(q.rowwise->scale_inv), (Floats{1 / (448.0f / 256)}));
  EXPECT_EQ(q.dtype, DType::kBF16);
}

// Three shards of a weight, none of whose ends is at a row or a tile.
TEST(Block128, ShardsWriteTheBytesOfTheWhole) {
  const Shape shape = {200, 300};
  const Tensor x = normal(DType::kF32, shape, 12);
  const std::int64_t cuts[] = {0, 12345, 40001, 60000};
  const auto shard = [&](int i) {
    Tensor part = x;
    part.view.shape = {cuts[i + 1] - cuts[i]};
    part.view.strides = {};
    part.view.data += cuts[i] * 4;
    return part;
  };
  Tensor amax = Tensor::zeros(DType::kF32, {2, 3});
  for (int i : {0, 1, 2}) {
    const Tensor own = block128_partial_amax(shard(i), 200, 300, cuts[i]);
    for (int t = 0; t < 6; ++t)
      amax.mutable_data<float>()[t] =
          std::max(amax.data<float>()[t], own.data<float>()[t]);
  }
  const Scales scales = scales_from_amax(amax, DType::kE4M3FN, {.pow2 = true});
  const auto whole = block(2).quantize(x);
  expect_same_bits(scales.scale_inv, whole.rowwise->scale_inv, "scales");
  std::vector<unsigned> parts;
  for (int i : {0, 1, 2})
    for (unsigned code : codes(block128_partial_cast(
             shard(i), scales.scale, 200, 300, cuts[i], DType::kE4M3FN)))
      parts.push_back(code);
  EXPECT_EQ(parts, codes(whole.rowwise->data));
}

TEST(Block128, TilesThatAShardDoesNotTouchAreZero) {
  const Tensor amax =
      block128_partial_amax(filled(DType::kF32, {10}, -2), 200, 300, 295);
  EXPECT_EQ(floats(amax), (Floats{2, 0, 2, 0, 0, 0}));
}

TEST(Block128, RefusesWhatItCannotHold) {
  EXPECT_EQ(error_of([] { block(3); }),
            "Block128Quantizer: block_dim: 3, expected 1 (1 x 128) or 2 (128 x "
            "128)");
  EXPECT_EQ(
      error_of(
          [] { block128_partial_amax(filled(DType::kF32, {10}, 1), 2, 6, 5); }),
      "block128_partial_amax: start: 5 with 10 elements, expected a shard "
      "inside 12 elements");
}

}  // namespace
}  // namespace assay::te
