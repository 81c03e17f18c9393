// Operators with a quantiser behind them: what is rounded where.
#include "assay/te/quantize/fused.h"

#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/parallel.h"
#include "assay/te/ops/bias_grad.h"
#include "assay/te/precision.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "tests/te/quantize/values.h"

namespace assay::te {
namespace {

void expect_same(const QuantizedTensor& a, const QuantizedTensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(bytes_of(a.rowwise->data), bytes_of(b.rowwise->data));
  EXPECT_EQ(bytes_of(a.rowwise->scale_inv), bytes_of(b.rowwise->scale_inv));
  ASSERT_EQ(a.columnwise.has_value(), b.columnwise.has_value());
  if (a.columnwise)
    EXPECT_EQ(bytes_of(a.columnwise->data), bytes_of(b.columnwise->data));
}

TEST(Fused, BlockFormatsSeeTheRoundedActivation) {
  const Tensor x = random_values(DType::kBF16, {64, 128}, 61);
  MXFP8Quantizer mx(DType::kE4M3FN);
  NVFP4Quantizer nv;
  Block128Quantizer block({});
  CurrentScalingQuantizer current({});
  for (Quantizer* quantizer :
       std::initializer_list<Quantizer*>{&mx, &nv, &block, &current}) {
    expect_same(activation_quantize(*quantizer, Activation::kGelu, x),
                quantizer->quantize(activation_forward(Activation::kGelu, x)));
    expect_same(
        activation_quantize(*quantizer, Activation::kSwiglu, x),
        quantizer->quantize(activation_forward(Activation::kSwiglu, x)));
  }
}

// One element: srelu(2.0156) = 4.0627 in fp32, 4.0625 in bf16.
TEST(Fused, T9_DelayedScalingSeesTheUnroundedOne) {
  const Tensor x = tensor_of(DType::kBF16, {1, 1}, {2.015625});
  DelayedScalingQuantizer delayed(
      DType::kE4M3FN, std::make_shared<DelayedScalingState>(1, 1), 0);
  CurrentScalingQuantizer current({});
  EXPECT_EQ(
      value_at(
          activation_quantize(delayed, Activation::kSRelu, x).rowwise->amax, 0),
      2.015625 * 2.015625);
  EXPECT_EQ(
      value_at(
          activation_quantize(current, Activation::kSRelu, x).rowwise->amax, 0),
      4.0625);
}

TEST(Fused, BackwardIsTheRoundedGradient) {
  const Tensor x = random_values(DType::kBF16, {64, 128}, 62);
  const Tensor dy = random_values(DType::kBF16, {64, 128}, 63);
  const Tensor half = random_values(DType::kBF16, {64, 64}, 64);
  MXFP8Quantizer quantizer(DType::kE5M2);
  expect_same(
      dactivation_quantize(quantizer, Activation::kSilu, dy, x),
      quantizer.quantize(activation_backward(Activation::kSilu, dy, x)));
  expect_same(
      dactivation_quantize(quantizer, Activation::kGeglu, half, x),
      quantizer.quantize(activation_backward(Activation::kGeglu, half, x)));
  const auto both =
      dactivation_quantize_dbias(quantizer, Activation::kSilu, dy, x);
  expect_same(both.quantized, quantizer.quantize(activation_backward(
                                  Activation::kSilu, dy, x)));
}

// dgelu in fp64, where an fp32 evaluation of the formula cancels.
TEST(Fused, DgeluAgainstFp64) {
  Tensor x = Tensor::zeros(DType::kBF16, {32, 64});
  for (std::int64_t i = 0; i < x.numel(); ++i)
    store_from_double(DType::kBF16, (static_cast<double>(i) - 1024) / 128,
                      x.mutable_data(), i);
  const Tensor dy = random_values(DType::kBF16, {32, 64}, 65);
  MXFP8Quantizer quantizer(DType::kE5M2);
  const auto result =
      dactivation_quantize_dbias(quantizer, Activation::kGelu, dy, x);
  const Tensor back = dequantize(result.quantized, DType::kF32);
  std::vector<double> sums(64), magnitudes(64);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double v = value_at(x, i);
    const double t = std::tanh(0.79788456 * v * (1 + 0.044715 * v * v));
    const double d =
        0.5 * v * ((1 - t * t) * (0.79788456 + 0.1070322243 * v * v)) +
        0.5 * (1 + t);
    const double expected = value_at(dy, i) * d;
    sums[static_cast<std::size_t>(i % 64)] += expected;
    magnitudes[static_cast<std::size_t>(i % 64)] += std::abs(expected);
    // Two mantissa bits, after a rounding to bf16; below the format's range
    // half its smallest step under a scale of at most 2^-12.
    EXPECT_NEAR(value_at(back, i), expected,
                std::abs(expected) * (0.125 + 0.004) + 0x1p-29)
        << v;
  }
  for (std::size_t c = 0; c < 64; ++c) {
    EXPECT_NEAR(value_at(result.dbias, static_cast<std::int64_t>(c)), sums[c],
                std::abs(sums[c]) * 0x1p-8 + magnitudes[c] * 0x1p-20);
  }
}

// srelu'(1.9921875) * 0.50390625 = 2.00775, 2 in bf16; 768 of them are 1541.95,
// 1544 in bf16, where 768 rounded ones are 1536.
TEST(Fused, DbiasSumsBeforeTheRounding) {
  const auto filled = [](double v) {
    return tensor_of(DType::kBF16, {768, 32}, std::vector<double>(768 * 32, v));
  };
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  const auto result = dactivation_quantize_dbias(
      quantizer, Activation::kSRelu, filled(0.50390625), filled(1.9921875));
  EXPECT_EQ(value_at(result.dbias, 0), 1544);
  EXPECT_EQ(value_at(dequantize(result.quantized, DType::kF32), 0), 2);
}

TEST(Fused, QuantizeDbias) {
  const Tensor x = random_values(DType::kF32, {320, 1056}, 66, 3);
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  const auto result = quantize_dbias(quantizer, x);
  expect_same(result.quantized, quantizer.quantize(x));
  for (std::int64_t c = 0; c < 1056; ++c) {
    double sum = 0;
    for (std::int64_t r = 0; r < 320; ++r) sum += value_at(x, r * 1056 + c);
    EXPECT_NEAR(value_at(result.dbias, c), sum,
                std::abs(sum) * 0x1p-23 + 1e-12);
  }
}

TEST(Fused, BiasGradPrecisionsAndThreads) {
  const Tensor x = random_values(DType::kBF16, {600, 70}, 67);
  set_thread_count(1);
  const auto one = bytes_of(bias_grad(x, DType::kF32));
  set_thread_count(4);
  EXPECT_EQ(bytes_of(bias_grad(x, DType::kF32)), one);
  set_thread_count(0);
  EXPECT_EQ(bytes_of(bias_grad(x, DType::kF32, InternalPrecision::kF64)), one);
  const Tensor working =
      bias_grad(x, DType::kBF16, InternalPrecision::kWorking);
  const Tensor best = bias_grad(x, DType::kBF16);
  EXPECT_NE(bytes_of(working), bytes_of(best)) << "bf16 sums lose low bits";
  const PrecisionScope scope("bias_grad", InternalPrecision::kWorking);
  EXPECT_EQ(bytes_of(bias_grad(x, DType::kBF16)), bytes_of(working));
}

TEST(Fused, BiasGradOfNoRowsIsZero) {
  const Tensor sums =
      bias_grad(Tensor::zeros(DType::kBF16, {0, 5}), DType::kBF16);
  EXPECT_EQ(bytes_of(sums), std::vector<std::uint8_t>(10, 0));
}

TEST(Fused, NormsQuantised) {
  const Tensor x = random_values(DType::kBF16, {64, 96}, 68, 2);
  const Tensor gamma = random_values(DType::kBF16, {96}, 69);
  const Tensor beta = random_values(DType::kBF16, {96}, 70);
  MXFP8Quantizer mx(DType::kE4M3FN);
  const NormForward plain = layernorm_forward(x, gamma, beta);
  const NormQuantized fused = layernorm_quantize(mx, x, gamma, beta);
  expect_same(fused.z, mx.quantize(plain.z));
  EXPECT_EQ(bytes_of(fused.mean), bytes_of(plain.mean));
  EXPECT_EQ(bytes_of(fused.rsigma), bytes_of(plain.rsigma));
  // Delayed scaling: amax of the fp32 z.
  DelayedScalingQuantizer delayed(
      DType::kE4M3FN, std::make_shared<DelayedScalingState>(1, 1), 0);
  const NormQuantized rms = rmsnorm_quantize(delayed, x, gamma);
  const Tensor rounded = rmsnorm_forward(x, gamma).z;
  double most = 0;
  for (std::int64_t i = 0; i < rounded.numel(); ++i)
    most = std::max(most, std::abs(value_at(rounded, i)));
  const double amax = value_at(rms.z.rowwise->amax, 0);
  EXPECT_NEAR(amax, most, most * 0x1p-8);
  EXPECT_NE(amax, round_to(DType::kBF16, amax));
  EXPECT_EQ(rms.z.dtype, DType::kBF16);
}

}  // namespace
}  // namespace assay::te
