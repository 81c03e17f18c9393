#include "assay/te/quantize/layout_block128.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "assay/base/error.h"

namespace assay::te {
namespace {

using Floats = std::vector<float>;

QuantizedData counted(ScalingMode mode, bool columnwise, const Shape& shape) {
  QuantizedData q;
  q.mode = mode;
  q.columnwise = columnwise;
  q.scale_inv = Tensor::empty(
      DType::kF32,
      block128_scale_shape(mode, columnwise, shape, ScaleLayout::kCompact));
  auto* scale = q.scale_inv.mutable_data<float>();
  std::iota(scale, scale + q.scale_inv.numel(), 1.0f);
  return q;
}

Floats values(const Tensor& t) {
  return Floats(t.data<float>(), t.data<float>() + t.numel());
}

// A 5 x 200 matrix has 5 x 2 row blocks: transposed and padded to 2 x 8.
TEST(Block128Layout, RowBlocksAreTransposedAndPadded) {
  const Shape shape = {5, 200};
  const auto q = counted(ScalingMode::kBlock1D, false, shape);
  EXPECT_EQ(q.scale_inv.shape(), (Shape{5, 2}));
  const auto gemm = block128_with_layout(q, shape, ScaleLayout::kGemmReady);
  EXPECT_EQ(gemm.scale_inv.shape(), (Shape{2, 8}));
  EXPECT_EQ(values(gemm.scale_inv), (Floats{1, 3, 5, 7, 9, 0, 0, 0,  //
                                            2, 4, 6, 8, 10, 0, 0, 0}));
}

// Columnwise tiles of a 200 x 300 matrix: 3 x 2, the inner side padded to 4.
TEST(Block128Layout, TilesKeepTheirOrderAndArePadded) {
  const Shape shape = {2, 100, 300};
  const auto q = counted(ScalingMode::kBlock2D, true, shape);
  const auto gemm = block128_with_layout(q, shape, ScaleLayout::kGemmReady);
  EXPECT_EQ(gemm.scale_inv.shape(), (Shape{3, 4}));
  EXPECT_EQ(values(gemm.scale_inv),
            (Floats{1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0}));
}

TEST(Block128Layout, ThereAndBackIsTheIdentity) {
  for (ScalingMode mode : {ScalingMode::kBlock1D, ScalingMode::kBlock2D}) {
    for (bool columnwise : {false, true}) {
      for (const Shape& shape : {Shape{1, 1}, Shape{4, 128}, Shape{129, 257},
                                 Shape{0, 256}, Shape{3, 0}}) {
        const auto q = counted(mode, columnwise, shape);
        const auto there =
            block128_with_layout(q, shape, ScaleLayout::kGemmReady);
        const auto back =
            block128_with_layout(there, shape, ScaleLayout::kCompact);
        EXPECT_EQ(back.layout, ScaleLayout::kCompact);
        EXPECT_EQ(back.scale_inv.shape(), q.scale_inv.shape());
        EXPECT_EQ(values(back.scale_inv), values(q.scale_inv));
      }
    }
  }
}

TEST(Block128Layout, HasNoSwizzle) {
  const Shape shape = {4, 128};
  const auto q = counted(ScalingMode::kBlock1D, false, shape);
  try {
    block128_with_layout(q, shape, ScaleLayout::kSwizzled);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "with_layout: layout: swizzled for block 1x128, expected "
                 "compact or GEMM-ready");
  }
}

}  // namespace
}  // namespace assay::te
