// Orders of block scales: padding, tiles, and the way back.
#include "assay/te/quantize/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "assay/base/error.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/block128_mxfp8.h"
#include "assay/te/quantize/grouped.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "assay/te/quantize/scale_tiles.h"
#include "tests/te/quantize/values.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

TEST(ScaleTiles, IndexIsAPermutation) {
  std::set<std::int64_t> seen;
  for (std::int64_t r = 0; r < 256; ++r)
    for (std::int64_t c = 0; c < 8; ++c) seen.insert(swizzled_index(r, c, 8));
  EXPECT_EQ(seen.size(), 2048u);
  EXPECT_EQ(*seen.rbegin(), 2047);
}

TEST(ScaleTiles, IndexByHand) {
  // Row 33 column 2 of the first tile: (33 mod 32) * 16 + 1 * 4 + 2.
  EXPECT_EQ(swizzled_index(33, 2, 8), 22);
  EXPECT_EQ(swizzled_index(33, 6, 8), 512 + 22);         // next tile across
  EXPECT_EQ(swizzled_index(128 + 33, 2, 8), 1024 + 22);  // next one down
  EXPECT_EQ(swizzled_index(127, 3, 4), 511);
}

struct Sides {
  QuantizedTensor mxfp8, nvfp4;
};

Sides quantized(std::int64_t m, std::int64_t k) {
  const Tensor x = random_values(DType::kBF16, {m, k}, 31, 6);
  return {MXFP8Quantizer(DType::kE4M3FN).quantize(x),
          NVFP4Quantizer().quantize(x)};
}

TEST(Layout, EveryPairOfLayoutsGoesThereAndBack) {
  constexpr ScaleLayout kAll[] = {
      ScaleLayout::kCompact, ScaleLayout::kGemmReady, ScaleLayout::kSwizzled};
  for (const std::int64_t m : {32, 128, 160, 0}) {
    for (const std::int64_t k : {32, 96, 128, 288}) {
      const Sides sides = quantized(m, k);
      for (const auto* q : {&sides.mxfp8, &sides.nvfp4}) {
        for (const auto* d : {&*q->rowwise, &*q->columnwise}) {
          for (const ScaleLayout from : kAll) {
            const QuantizedData a = with_layout(*d, q->shape, from);
            for (const ScaleLayout to : kAll) {
              const QuantizedData b = with_layout(a, q->shape, to);
              EXPECT_EQ(b.layout, to);
              const QuantizedData back =
                  with_layout(b, q->shape, ScaleLayout::kCompact);
              EXPECT_EQ(bytes_of(back.scale_inv), bytes_of(d->scale_inv));
              EXPECT_EQ(back.scale_inv.shape(), d->scale_inv.shape());
              EXPECT_EQ(bytes_of(dequantize(b, q->shape, DType::kBF16)),
                        bytes_of(dequantize(*d, q->shape, DType::kBF16)));
            }
          }
        }
      }
    }
  }
}

TEST(Layout, ShapesForTheGemm) {
  const Sides sides = quantized(160, 96);
  const auto shape_of = [](const QuantizedTensor& q, bool columnwise,
                           ScaleLayout layout) {
    const auto& d = columnwise ? q.columnwise : q.rowwise;
    return with_layout(*d, q.shape, layout).scale_inv.shape();
  };
  for (const auto layout : {ScaleLayout::kGemmReady, ScaleLayout::kSwizzled}) {
    EXPECT_EQ(shape_of(sides.mxfp8, false, layout), (Shape{256, 4}));
    EXPECT_EQ(shape_of(sides.mxfp8, true, layout), (Shape{8, 128}));
    EXPECT_EQ(shape_of(sides.nvfp4, false, layout), (Shape{256, 8}));
    EXPECT_EQ(shape_of(sides.nvfp4, true, layout), (Shape{128, 12}));
  }
}

TEST(Layout, PaddingIsZero) {
  const Sides sides = quantized(32, 96);
  const auto padded = with_layout(*sides.mxfp8.rowwise, sides.mxfp8.shape,
                                  ScaleLayout::kGemmReady);
  const auto bytes = bytes_of(padded.scale_inv);
  for (std::size_t r = 0; r < 128; ++r)
    for (std::size_t c = 0; c < 4; ++c)
      EXPECT_EQ(bytes[r * 4 + c] != 0, r < 32 && c < 3) << r << " " << c;
}

TEST(Layout, WhatHasNoTilesIsNotSwizzled) {
  QuantizedData q;
  q.mode = ScalingMode::kTensor;
  try {
    with_layout(q, {4, 4}, ScaleLayout::kSwizzled);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("mxfp8 or nvfp4"));
  }
  EXPECT_EQ(with_layout(q, {4, 4}, ScaleLayout::kGemmReady).layout,
            ScaleLayout::kGemmReady);
}

TEST(Layout, ScalesOfAnotherMatrixAreRefused) {
  const Sides sides = quantized(64, 96);
  EXPECT_THROW(
      with_layout(*sides.mxfp8.rowwise, {64, 128}, ScaleLayout::kSwizzled),
      Error);
}

// The MXFP8 data decodes to what the block-128 data stands for.
TEST(Layout, Block128AsMxfp8KeepsTheValues) {
  const Tensor x = random_values(DType::kBF16, {96, 288}, 33, 6);
  for (const int dim : {1, 2}) {
    const QuantizedTensor q = Block128Quantizer({.block_dim = dim}).quantize(x);
    const QuantizedData rows = block128_as_mxfp8(*q.rowwise, q.shape);
    EXPECT_EQ(rows.layout, ScaleLayout::kSwizzled);
    EXPECT_EQ(bytes_of(dequantize(rows, {96, 288}, DType::kF32)),
              bytes_of(dequantize(*q.rowwise, q.shape, DType::kF32)));
    // Column-wise data is a 288 x 96 matrix of its own.
    const QuantizedData columns = block128_as_mxfp8(*q.columnwise, q.shape);
    const Tensor stored = dequantize(columns, {288, 96}, DType::kF32);
    const Tensor values = dequantize(*q.columnwise, q.shape, DType::kF32);
    for (std::int64_t r = 0; r < 96; ++r)
      for (std::int64_t c = 0; c < 288; ++c)
        ASSERT_EQ(value_at(stored, c * 96 + r), value_at(values, r * 288 + c));
  }
}

TEST(Layout, Block128WithOtherScalesIsNoMxfp8) {
  const Tensor x = tensor_of(DType::kF32, {1, 32}, {3});
  const QuantizedTensor q =
      Block128Quantizer({.block_dim = 1, .pow2 = false}).quantize(x);
  try {
    block128_as_mxfp8(*q.rowwise, q.shape);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("powers of two"));
  }
}

}  // namespace
}  // namespace assay::te
