#include "assay/te/modules/numerics_monitor.h"

#include <limits>

#include "assay/base/parallel.h"
#include "assay/te/modules/linear.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "assay/te/quantize/tensor_scaled.h"
#include "tests/te/modules/module_test.h"

namespace assay::te {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(NumericsMonitor, FindsTheFirstValueThatIsNotFinite) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Tensor t = normal_tensor(dtype, {3, 20000}, 1);
    EXPECT_EQ(first_non_finite(t), std::nullopt);
    // Beside the edges of the blocks that tasks look at.
    for (const std::int64_t i : {59999, 16385, 16384, 16383, 0}) {
      store_from_double(dtype, i % 2 ? kNan : -kInf, t.mutable_data(), i);
      EXPECT_EQ(first_non_finite(t), i);
    }
  }
  EXPECT_EQ(first_non_finite(Tensor::empty(DType::kF32, {0, 4})), std::nullopt);
}

TEST(NumericsMonitor, LooksThroughStridedTensors) {
  Tensor t = filled(DType::kF32, {2, 2}, {1, kNan, 2, 3});
  t.view.strides = {1, 2};  // [[1, 2], [NaN, 3]]
  EXPECT_EQ(first_non_finite(t), 2);
}

TEST(NumericsMonitor, SaysWhereAndWhat) {
  const Tensor t = filled(DType::kBF16, {2, 2}, {1, 2, -kInf, kNan});
  try {
    require_finite("layers.1.proj", "output", t);
    FAIL();
  } catch (const NonFiniteError& error) {
    EXPECT_EQ(error.module(), "layers.1.proj");
    EXPECT_STREQ(error.what(),
                 "layers.1.proj: output: -inf at [1, 0], expected finite "
                 "values");
  }
}

// e4m3 under scale 1: the largest is 448, values above 464 would round to 480
// were there one; the smallest is 2^-9, 2^-10 is a tie that goes to 0.
TEST(NumericsMonitor, CountsWhatOneScaleLoses) {
  const Tensor x =
      filled(DType::kF32, {2, 4},
             {448, 464, 464.5, -1e4, 0, 0x1p-10, -0x1p-11, 0x1p-9});
  const QuantizedTensor q = quantize_scaled(x, 1.0f, {});
  const QuantizationCounts counts = count_quantization(&x, q);
  EXPECT_EQ(counts.elements, 8);
  EXPECT_EQ(counts.saturated, 2);
  EXPECT_EQ(counts.underflowed, 2);
  EXPECT_EQ(counts.unseen, 0);
  EXPECT_DOUBLE_EQ(counts.saturated_share(), 0.25);
  EXPECT_DOUBLE_EQ(counts.underflow_share(), 0.25);
}

// e5m2: 57344, half a unit above it 61440.
TEST(NumericsMonitor, KnowsTheLimitOfEachFormat) {
  const Tensor x = filled(DType::kF32, {1, 4}, {57344, 61440, 61441, -1e6});
  TensorScaledOptions options;
  options.format = DType::kE5M2;
  EXPECT_EQ(count_quantization(&x, quantize_scaled(x, 1.0f, options)).saturated,
            2);
}

// A block's scale follows its maximum: nothing saturates, and a value 2^20
// below it vanishes in its own block only.
TEST(NumericsMonitor, CountsInBlocks) {
  std::vector<double> values(32 * 64, 0.0);
  values[0] = 1.0;
  values[1] = 0x1p-20;
  values[32] = 0x1p-20;
  const Tensor x = filled(DType::kBF16, {32, 64}, values);
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  quantizer.set_usage({.rowwise = true, .columnwise = false});
  const QuantizationCounts counts =
      count_quantization(&x, quantizer.quantize(x));
  EXPECT_EQ(counts.elements, 32 * 64);
  EXPECT_EQ(counts.saturated, 0);
  EXPECT_EQ(counts.underflowed, 1);
}

// Two codes a byte. e2m1's smallest is 0.5: in a block with maximum 6, 0.2
// decodes to 0 and 0.3 does not.
TEST(NumericsMonitor, CountsFourBitCodes) {
  std::vector<double> values(16 * 16, 0.0);
  values[0] = 6;
  values[1] = -0.203125;
  values[2] = 0.3125;
  const Tensor x = filled(DType::kBF16, {16, 16}, values);
  NVFP4Quantizer quantizer;
  quantizer.set_usage({.rowwise = true, .columnwise = false});
  const QuantizationCounts counts =
      count_quantization(&x, quantizer.quantize(x));
  EXPECT_EQ(counts.elements, 256);
  EXPECT_EQ(counts.saturated, 0);
  EXPECT_EQ(counts.underflowed, 1);
}

