// Linear is the operators in the order of docs/modules.md, no more: every
// recipe, override and option against them, bit for bit.
#include "assay/base/parallel.h"
#include "assay/te/modules/observer.h"
#include "assay/te/ops/bias_grad.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/hybrid.h"
#include "assay/te/quantize/identity.h"
#include "assay/te/quantize/mxfp8.h"
#include "tests/te/modules/linear_step.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;

// Quantisers of a layer that has not run yet.
struct Operators {
  explicit Operators(const Recipe& r)
      : forward(make_recipe_state(r, gemm_roles(Direction::kForward, 1))),
        backward(make_recipe_state(r, gemm_roles(Direction::kBackward, 1))) {}
  Step run(const Linear& layer, const Tensor& x, const Tensor& w,
           const Tensor& b, const Tensor& dy) {
    (void)layer;
    const QuantizedTensor qx = forward.at(0).quantize(x);
    const QuantizedTensor qw = forward.at(1).quantize(w);
    const QuantizedTensor qdy = backward.at(0).quantize(dy);
    GemmOptions fprop, wgrad;
    fprop.bias = &b;
    fprop.round_bias_to_bf16 = x.dtype() == DType::kF32;
    wgrad.out_dtype = w.dtype();
    return {gemm_fprop(qx, qw, fprop).d, gemm_dgrad(qdy, qw).d,
            gemm_wgrad(qdy, qx, wgrad).d, bias_grad(dy, b.dtype())};
  }
  RecipeState forward, backward;
};

Linear& with_bias(Linear& layer) {
  const Tensor b = normal_tensor(layer.bias()->dtype, layer.bias()->shape, 99);
  std::memcpy(layer.bias()->value->mutable_data(), b.view.data,
              b.view.bytes().size());
  return layer;
}

TEST(LinearRecipes, EveryRecipeIsItsOperators) {
  const Tensor x = normal_tensor(kBF16, {2, 32, 96}, 1);
  const Tensor dy = normal_tensor(kBF16, {2, 32, 160}, 2, 1e-3);
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear layer(96, 160, bf16());
    with_bias(layer);
    const Step expected = Operators(r.recipe).run(
        layer, x, *layer.weight().value, *layer.bias()->value, dy);
    expect_same_step(run(layer, r.recipe, x, dy), expected, r.name);
  }
}

// fp32 activations: an fp32 bias is rounded to bf16 (trap T16), so 1 + 2^-9
// becomes 1; results are fp32. NVFP4's transform takes bfloat16 alone.
TEST(LinearRecipes, Fp32ActivationsRoundTheBias) {
  const Tensor x = normal_tensor(DType::kF32, {32, 96}, 1);
  const Tensor dy = normal_tensor(DType::kF32, {32, 160}, 2);
  for (const NamedRecipe& r : all_recipes()) {
    if (r.name == "nvfp4") continue;
    SCOPED_TRACE(r.name);
    Linear layer(96, 160);
    with_bias(layer);
    const Step expected = Operators(r.recipe).run(
        layer, x, *layer.weight().value, *layer.bias()->value, dy);
    const Step actual = run(layer, r.recipe, x, dy);
    expect_same_step(actual, expected, r.name);
    EXPECT_EQ(actual.y.dtype(), DType::kF32);
  }
  Linear layer(96, 160);
  store_from_double(DType::kF32, 1 + 0x1p-9,
                    layer.bias()->value->mutable_data(), 0);
  Autocast autocast{recipe::Float8CurrentScaling{}};
  EXPECT_EQ(at(layer.forward(Tensor::zeros(DType::kF32, {8, 96})), 0), 1);
}

