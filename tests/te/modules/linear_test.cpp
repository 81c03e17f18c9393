#include "assay/te/modules/linear.h"

#include "assay/te/modules/recompute.h"
#include "assay/te/ops/gemm.h"
#include "assay/te/quantize/current.h"
#include "tests/te/modules/linear_step.h"

namespace assay::te {
namespace {

TEST(Linear, MultipliesAndAddsTheBias) {
  Linear layer(2, 3);
  layer.load_state_dict(std::vector<NamedTensor>{
      {"weight", filled(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6})},
      {"bias", filled(DType::kF32, {3}, {10, 20, 30})}});
  const Tensor x = filled(DType::kF32, {2, 2}, {1, -1, 2, 0.5});
  const Tensor dy = filled(DType::kF32, {2, 3}, {1, 0, 2, -1, 1, 0});
  const Step s = run(layer, x, dy);
  const std::vector<double> y = {9, 19, 29, 13, 28, 43};
  const std::vector<double> dx = {11, 14, 2, 2};
  const std::vector<double> dw = {-1, -1.5, 2, 0.5, 2, -2};
  const std::vector<double> db = {0, 1, 2};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(at(s.y, i), y[i]) << i;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(at(s.dx, i), dx[i]) << i;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(at(s.dw, i), dw[i]) << i;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(at(s.db, i), db[i]) << i;
}

TEST(Linear, DefaultsAreThoseOfNvte) {
  manual_seed(7);
  Linear layer(512, 384);
  const auto parameters = layer.parameters();
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].name, "weight");
  EXPECT_EQ(parameters[0].parameter->shape, (Shape{384, 512}));
  EXPECT_EQ(parameters[0].parameter->dtype, DType::kF32);
  EXPECT_EQ(parameters[1].name, "bias");
  EXPECT_EQ(parameters[1].parameter->shape, (Shape{384}));
  double sum = 0, squares = 0;
  const Tensor& w = *layer.weight().value;
  for (std::int64_t i = 0; i < w.numel(); ++i) {
    sum += at(w, i);
    squares += at(w, i) * at(w, i);
  }
  // 4.5 standard errors of the mean and of the deviation.
  const double n = static_cast<double>(w.numel());
  EXPECT_NEAR(sum / n, 0, 4.5 * 0.023 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.023, 4.5 * 0.023 / std::sqrt(2 * n));
  for (int i = 0; i < 384; ++i) EXPECT_EQ(at(*layer.bias()->value, i), 0);
}

// The codes are the same on both devices, so what is left is the order of fp32
// sums and one rounding to bf16.
TEST(Linear, AgreesWithTheReferenceUnderEveryRecipe) {
  const Tensor x = normal_tensor(DType::kBF16, {4, 64, 256}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {4, 64, 128}, 2, 1e-2);
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear fast(256, 128, bf16()), slow(256, 128, bf16(Device::kReference));
    copy_parameters(fast, slow);
    for (int step = 0; step < 2; ++step) {  // the second with real scales
      fast.zero_grad();
      slow.zero_grad();
      Linear::Context a, b;
      Tensor y, ry;
      {
        Autocast autocast(r.recipe);
        y = fast.forward(x, &a);
        ry = slow.forward(on_reference(x), &b);
      }
      const Tensor dx = fast.backward(dy, a);
      const Tensor rdx = slow.backward(on_reference(dy), b);
      EXPECT_LT(distance(y, ry), 0x1p-9);
      EXPECT_LT(distance(dx, rdx), 0x1p-9);
      EXPECT_LT(distance(*fast.weight().grad, *slow.weight().grad), 0x1p-9);
      EXPECT_LT(distance(*fast.bias()->grad, *slow.bias()->grad), 0x1p-9);
    }
  }
}