TEST(NumericsMonitor, SaysWhatItHasNotSeen) {
  const Tensor x = normal_tensor(DType::kF32, {32, 32}, 1);
  const QuantizedTensor q = quantize_scaled(x, 1.0f, {});
  EXPECT_EQ(count_quantization(nullptr, q).unseen, 1024);
  EXPECT_EQ(count_quantization(nullptr, q).elements, 0);
  QuantizedTensor columns = q;
  columns.rowwise.reset();
  EXPECT_EQ(count_quantization(&x, columns).unseen, 1024);
  const Tensor part = normal_tensor(DType::kF32, {16, 32}, 1);
  EXPECT_EQ(count_quantization(&part, q).unseen, 1024);
  EXPECT_EQ(QuantizationCounts{}.saturated_share(), 0);
}

TEST(NumericsMonitor, TakesNoRows) {
  const Tensor x = Tensor::empty(DType::kF32, {0, 32});
  EXPECT_EQ(count_quantization(&x, quantize_scaled(x, 1.0f, {})).elements, 0);
}

TEST(NumericsMonitor, CountsTheSameForAnyNumberOfThreads) {
  const Tensor x = normal_tensor(DType::kF32, {300, 256}, 1, 150);
  const QuantizedTensor q = quantize_scaled(x, 1.0f, {});
  set_thread_count(1);
  const QuantizationCounts one = count_quantization(&x, q);
  set_thread_count(4);
  const QuantizationCounts four = count_quantization(&x, q);
  set_thread_count(0);
  EXPECT_GT(one.saturated, 0);
  EXPECT_EQ(one.saturated, four.saturated);
  EXPECT_EQ(one.underflowed, four.underflowed);
  EXPECT_EQ(one.elements, 300 * 256);
}

TEST(NumericsMonitor, CountsTheOperandsOfALayerByRole) {
  Linear layer(32, 64);
  const Tensor x = normal_tensor(DType::kF32, {32, 32}, 1, 1000);
  NumericsMonitor monitor;
  const ObserverScope scope(monitor);
  Linear::Context context;
  {
    // The first scale of delayed scaling is 1: x beyond 464 is cut off.
    const Autocast autocast{Recipe(recipe::DelayedScaling{})};
    layer.forward(x, &context);
  }
  layer.backward(normal_tensor(DType::kF32, {32, 64}, 2), context);
  std::int64_t beyond = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i)
    beyond += std::abs(at(x, i)) > 464;
  EXPECT_EQ(monitor.counts(Role::kInput).elements, 32 * 32);
  EXPECT_EQ(monitor.counts(Role::kInput).saturated, beyond);
  EXPECT_EQ(monitor.counts(Role::kWeight).elements, 64 * 32);
  EXPECT_EQ(monitor.counts(Role::kWeight).saturated, 0);
  EXPECT_EQ(monitor.counts(Role::kGradOutput).elements, 32 * 64);
  EXPECT_EQ(monitor.total().elements, 32 * 32 + 64 * 32 + 32 * 64);
  monitor.reset();
  EXPECT_EQ(monitor.total().elements, 0);
}

std::string stopped_at(Linear& layer, const Tensor& x, const Tensor& dy,
                       bool fp4) {
  NumericsMonitor monitor;
  const ObserverScope scope(monitor);
  Linear::Context context;
  try {
    const Autocast autocast{
        AutocastOptions{.enabled = fp4, .recipe = recipe::NVFP4BlockScaling{}}};
    layer.forward(x, &context);
  } catch (const NonFiniteError& error) {
    return error.what();
  }
  try {
    layer.backward(dy, context);
    require_finite_gradients(layer);
  } catch (const NonFiniteError& error) {
    return error.what();
  }
  return "";
}

TEST(NumericsMonitor, StopsWhereAValueIsNotFinite) {
  LinearOptions options;
  options.params_dtype = DType::kBF16;
  options.name = "layers.0.proj";
  const Tensor x = normal_tensor(DType::kBF16, {32, 32}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {32, 32}, 2);
  for (const bool fp4 : {false, true}) {
    Linear layer(32, 32, options);
    EXPECT_EQ(stopped_at(layer, x, dy, fp4), "");
    store_from_double(DType::kBF16, kNan, layer.weight().value->mutable_data(),
                      33);
    EXPECT_EQ(stopped_at(layer, x, dy, fp4),
              fp4 ? "layers.0.proj: weight: NaN at [1, 1], expected finite "
                    "values"
                  : "layers.0.proj: output: NaN at [0, 1], expected finite "
                    "values");
  }
}

TEST(NumericsMonitor, NamesTheModuleOfAGradient) {
  Linear layer(2, 2);
  layer.set_name("head");
  layer.weight().grad = filled(DType::kF32, {2, 2}, {0, 1, kInf, 2});
  try {
    require_finite_gradients(layer);
    FAIL();
  } catch (const NonFiniteError& error) {
    EXPECT_STREQ(error.what(),
                 "head: gradient of weight: inf at [1, 0], expected finite "
                 "values");
  }
}

}  // namespace
}  // namespace assay::te