TEST(LinearRecipes, Fp16AndMixedDtypes) {
  const Tensor x = normal_tensor(DType::kF16, {32, 96}, 1);
  const Tensor dy = normal_tensor(DType::kF16, {32, 160}, 2);
  for (const DType weights : {DType::kF16, DType::kF32}) {
    for (const NamedRecipe& r : all_recipes()) {
      if (r.name == "nvfp4") continue;
      SCOPED_TRACE(r.name);
      LinearOptions options;
      options.params_dtype = weights;
      Linear layer(96, 160, options);
      const Step expected = Operators(r.recipe).run(
          layer, x, *layer.weight().value, *layer.bias()->value, dy);
      const Step actual = run(layer, r.recipe, x, dy);
      expect_same_step(actual, expected, r.name);
      EXPECT_EQ(actual.dx.dtype(), DType::kF16);
      EXPECT_EQ(actual.dw.dtype(), weights);
    }
  }
}

std::vector<NamedRecipe> overridden(BackwardOverride how) {
  std::vector<NamedRecipe> out;
  for (NamedRecipe r : all_recipes()) {
    if (r.name == "delayed") continue;
    std::visit([&](auto& recipe) { recipe.backward_override = how; }, r.recipe);
    out.push_back(r);
  }
  return out;
}

TEST(LinearRecipes, HighPrecisionOverrideKeepsTheOriginals) {
  const Tensor x = normal_tensor(kBF16, {32, 96}, 1);
  const Tensor dy = normal_tensor(kBF16, {32, 160}, 2);
  for (const auto& r : overridden(BackwardOverride::kHighPrecision)) {
    Linear layer(96, 160, bf16());
    const Step step = run(layer, r.recipe, x, dy);
    const Tensor& w = *layer.weight().value;
    Operators ops(r.recipe);
    GemmOptions bias;
    bias.bias = &*layer.bias()->value;
    EXPECT_TRUE(
        same_bits(step.y, gemm_fprop(ops.forward.at(0).quantize(x),
                                     ops.forward.at(1).quantize(w), bias)
                              .d))
        << r.name;
    EXPECT_TRUE(same_bits(step.dx, gemm_dgrad(dy, w).d)) << r.name;
    EXPECT_TRUE(same_bits(step.dw, gemm_wgrad(dy, x).d)) << r.name;
  }
}

TEST(LinearRecipes, DequantizedOverrideDecodesTheRows) {
  const Tensor x = normal_tensor(kBF16, {32, 96}, 1);
  const Tensor dy = normal_tensor(kBF16, {32, 160}, 2);
  for (const auto& r : overridden(BackwardOverride::kDequantized)) {
    Linear layer(96, 160, bf16());
    const Step step = run(layer, r.recipe, x, dy);
    Operators ops(r.recipe);
    for (int slot : {0, 1}) ops.forward.at(slot).set_usage({true, false});
    const Tensor x_seen = dequantize(ops.forward.at(0).quantize(x), kBF16);
    const Tensor w_seen =
        dequantize(ops.forward.at(1).quantize(*layer.weight().value), kBF16);
    EXPECT_TRUE(same_bits(step.dx, gemm_dgrad(dy, w_seen).d)) << r.name;
    EXPECT_TRUE(same_bits(step.dw, gemm_wgrad(dy, x_seen).d)) << r.name;
  }
}

TEST(LinearRecipes, DelayedScalingTakesNoOverride) {
  recipe::DelayedScaling r;
  r.backward_override = BackwardOverride::kDequantized;
  EXPECT_EQ(message_of([&] { Autocast autocast{r}; }),
            "DelayedScaling: backward_override: set, expected none");
}

