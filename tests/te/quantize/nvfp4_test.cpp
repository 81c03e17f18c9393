// NVFP4 quantisation: values worked by hand, variants, errors, invariances.
#include "assay/te/quantize/nvfp4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/te/quantize/hadamard.h"
#include "assay/te/quantize/nvfp4_transpose.h"
#include "tests/te/quantize/values.h"

namespace assay::te {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor block_with(DType dtype, const std::vector<double>& row) {
  return tensor_of(dtype, {16, 16}, row);
}

std::string message_of(const NVFP4Options& options, const Tensor& x,
                       Usage usage = {}) {
  try {
    NVFP4Quantizer quantizer(options);
    quantizer.set_usage(usage);
    quantizer.quantize(x);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
    return e.what();
  }
  return "";
}

TEST(Nvfp4, F16_GridValuesAreKeptAndTiesGoToEven) {
  // Amax 6 and a block with it: S_enc = 448, sd = 448 / 448 -> scale 448,
  // factor 1.
  const Tensor x =
      block_with(DType::kF32, {6, 0.25, 0.25000006, 0.75, 1.25, 1.75, 2.5, 3.5,
                               5, 5.0000005, -0.0, -0.25, 0.5, 1, 1.5, -4});
  NVFP4Quantizer quantizer;
  const QuantizedTensor q = quantizer.quantize(x);
  EXPECT_EQ(value_at(q.rowwise->scale_inv, 0), 448);
  const double expected[] = {6, 0, 0.5, 1, 1,   2, 2,   4,
                             4, 6, 0,   0, 0.5, 1, 1.5, -4};
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(value_at(q.rowwise->data, i), expected[i]) << i;
  // Codes 2i low, 2i + 1 high; -0 and -0.25 are code 8.
  EXPECT_EQ(bytes_of(q.rowwise->data)[5], 0x88);
  EXPECT_EQ(bytes_of(q.rowwise->data)[0], 0x07);
}

TEST(Nvfp4, F16_EveryFiniteCodeSurvivesARoundTrip) {
  std::vector<double> row(16);
  for (std::uint64_t code = 0; code < 16; ++code)
    row[code] = decode_float(DType::kE2M1, code);
  NVFP4Quantizer quantizer;
  const QuantizedTensor q = quantizer.quantize(block_with(DType::kBF16, row));
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(load_code(DType::kE2M1, q.rowwise->data.view.data, i),
              static_cast<std::uint64_t>(i));
    EXPECT_EQ(value_at(dequantize(q, DType::kF32), i),
              row[static_cast<std::size_t>(i)]);
  }
}

TEST(Nvfp4, T7_ScaleIsAmaxTimesASixthOfTheGlobalScale) {
  // A = 3: S_enc = 896; block amax 1: 896/6 = 149.3 -> e4m3 152? no, 144 or
  // 160: 149.33 is nearer 152 (step 8 is of the next binade, here 16): 144.
  std::vector<double> values(256, 0.0);
  values[0] = 3;
  values[16] = 1;
  NVFP4Quantizer quantizer;
  const QuantizedTensor q =
      quantizer.quantize(tensor_of(DType::kF32, {16, 16}, values));
  EXPECT_EQ(value_at(q.rowwise->amax, 0), 3);
  EXPECT_EQ(value_at(q.rowwise->scale_inv, 0), 448);
  EXPECT_EQ(value_at(q.rowwise->scale_inv, 1), 144);
  // Factor 896 / 144 = 6.22: 1 becomes 6 (saturated); decoded 6 * 144 / 896.
  EXPECT_EQ(value_at(q.rowwise->data, 16), 6);
  EXPECT_NEAR(value_at(dequantize(q, DType::kF32), 16), 6 * 144 / 896.0, 1e-6);
}

TEST(Nvfp4, F02_ZeroTensorDecodesToZero) {
  NVFP4Quantizer quantizer;
  const QuantizedTensor q = quantizer.quantize(block_with(DType::kBF16, {}));
  EXPECT_THAT(bytes_of(q.rowwise->data), Each(0));
  EXPECT_THAT(bytes_of(q.rowwise->scale_inv), Each(0));
  EXPECT_THAT(bytes_of(dequantize(q, DType::kF32)), Each(0));
}

