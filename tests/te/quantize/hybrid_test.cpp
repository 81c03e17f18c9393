// Quantisers made of others: hybrid, identity, and updates in place.
#include "assay/te/quantize/hybrid.h"

#include <gtest/gtest.h>

#include <cmath>

#include "assay/te/ops/gemm.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/identity.h"
#include "assay/te/quantize/update.h"
#include "tests/te/quantize/tensors.h"

namespace assay::te {
namespace {

using Floats = std::vector<float>;

std::unique_ptr<Quantizer> current(DType format) {
  return std::make_unique<CurrentScalingQuantizer>(
      CurrentScalingOptions{.format = format});
}
std::unique_ptr<Quantizer> block() {
  return std::make_unique<Block128Quantizer>(
      Block128Options{DType::kE5M2, 1, true, 0});
}

TEST(Hybrid, EachDirectionHasItsQuantiser) {
  const Tensor x = normal(DType::kBF16, {130, 140}, 1);
  HybridQuantizer hybrid(current(DType::kE4M3FN), block());
  const auto q = hybrid.quantize(x);
  EXPECT_EQ(q.rowwise->mode, ScalingMode::kTensor);
  EXPECT_EQ(q.columnwise->mode, ScalingMode::kBlock1D);
  expect_same_bits(q.rowwise->data,
                   current(DType::kE4M3FN)->quantize(x).rowwise->data, "rows");
  expect_same_bits(q.columnwise->data, block()->quantize(x).columnwise->data,
                   "columns");
}

TEST(Hybrid, ColumnsCanComeFromTheDecodedRows) {
  const Tensor x = normal(DType::kBF16, {130, 140}, 2);
  HybridQuantizer hybrid(current(DType::kE4M3FN), block(),
                         ColumnwiseSource::kRowwiseDequantized);
  const auto rows = current(DType::kE4M3FN)->quantize(x);
  const auto expected = block()->quantize(dequantize(rows, DType::kBF16));
  const auto q = hybrid.quantize(x);
  expect_same_bits(q.columnwise->data, expected.columnwise->data, "codes");
  expect_same_bits(q.columnwise->scale_inv, expected.columnwise->scale_inv,
                   "scales");
  hybrid.set_usage({false, true});
  const auto only = hybrid.clone()->quantize(x);
  EXPECT_FALSE(only.rowwise);
  expect_same_bits(only.columnwise->data, expected.columnwise->data, "only");
}

TEST(Hybrid, NeedsBoth) {
  EXPECT_EQ(error_of([] { HybridQuantizer(block(), nullptr); }),
            "HybridQuantizer: columnwise_quantizer: null, expected a "
            "quantiser");
}

TEST(Identity, KeepsTheValuesInBothDirections) {
  const Tensor x = normal(DType::kBF16, {2, 3, 5}, 3);
  IdentityQuantizer identity;
  const auto q = identity.quantize(x);
  EXPECT_EQ(q.rowwise->mode, ScalingMode::kIdentity);
  EXPECT_EQ(q.columnwise->data.shape(), (Shape{6, 5}));
  expect_same_bits(dequantize(q, DType::kBF16), x, "values");
  EXPECT_EQ(floats(dequantize(q, DType::kF32)), floats(x));
}

// A 2 x 3 matrix by its columns: dw = dy^T x, by hand.
TEST(Identity, ColumnsMultiplyAsTheTensorDoes) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6}), dy = f32({2, 1}, {1, 10});
  IdentityQuantizer identity;
  identity.set_usage({false, true});
  const Tensor dw = gemm_wgrad(dy, identity.quantize(x)).d;
  EXPECT_EQ(dw.shape(), (Shape{1, 3}));
  EXPECT_EQ(floats(dw), (Floats{41, 52, 63}));
  identity.set_usage({true, false});
  const Tensor y = gemm_fprop(identity.quantize(x), f32({1, 3}, {1, 1, 1})).d;
  EXPECT_EQ(floats(y), (Floats{6, 15}));
}

TEST(Identity, CastsWhereItIsAsked) {
  IdentityQuantizer identity(DType::kBF16);
  const auto q = identity.quantize(f32({1, 2}, {1 + 0x1p-9f, 3}));
  EXPECT_EQ(q.rowwise->data.dtype(), DType::kBF16);
  EXPECT_EQ(floats(q.rowwise->data), (Floats{1, 3}));
  EXPECT_EQ(floats(convert_high_precision(q.rowwise->data, DType::kF16)),
            (Floats{1, 3}));
  EXPECT_NE(error_of([] { IdentityQuantizer(DType::kF64); }), "no error");
}

// The flag keeps destination, state and all.
TEST(UpdateQuantized, NoopFlagKeepsEverything) {
  auto state = std::make_shared<DelayedScalingState>(2, 1);
  DelayedScalingQuantizer quantizer(DType::kE4M3FN, state, 0);
  auto q = quantizer.quantize(f32({1, 2}, {1, 2}));
  const Tensor on = f32({1}, {1}), off = f32({1}, {0});
  update_quantized(quantizer, f32({1, 2}, {8, 8}), q, &on);
  EXPECT_EQ(floats(dequantize(q, DType::kF32)), (Floats{1, 2}));
  EXPECT_EQ(state->staging()[0], 2.0f);
  update_quantized(quantizer, f32({1, 2}, {8, 8}), q, &off);
  EXPECT_EQ(floats(dequantize(q, DType::kF32)), (Floats{8, 8}));
  EXPECT_EQ(state->staging()[0], 8.0f);
  EXPECT_EQ(error_of([&] {
              update_quantized(quantizer, f32({2, 1}, {8, 8}), q);
            }),
            "update_quantized: x: shape [2, 1], expected [1, 2]");
}

}  // namespace
}  // namespace assay::te