TEST(LinearRecipes, RowScaledNvfp4ComputesItsBackwardInHighPrecision) {
  recipe::NVFP4BlockScaling r;
  r.row_scaled_activation = true;
  r.backward_override = BackwardOverride::kDequantized;
  const Tensor x = normal_tensor(kBF16, {32, 96}, 1);
  const Tensor dy = normal_tensor(kBF16, {32, 160}, 2);
  Linear layer(96, 160, bf16());
  const Step step = run(layer, r, x, dy);
  Operators ops(r);
  ops.forward.at(1).set_usage({true, false});
  const QuantizedTensor qx = ops.forward.at(0).quantize(x);
  EXPECT_EQ(qx.rowwise->amax.numel(), 32);
  const QuantizedTensor qw = ops.forward.at(1).quantize(*layer.weight().value);
  GemmOptions bias;
  bias.bias = &*layer.bias()->value;
  EXPECT_TRUE(same_bits(step.y, gemm_fprop(qx, qw, bias).d));
  EXPECT_TRUE(same_bits(step.dw, gemm_wgrad(dy, dequantize(qx, kBF16)).d));
  // Without an override there is nothing that a wgrad could read.
  r.backward_override = BackwardOverride::kNone;
  Linear other(96, 160, bf16());
  EXPECT_NE(message_of([&] { run(other, r, x, dy); }), "no error");
}

TEST(LinearRecipes, SaveOriginalInputQuantisesInBackward) {
  const Tensor x = normal_tensor(kBF16, {64, 96}, 1);
  const Tensor dy = normal_tensor(kBF16, {64, 160}, 2);
  LinearOptions options = bf16();
  options.save_original_input = true;
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear original(96, 160, options), plain(96, 160, bf16());
    copy_parameters(original, plain);
    if (r.name == "delayed") {
      EXPECT_EQ(message_of([&] { run(original, r.recipe, x, dy); }),
                "Linear: save_original_input: true, expected a recipe without "
                "history: x would be recorded twice");
      continue;
    }
    expect_same_step(run(original, r.recipe, x, dy),
                     run(plain, r.recipe, x, dy), r.name);
    Linear::Context context;
    Autocast autocast(r.recipe);
    original.forward(x, &context);
    EXPECT_EQ(context.saved.input->view.data, x.view.data);
    EXPECT_FALSE(context.saved.input_quantized);
  }
}

// A factory that mixes: MXFP8 input, per-direction weight, histories for the
// gradient.
recipe::Custom mixed() {
  recipe::Custom r;
  r.qfactory = [](const QuantizerRole& role) -> recipe::QuantizerRequest {
    if (role.role == Role::kGradOutput)
      return recipe::DelayedScalingRequest{.amax_history_len = 3};
    const auto current = [] {
      return std::make_unique<CurrentScalingQuantizer>(CurrentScalingOptions{});
    };
    if (role.role == Role::kWeight)
      return std::make_unique<HybridQuantizer>(
          current(), std::make_unique<IdentityQuantizer>());
    return current();
  };
  return r;
}

TEST(LinearRecipes, CustomQuantisersAreTakenAsTheyAre) {
  const Tensor x = normal_tensor(kBF16, {32, 96}, 1);
  const Tensor dy = normal_tensor(kBF16, {32, 160}, 2);
  Linear layer(96, 160, bf16());
  Operators ops(mixed());
  const Step expected =
      ops.run(layer, x, *layer.weight().value, *layer.bias()->value, dy);
  const Step step = run(layer, mixed(), x, dy);
  expect_same_step(step, expected, "custom");
  // dgrad reads the weight's columns, which are not quantised: dy decoded.
  EXPECT_TRUE(same_bits(
      step.dx,
      gemm_dgrad(
          dequantize(Operators(mixed()).backward.at(0).quantize(dy), kBF16),
          *layer.weight().value)
          .d));
  // One history, of the gradient alone.
  const auto state = layer.extra_state();
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state[0].name, "_extra_state.scale_bwd");
  EXPECT_EQ(state[1].tensor.shape(), (Shape{3, 1}));
  EXPECT_NE(state[0].tensor.data<float>()[0], 1);
}