TEST(Nvfp4, UnderflownScaleSaturatesCodesAndDecodesToZero) {
  std::vector<double> values(256, 0.0);
  values[0] = 1e6;
  values[16] = 1e-3;
  values[17] = -1e-3;
  NVFP4Quantizer quantizer;
  const QuantizedTensor q =
      quantizer.quantize(tensor_of(DType::kF32, {16, 16}, values));
  EXPECT_EQ(bytes_of(q.rowwise->scale_inv)[1], 0);
  EXPECT_EQ(bytes_of(q.rowwise->data)[8], 0xf7);
  EXPECT_EQ(value_at(dequantize(q, DType::kF32), 16), 0);
}

TEST(Nvfp4, NanIsPassedOverByAmaxAndIsSix) {
  NVFP4Quantizer quantizer;
  const QuantizedTensor q =
      quantizer.quantize(block_with(DType::kBF16, {kNan, 3, -kNan}));
  EXPECT_EQ(value_at(q.rowwise->amax, 0), 3);
  EXPECT_EQ(bytes_of(q.rowwise->data)[0], 0x77);
  EXPECT_EQ(bytes_of(q.rowwise->data)[1], 0x07);
}

TEST(Nvfp4, InfiniteAmaxHasGlobalScaleOne) {
  NVFP4Quantizer quantizer;
  const QuantizedTensor q =
      quantizer.quantize(block_with(DType::kF32, {-kInf, 448 * 6.0}));
  EXPECT_EQ(value_at(q.rowwise->scale_inv, 0), 448);
  EXPECT_EQ(value_at(q.rowwise->data, 0), -6);
  EXPECT_EQ(value_at(q.rowwise->data, 1), 6);
}

TEST(Nvfp4, ColumnsAreThoseOfTheTransposedMatrix) {
  const Tensor x = random_values(DType::kBF16, {144, 80}, 21, 4);
  Tensor t = x;
  t.view.strides = {1, 80};
  t.view.shape = {80, 144};
  NVFP4Quantizer quantizer;
  const QuantizedTensor q = quantizer.quantize(x);
  const QuantizedTensor of_transposed = quantizer.quantize(t);
  EXPECT_EQ(bytes_of(q.columnwise->data),
            bytes_of(of_transposed.rowwise->data));
  EXPECT_EQ(bytes_of(q.columnwise->scale_inv),
            bytes_of(of_transposed.rowwise->scale_inv));
  EXPECT_EQ(q.columnwise->data.shape(), (Shape{80, 144}));
  // Decoded, both are close to x and have its shape.
  const Tensor back = dequantize(*q.columnwise, q.shape, DType::kF32);
  EXPECT_EQ(back.shape(), x.shape());
  const double amax = value_at(q.rowwise->amax, 0);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    EXPECT_NEAR(value_at(back, i), value_at(x, i), amax / 5);
}

TEST(Nvfp4, TilesHaveOneScaleInBothDirections) {
  for (const FourOverSix mode : {FourOverSix::kNone, FourOverSix::kMse}) {
    const Tensor x = random_values(DType::kBF16, {80, 160}, 22, 3);
    NVFP4Quantizer quantizer({.with_2d = true, .four_over_six = mode});
    const QuantizedTensor q = quantizer.quantize(x);
    EXPECT_EQ(bytes_of(dequantize(*q.rowwise, q.shape, DType::kF32)),
              bytes_of(dequantize(*q.columnwise, q.shape, DType::kF32)));
    EXPECT_EQ(bytes_of(nvfp4_transpose_tiles(*q.columnwise).data),
              bytes_of(q.rowwise->data));
    const auto scales = bytes_of(q.rowwise->scale_inv);
    for (std::size_t r = 0; r < 80; ++r)
      for (std::size_t c = 0; c < 10; ++c)
        EXPECT_EQ(scales[r * 10 + c], scales[r / 16 * 160 + c]);
    quantizer.set_usage({false, true});
    const QuantizedTensor alone = quantizer.quantize(x);
    EXPECT_FALSE(alone.rowwise);
    EXPECT_EQ(bytes_of(alone.columnwise->data), bytes_of(q.columnwise->data));
  }
}

