// Results of a Linear as FP8 codes: fp8_output and fp8_grad.
#include "assay/te/quantize/current.h"
#include "tests/te/modules/linear_step.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;

recipe::DelayedScaling delayed() {
  recipe::DelayedScaling r;
  r.amax_history_len = 4;
  r.amax_compute_algo = AmaxAlgorithm::kMostRecent;
  return r;
}

struct Fp8Output : testing::Test {
  Tensor x = normal_tensor(kBF16, {32, 96}, 1);
  Tensor dy = normal_tensor(kBF16, {32, 160}, 2);
  Linear layer{96, 160, bf16()}, plain{96, 160, bf16()};
  void SetUp() override { copy_parameters(layer, plain); }
};

bool same_codes(const QuantizedTensor& a, const QuantizedTensor& b) {
  return a.shape == b.shape && a.dtype == b.dtype &&
         same_bits(a.rowwise->data, b.rowwise->data) &&
         same_bits(a.rowwise->scale_inv, b.rowwise->scale_inv);
}

// Rounded to bf16 first, as NVTE where the scale is not known before.
TEST_F(Fp8Output, CurrentScalingQuantisesTheRoundedResult) {
  const Recipe r = recipe::Float8CurrentScaling{};
  const Step expected = run(plain, r, x, dy);
  Linear::Context context;
  CurrentScalingQuantizer e4m3({DType::kE4M3FN}), e5m2({DType::kE5M2});
  {
    Autocast autocast(r);
    EXPECT_TRUE(same_codes(layer.forward_fp8({x, {}}, &context),
                           e4m3.quantize(expected.y)));
  }
  EXPECT_TRUE(same_codes(layer.backward_fp8({dy, {}, {}}, context),
                         e5m2.quantize(expected.dx)));
  EXPECT_TRUE(same_bits(*layer.weight().grad, expected.dw));
}

// Codes come from the GEMM's fp32 values with the scale of earlier steps; the
// values' amax goes to the slots output and grad_input.
TEST_F(Fp8Output, DelayedScalingUsesAndFillsItsSlots) {
  float y_scale = 1, dx_scale = 1;
  for (int step = 0; step < 3; ++step) {
    Linear::Context context, twin;
    QuantizedTensor y, q;
    {
      Autocast autocast{delayed()};
      y = layer.forward_fp8({x, {}}, &context);
    }
    // fp32 results of the same codes: an fp32 twin of the operands.
    Tensor exact;
    {
      Autocast autocast{delayed()};
      plain.forward(x, &twin);
    }
    GemmOptions f32;
    f32.out_dtype = DType::kF32;
    f32.bias = &*layer.bias()->value;
    exact = gemm_fprop(*twin.saved.input_quantized,
                       *twin.saved.weight_quantized, f32)
                .d;
    float amax = 0;
    for (std::int64_t i = 0; i < exact.numel(); ++i) {
      const float v = exact.data<float>()[i];
      amax = std::max(amax, std::fabs(v));
      std::byte code;  // saturating, nearest even
      store_from_double(DType::kE4M3FN, static_cast<double>(v * y_scale), &code,
                        0);
      ASSERT_EQ(y.rowwise->data.view.data[i], code) << i;
    }
    EXPECT_EQ(*y.rowwise->scale_inv.data<float>(), 1 / y_scale);
    y_scale = 448.0f / amax;
    EXPECT_EQ(extra(layer, "scale_fwd").data<float>()[2], y_scale);

    const QuantizedTensor dx = layer.backward_fp8({dy, {}, {}}, context);
    plain.backward(dy, twin);
    EXPECT_EQ(dx.rowwise->format, DType::kE5M2);
    EXPECT_EQ(*dx.rowwise->scale_inv.data<float>(), 1 / dx_scale);
    dx_scale = extra(layer, "scale_bwd").data<float>()[1];
    EXPECT_EQ(dx_scale, 57344.0f / *dx.rowwise->amax.data<float>());
  }
}

// Codes go from layer to layer without a tensor in between.
TEST_F(Fp8Output, TheNextLayerTakesThem) {
  const Recipe r = recipe::Float8CurrentScaling{};
  Linear next(160, 64, bf16()), by_tensor(160, 64, bf16());
  copy_parameters(next, by_tensor);
  Linear::Context a, b, c;
  const Tensor dz = normal_tensor(kBF16, {32, 64}, 3);
  QuantizedTensor y;
  Tensor z;
  {
    Autocast autocast(r);
    y = layer.forward_fp8({x, {}}, &a);
    z = next.forward({{}, y}, &b);
  }
  // A tensor of the decoded values has the same codes: its amax is a code.
  const Tensor decoded = dequantize(y, DType::kF32);
  EXPECT_EQ(z.dtype(), kBF16);
  EXPECT_LT(
      distance(z, gemm_fprop(decoded,
                             dequantize(*b.saved.weight_quantized, DType::kF32))
                      .d),
      0x1p-8);
  const QuantizedTensor dy_codes = next.backward_fp8({dz, {}, {}}, b);
  const Tensor dx = layer.backward({{}, dy_codes, {}}, a);
  EXPECT_EQ(dx.shape(), x.shape());
  // The bias takes the decoded gradient.
  const Tensor dy_seen = dequantize(dy_codes, kBF16);
  for (int n = 0; n < 160; n += 13) {
    double sum = 0;
    for (int m = 0; m < 32; ++m) sum += at(dy_seen, m * 160 + n);
    EXPECT_NEAR(at(*layer.bias()->grad, n), sum,
                0x1p-8 * std::fabs(sum) + 1e-6);
  }
}

TEST_F(Fp8Output, OtherRecipesAreRefused) {
  EXPECT_EQ(message_of([&] {
              layer.forward_fp8({x, {}}, nullptr);
            }),
            "Linear: fp8_output: outside of Autocast, expected a recipe with "
            "one scale a tensor");
  EXPECT_EQ(message_of([&] {
              Autocast autocast{recipe::MXFP8BlockScaling{}};
              layer.forward_fp8({x, {}}, nullptr);
            }),
            "Linear: fp8_output: under mxfp8 scaling, expected a recipe with "
            "one scale a tensor");
  Linear::Context context;
  layer.forward(x, &context);
  EXPECT_EQ(message_of([&] {
              layer.backward_fp8({dy, {}, {}}, context);
            }),
            "Linear: fp8_grad: of a forward in high precision, expected a "
            "recipe with one scale a tensor");
}

}  // namespace
}  // namespace assay::te