TEST(LinearRecipes, IdentityEverywhereIsHighPrecision) {
  recipe::Custom r;
  r.qfactory = [](const QuantizerRole&) -> recipe::QuantizerRequest {
    return std::make_unique<IdentityQuantizer>();
  };
  const Tensor x = normal_tensor(kBF16, {32, 96}, 1);
  const Tensor dy = normal_tensor(kBF16, {32, 160}, 2);
  Linear layer(96, 160, bf16()), plain(96, 160, bf16());
  copy_parameters(layer, plain);
  expect_same_step(run(layer, r, x, dy), run(plain, x, dy), "identity");
}

TEST(LinearRecipes, CustomHistoriesAndSaveOriginalInputExclude) {
  recipe::Custom r;
  r.qfactory = [](const QuantizerRole&) -> recipe::QuantizerRequest {
    return recipe::DelayedScalingRequest{};
  };
  LinearOptions options = bf16();
  options.save_original_input = true;
  Linear layer(96, 160, options);
  EXPECT_EQ(message_of([&] {
              run(layer, r, normal_tensor(kBF16, {32, 96}, 1),
                  normal_tensor(kBF16, {32, 160}, 2));
            }),
            "Linear: save_original_input: true, expected a recipe without "
            "history: x would be recorded twice");
}

TEST(LinearRecipes, ZeroRowsWorkEverywhere) {
  const Tensor x = Tensor::zeros(kBF16, {0, 96});
  const Tensor dy = Tensor::zeros(kBF16, {0, 160});
  const auto check = [&](Linear& layer, const Step& step) {
    EXPECT_EQ(step.y.shape(), (Shape{0, 160}));
    EXPECT_EQ(step.dx.shape(), (Shape{0, 96}));
    ASSERT_EQ(step.dw.shape(), layer.weight().shape);
    for (int i = 0; i < step.dw.numel(); ++i) EXPECT_EQ(at(step.dw, i), 0);
    for (int i = 0; i < step.db.numel(); ++i) EXPECT_EQ(at(step.db, i), 0);
  };
  Linear plain(96, 160, bf16());
  check(plain, run(plain, x, dy));
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear layer(96, 160, bf16());
    check(layer, run(layer, r.recipe, x, dy));
    check(layer, run(layer, r.recipe, x, dy));
  }
}

TEST(LinearRecipes, ResultsDoNotDependOnThreads) {
  const Tensor x = normal_tensor(kBF16, {192, 160}, 1);
  const Tensor dy = normal_tensor(kBF16, {192, 288}, 2);
  for (const NamedRecipe& r : all_recipes()) {
    Linear one(160, 288, bf16()), four(160, 288, bf16());
    copy_parameters(one, four);
    set_thread_count(1);
    const Step a = run(one, r.recipe, x, dy);
    set_thread_count(4);
    const Step b = run(four, r.recipe, x, dy);
    set_thread_count(0);
    expect_same_step(a, b, r.name);
  }
}

// A matrix of other strides: every second column of a wider one.
Tensor strided(const Tensor& t) {
  const Shape& s = t.shape();
  const std::int64_t columns = s.back(), rows = t.numel() / columns;
  Tensor wide = Tensor::zeros(t.dtype(), {rows, 2 * columns});
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      store_from_double(t.dtype(), at(t, r * columns + c), wide.mutable_data(),
                        r * 2 * columns + 2 * c);
  wide.view.shape = s;
  wide.view.strides = {2 * columns, 2};
  return wide;
}

TEST(LinearRecipes, F39_StridedInputsAndGradients) {
  const Tensor x = normal_tensor(kBF16, {32, 96}, 1);
  const Tensor dy = normal_tensor(kBF16, {32, 160}, 2);
  Linear a(96, 160, bf16()), b(96, 160, bf16());
  copy_parameters(a, b);
  expect_same_step(run(a, strided(x), strided(dy)), run(b, x, dy), "plain");
  for (const NamedRecipe& r : all_recipes()) {
    a.zero_grad();
    b.zero_grad();
    expect_same_step(run(a, r.recipe, strided(x), strided(dy)),
                     run(b, r.recipe, x, dy), r.name);
  }
}

}  // namespace
}  // namespace assay::te