// 4-over-6 never errs more, by the measure that it uses, than plain NVFP4
// with the same candidates' first.
TEST(Nvfp4, FourOverSixLowersTheError) {
  const Tensor x = random_values(DType::kBF16, {64, 256}, 23, 0);
  const auto error = [&](const NVFP4Options& options) {
    NVFP4Quantizer quantizer(options);
    quantizer.set_usage({true, false});
    const Tensor back = dequantize(quantizer.quantize(x), DType::kF32);
    double sum = 0;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double d = value_at(back, i) - value_at(x, i);
      sum += d * d;
    }
    return sum;
  };
  EXPECT_LT(error({.four_over_six = FourOverSix::kMse}), error({}) * 0.97);
}

TEST(Nvfp4, T14_RhtNeedsBfloat16) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    EXPECT_THAT(message_of({.rht = true}, Tensor::zeros(dtype, {16, 16})),
                HasSubstr("expected bfloat16"));
  }
  // Rows alone are not transformed.
  EXPECT_EQ(message_of({.rht = true}, Tensor::zeros(DType::kF32, {16, 16}),
                       {true, false}),
            "");
}

TEST(Nvfp4, RhtActsOnColumnsOnly) {
  const Tensor x = random_values(DType::kBF16, {48, 80}, 24, 2);
  NVFP4Quantizer plain, rotating({.rht = true});
  const QuantizedTensor a = plain.quantize(x), b = rotating.quantize(x);
  EXPECT_EQ(bytes_of(a.rowwise->data), bytes_of(b.rowwise->data));
  EXPECT_NE(bytes_of(a.columnwise->data), bytes_of(b.columnwise->data));
  const QuantizedTensor of_rotated =
      plain.quantize(hadamard_transform_transposed(x));
  EXPECT_EQ(bytes_of(b.columnwise->data), bytes_of(of_rotated.rowwise->data));
  EXPECT_EQ(bytes_of(b.columnwise->amax), bytes_of(of_rotated.rowwise->amax));
}

TEST(Nvfp4, ShapesAndOptionsThatAreRefused) {
  EXPECT_THAT(message_of({}, Tensor::zeros(DType::kBF16, {15, 32})),
              HasSubstr("rows: 15, expected a multiple of 16"));
  EXPECT_THAT(message_of({}, Tensor::zeros(DType::kBF16, {16, 24})),
              HasSubstr("columns: 24, expected a multiple of 16"));
  const Tensor x = Tensor::zeros(DType::kBF16, {16, 16});
  EXPECT_THAT(message_of({.with_2d = true, .rht = true}, x),
              HasSubstr("rht: on together with with_2d"));
  EXPECT_THAT(message_of({.row_scaled = true}, x), HasSubstr("row-wise usage"));
  EXPECT_THAT(message_of({.stochastic_rounding = true, .row_scaled = true}, x),
              HasSubstr("row_scaled"));
  EXPECT_THAT(message_of({.rht = true, .four_over_six = FourOverSix::kMae}, x),
              HasSubstr("four_over_six"));
  EXPECT_THAT(message_of({.scale_max = 256}, x),
              HasSubstr("448, or 256 with four_over_six"));
}

TEST(Nvfp4, RowScaledRowsDoNotKnowEachOther) {
  const Tensor x = random_values(DType::kBF16, {32, 64}, 25, 10);
  NVFP4Quantizer quantizer({.row_scaled = true});
  quantizer.set_usage({true, false});
  const QuantizedTensor q = quantizer.quantize(x);
  EXPECT_EQ(q.rowwise->amax.shape(), (Shape{32}));
  // Row 5 sixteen times over, alone: an amax of its own, the same codes.
  Tensor alone = Tensor::zeros(DType::kBF16, {16, 64});
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 64; ++c)
      alone.mutable_data<std::uint16_t>()[r * 64 + c] =
          x.data<std::uint16_t>()[5 * 64 + c];
  NVFP4Quantizer plain;
  const auto codes = bytes_of(plain.quantize(alone).rowwise->data);
  const auto rows = bytes_of(q.rowwise->data);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(rows[5 * 32 + i], codes[i]);
}