// The module is the operators in the order that NVTE documents, no more.
TEST(Linear, QuantisesOnceAndMultipliesThreeTimes) {
  const Tensor x = normal_tensor(DType::kBF16, {64, 96}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {64, 32}, 4);
  Linear layer(96, 32, bf16());
  Linear::Context context;
  Tensor y;
  {
    Autocast autocast{recipe::Float8CurrentScaling{}};
    y = layer.forward(x, &context);
  }
  const Tensor dx = layer.backward(dy, context);
  CurrentScalingQuantizer e4m3({DType::kE4M3FN}), e5m2({DType::kE5M2});
  const QuantizedTensor qx = e4m3.quantize(x);
  const QuantizedTensor qw = e4m3.quantize(*layer.weight().value);
  const QuantizedTensor qdy = e5m2.quantize(dy);
  GemmOptions bias;
  bias.bias = &*layer.bias()->value;
  EXPECT_TRUE(same_bits(y, gemm_fprop(qx, qw, bias).d));
  EXPECT_TRUE(same_bits(dx, gemm_dgrad(qdy, qw).d));
  EXPECT_TRUE(same_bits(*layer.weight().grad, gemm_wgrad(qdy, qx).d));
}

TEST(Linear, RecomputesBitForBitAndRecordsAmaxOnce) {
  const Tensor x = normal_tensor(DType::kBF16, {64, 96}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {64, 32}, 4);
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear kept(96, 32, bf16()), again(96, 32, bf16());
    copy_parameters(kept, again);
    for (int step = 0; step < 3; ++step) {
      kept.zero_grad();
      again.zero_grad();
      Linear::Context a;
      RecomputeContext<Linear> b;
      Tensor y, z;
      {
        Autocast autocast(r.recipe);
        y = kept.forward(x, &a);
      }
      {
        Autocast autocast(r.recipe);
        z = recomputed_forward(again, x, b);
      }
      EXPECT_TRUE(same_bits(y, z));
      EXPECT_TRUE(
          same_bits(kept.backward(dy, a), recomputed_backward(again, dy, b)));
      EXPECT_TRUE(same_bits(*kept.weight().grad, *again.weight().grad));
    }
    const auto p = kept.extra_state(), q = again.extra_state();
    ASSERT_EQ(p.size(), q.size());
    for (std::size_t i = 0; i < p.size(); ++i)
      EXPECT_TRUE(same_bits(p[i].tensor, q[i].tensor)) << p[i].name;
  }
}

TEST(Linear, SavesHalfOfWhatBf16Saves) {
  const Tensor x = normal_tensor(DType::kBF16, {256, 256}, 3);
  Linear layer(256, 128, bf16());
  Linear::Context plain, fp8;
  layer.forward(x, &plain);
  {
    Autocast autocast{recipe::Float8CurrentScaling{}};
    layer.forward(x, &fp8);
  }
  EXPECT_EQ(saved_bytes(plain), 256 * 256 * 2);
  EXPECT_LT(saved_bytes(fp8), 256 * 256 + 64);
}

TEST(Linear, NamesWhatItCannotTake) {
  LinearOptions options = bf16();
  options.name = "decoder.fc1";
  Linear layer(96, 32, options);
  EXPECT_EQ(message_of([&] {
              layer.forward(normal_tensor(DType::kBF16, {4, 95}, 1));
            }),
            "decoder.fc1: input: last dimension 95, expected 96");
  EXPECT_EQ(message_of([&] {
              layer.forward(normal_tensor(DType::kF32, {4, 96}, 1));
            }),
            "decoder.fc1: input: float32, expected the weight's bfloat16 "
            "outside of Autocast");
  EXPECT_EQ(message_of([&] {
              Autocast autocast{recipe::MXFP8BlockScaling{}};
              Linear::Context context;
              layer.forward(normal_tensor(DType::kBF16, {12, 96}, 1), &context);
            }),
            "decoder.fc1: input: 12 rows, expected a multiple of 32 for "
            "MXFP8BlockScaling");
}

}  // namespace
}  // namespace assay::te