NVFP4Options stochastic(std::uint64_t seed, std::uint64_t offset = 0) {
  return {.stochastic_rounding = true,
          .random_seed = seed,
          .random_offset = offset};
}

TEST(Nvfp4, StochasticRoundingDependsOnSeedAndOffsetAlone) {
  const Tensor x = random_values(DType::kBF16, {272, 1040}, 26);
  NVFP4Quantizer a(stochastic(7)), b(stochastic(7)), c(stochastic(8));
  set_thread_count(1);
  const QuantizedTensor first = a.quantize(x);
  set_thread_count(4);
  const QuantizedTensor again = b.quantize(x);
  set_thread_count(0);
  EXPECT_EQ(bytes_of(first.rowwise->data), bytes_of(again.rowwise->data));
  EXPECT_EQ(bytes_of(first.columnwise->data), bytes_of(again.columnwise->data));
  EXPECT_NE(bytes_of(first.rowwise->data),
            bytes_of(c.quantize(x).rowwise->data));
  // The next call draws other bytes; an offset set back repeats the first.
  EXPECT_EQ(a.random_offset(), 2u);
  EXPECT_NE(bytes_of(first.rowwise->data),
            bytes_of(a.quantize(x).rowwise->data));
  a.set_random_offset(0);
  EXPECT_EQ(bytes_of(first.rowwise->data),
            bytes_of(a.quantize(x).rowwise->data));
  // One direction alone is the same as with the other.
  NVFP4Quantizer d(stochastic(7));
  d.set_usage({false, true});
  EXPECT_EQ(bytes_of(d.quantize(x).columnwise->data),
            bytes_of(first.columnwise->data));
}

// NVTE's own test of it: averaged over draws, stochastic rounding is closer to
// x than nearest rounding.
TEST(Nvfp4, StochasticRoundingIsRightOnAverage) {
  const Tensor x = random_values(DType::kBF16, {64, 256}, 27);
  NVFP4Quantizer nearest;
  const Tensor rounded = dequantize(nearest.quantize(x), DType::kF32);
  std::vector<double> mean(static_cast<std::size_t>(x.numel()));
  constexpr int kDraws = 48;
  NVFP4Quantizer quantizer(stochastic(99));
  quantizer.set_usage({true, false});
  for (int draw = 0; draw < kDraws; ++draw) {
    const Tensor back = dequantize(quantizer.quantize(x), DType::kF32);
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += value_at(back, static_cast<std::int64_t>(i)) / kDraws;
  }
  double of_mean = 0, of_nearest = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    of_mean += std::abs(mean[i] - value_at(x, at));
    of_nearest += std::abs(value_at(rounded, at) - value_at(x, at));
  }
  EXPECT_LT(of_mean, 0.4 * of_nearest);
}

// The rule itself: element i of block b takes byte i % 4 of word i / 4.
TEST(Nvfp4, StochasticRoundingByHand) {
  std::vector<double> row(16, 1.125);
  row[0] = 6;
  NVFP4Quantizer quantizer(stochastic(5, 40));
  quantizer.set_usage({true, false});
  const QuantizedTensor q = quantizer.quantize(block_with(DType::kF32, row));
  const auto words = philox4x32({0, 0, 40, 0}, {5, 0});
  for (unsigned i = 1; i < 16; ++i) {
    const std::uint32_t byte = words[i / 4] >> (8 * (i % 4)) & 255;
    // 1.125 + 0.5 u reaches 1.5 where u >= 0.75.
    EXPECT_EQ(value_at(q.rowwise->data, i), byte >= 192 ? 1.5 : 1.0) << i;
  }
}

TEST(Nvfp4, ThreadsDoNotChangeABit) {
  const Tensor x = random_values(DType::kBF16, {272, 2064}, 28, 6);
  for (const NVFP4Options& options :
       {NVFP4Options{}, NVFP4Options{.with_2d = true},
        NVFP4Options{.rht = true},
        NVFP4Options{.four_over_six = FourOverSix::kMae}}) {
    NVFP4Quantizer quantizer(options);
    set_thread_count(1);
    const QuantizedTensor one = quantizer.quantize(x);
    set_thread_count(4);
    const QuantizedTensor four = quantizer.quantize(x);
    set_thread_count(0);
    EXPECT_EQ(bytes_of(one.rowwise->data), bytes_of(four.rowwise->data));
    EXPECT_EQ(bytes_of(one.columnwise->data), bytes_of(four.columnwise->data));
    EXPECT_EQ(bytes_of(one.columnwise->scale_inv),
              bytes_of(four.columnwise->scale_inv));
  }
}

TEST(Nvfp4, ReferenceDeviceGivesTheSameBits) {
  for (const NVFP4Options& options :
       {NVFP4Options{}, NVFP4Options{.with_2d = true},
        NVFP4Options{.rht = true}, stochastic(3),
        NVFP4Options{.four_over_six = FourOverSix::kMse}}) {
    Tensor x = random_values(DType::kBF16, {144, 80}, 29, 6);
    const QuantizedTensor fast = NVFP4Quantizer(options).quantize(x);
    const Tensor fast_back =
        dequantize(*fast.columnwise, fast.shape, DType::kBF16);
    x.device = Device::kReference;
    const QuantizedTensor plain = NVFP4Quantizer(options).quantize(x);
    EXPECT_EQ(plain.rowwise->data.device, Device::kReference);
    EXPECT_EQ(bytes_of(fast.rowwise->data), bytes_of(plain.rowwise->data));
    EXPECT_EQ(bytes_of(fast.columnwise->data),
              bytes_of(plain.columnwise->data));
    EXPECT_EQ(bytes_of(fast.columnwise->scale_inv),
              bytes_of(plain.columnwise->scale_inv));
    EXPECT_EQ(
        bytes_of(fast_back),
        bytes_of(dequantize(*plain.columnwise, plain.shape, DType::kBF16)));
  }
}

TEST(Nvfp4, ZeroRowsGiveEmptyData) {
  for (const NVFP4Options& options :
       {NVFP4Options{}, NVFP4Options{.with_2d = true},
        NVFP4Options{.rht = true}}) {
    const QuantizedTensor q =
        NVFP4Quantizer(options).quantize(Tensor::zeros(DType::kBF16, {0, 64}));
    EXPECT_EQ(q.rowwise->data.shape(), (Shape{0, 64}));
    EXPECT_EQ(q.columnwise->data.shape(), (Shape{64, 0}));
    EXPECT_EQ(value_at(q.rowwise->amax, 0), 0);
    EXPECT_EQ(dequantize(*q.columnwise, q.shape, DType::kF32).shape(),
              (Shape{0, 64}));
  }
}

class Ceiling : public AmaxReduction {
 public:
  void reduce_max(float* values, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i)
      values[i] = std::max(values[i], 24.0f);
  }
};

TEST(Nvfp4, ReducedAmaxIsWhatScalesAreMadeOf) {
  NVFP4Quantizer quantizer({.amax_reduction = std::make_shared<Ceiling>()});
  const QuantizedTensor q =
      quantizer.quantize(block_with(DType::kBF16, {6, -3}));
  EXPECT_EQ(value_at(q.rowwise->amax, 0), 24);
  EXPECT_EQ(value_at(q.columnwise->amax, 0), 24);
  EXPECT_EQ(value_at(q.rowwise->scale_inv, 0), 112);  // 448 / 4
  EXPECT_EQ(value_at(dequantize(q, DType::kF32), 0), 6);
}

}  // namespace
}  // namespace assay::te
