// A row of operations against the module that does the same.
#include "assay/te/fusible/activation.h"
#include "assay/te/fusible/linear.h"
#include "assay/te/fusible/normalization.h"
#include "assay/te/modules/layernorm_mlp.h"
#include "tests/te/fusible/fusible_test.h"

namespace assay::te::ops {
namespace {

constexpr std::int64_t kHidden = 128, kFfn = 256, kRows = 64;

Sequential operations(std::shared_ptr<ActivationOperation> activation) {
  manual_seed(7);
  BasicLinearOptions linear;
  linear.dtype = DType::kBF16;
  NormalizationOptions norm;
  norm.dtype = DType::kBF16;
  return Sequential(std::make_shared<LayerNorm>(Shape{kHidden}, norm),
                    std::make_shared<Linear>(kHidden, kFfn, true, linear),
                    std::move(activation),
                    std::make_shared<Linear>(kFfn, kHidden, true, linear));
}

// Its parameters, in the order of the Sequential's, and their values.
std::unique_ptr<LayerNormMLP> module_of(Sequential& model,
                                        Activation activation) {
  LayerNormMLPOptions options;
  options.params_dtype = DType::kBF16;
  options.activation = activation;
  auto module = std::make_unique<LayerNormMLP>(kHidden, kFfn, options);
  std::vector<NamedTensor> state = model.state_dict();
  const std::vector<std::string> names = {
      "layer_norm_weight", "layer_norm_bias", "fc1_weight",
      "fc1_bias",          "fc2_weight",      "fc2_bias"};
  for (std::size_t i = 0; i < names.size(); ++i) state[i].name = names[i];
  module->load_state_dict(state);
  return module;
}

Pass run_module(LayerNormMLP& module, const Tensor& x, const Tensor& dy,
                const std::optional<Recipe>& recipe) {
  module.zero_grad();
  LayerNormMLP::Context context;
  Pass pass;
  {
    std::optional<Autocast> scope;
    if (recipe) scope.emplace(*recipe);
    pass.y = module.forward(x, &context).output;
  }
  pass.dx = module.backward(dy, context);
  for (const char* name : {"layer_norm_weight", "layer_norm_bias", "fc1_weight",
                           "fc1_bias", "fc2_weight", "fc2_bias"})
    pass.parameter_grads.push_back(*module.parameter(name).grad);
  return pass;
}

Pass run_operations(Sequential& model, const Tensor& x, const Tensor& dy,
                    const std::optional<Recipe>& recipe) {
  model.zero_grad();
  Sequential::Context context;
  Pass pass;
  {
    std::optional<Autocast> scope;
    if (recipe) scope.emplace(*recipe);
    pass.y = model.forward(x, &context);
  }
  pass.dx = model.backward(dy, context);
  for (const NamedParameter& p : model.parameters())
    pass.parameter_grads.push_back(*p.parameter->grad);
  return pass;
}

std::vector<NamedRecipe> recipes() {
  std::vector<NamedRecipe> out = all_recipes();
  for (NamedRecipe& r : out)
    // Slots draw differently: two operations are not the slots of one module.
    if (auto* nvfp4 = std::get_if<recipe::NVFP4BlockScaling>(&r.recipe))
      nvfp4->disable_stochastic_rounding = true;
  return out;
}

void expect_close(const Pass& a, const Pass& b, double bound,
                  const std::string& what) {
  EXPECT_LT(distance(a.y, b.y), bound) << what;
  EXPECT_LT(distance(a.dx, b.dx), bound) << what;
  ASSERT_EQ(a.parameter_grads.size(), b.parameter_grads.size());
  for (std::size_t i = 0; i < a.parameter_grads.size(); ++i)
    EXPECT_LT(distance(a.parameter_grads[i], b.parameter_grads[i]), bound)
        << what << " parameter " << i;
}

// Under every recipe, for two steps.
template <typename Operation>
void expect_the_module(Activation activation) {
  for (const NamedRecipe& r : recipes()) {
    Sequential model = operations(std::make_shared<Operation>());
    const auto module = module_of(model, activation);
    for (std::uint64_t step = 0; step < 2; ++step) {
      const Tensor x = normal_tensor(DType::kBF16, {kRows, kHidden}, step);
      const Tensor dy = normal_tensor(DType::kBF16, {kRows, kHidden}, 8 + step);
      expect_same_pass(run_operations(model, x, dy, r.recipe),
                       run_module(*module, x, dy, r.recipe), r.name);
    }
  }
}

// ReLU is not taken into the GEMM, so that both round at the same places.
TEST(Parity, ReluBlockIsTheModuleBitForBit) {
  expect_the_module<ReLU>(Activation::kRelu);
  Sequential model = operations(std::make_shared<ReLU>());
  const auto module = module_of(model, Activation::kRelu);
  const Tensor x = normal_tensor(DType::kBF16, {kRows, kHidden}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {kRows, kHidden}, 2);
  expect_same_pass(run_operations(model, x, dy, std::nullopt),
                   run_module(*module, x, dy, std::nullopt), "bf16");
}

// Under a recipe GELU quantises for the second layer in both. In bf16 the
// GEMM's gelu is of the unrounded sum, the module's of the rounded one: one
// rounding.
TEST(Parity, GeluBlockIsTheModuleButForARoundingInBf16) {
  expect_the_module<GELU>(Activation::kGelu);
  Sequential model = operations(std::make_shared<GELU>());
  const auto module = module_of(model, Activation::kGelu);
  const Tensor x = normal_tensor(DType::kBF16, {kRows, kHidden}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {kRows, kHidden}, 2);
  expect_close(run_operations(model, x, dy, std::nullopt),
               run_module(*module, x, dy, std::nullopt), 0x1p-7, "bf16");
}

// Gradients against differences of the loss <y, dy>, on the fp64 reference,
// and the CPU against it.
TEST(Parity, GradientsAreThoseOfTheLoss) {
  const auto model_on = [](Device device) {
    manual_seed(3);
    BasicLinearOptions linear;
    linear.device = device;
    NormalizationOptions norm;
    norm.device = device;
    auto bias = std::make_shared<Bias>(16, BiasOptions{DType::kF32, device});
    return std::make_unique<Sequential>(
        std::make_shared<LayerNorm>(Shape{24}, norm),
        std::make_shared<Linear>(24, 32, true, linear),
        std::make_shared<SwiGLU>(), std::make_shared<RMSNorm>(Shape{16}, norm),
        std::make_shared<Linear>(16, 24, true, linear),
        std::make_shared<GELU>(), std::make_shared<BasicLinear>(24, 16, linear),
        std::move(bias), std::make_shared<L2Normalization>(),
        std::make_shared<ReLU>());
  };
  const auto on = [](Tensor t, Device device) {
    t.device = device;
    return t;
  };
  const Tensor x = normal_tensor(DType::kF32, {8, 24}, 1);
  const Tensor dy = normal_tensor(DType::kF32, {8, 16}, 2);
  auto reference = model_on(Device::kReference);
  auto cpu = model_on(Device::kCpu);
  const auto r = Device::kReference;
  const Pass expected = run(*reference, on(x, r), on(dy, r));
  const Pass actual = run(*cpu, x, dy);
  EXPECT_LT(distance(actual.y, expected.y), 3e-6);
  EXPECT_LT(distance(actual.dx, expected.dx), 3e-6);

  const auto loss = [&](const Tensor& at_x) {
    const Tensor y = reference->forward(on(at_x, r));
    double sum = 0;
    for (std::int64_t i = 0; i < y.numel(); ++i) sum += at(y, i) * at(dy, i);
    return sum;
  };
  // Small enough for third derivatives, large enough for fp32 storage.
  constexpr double kStep = 3e-4;
  // Along a direction; the quotient, and its counterpart <gradient, v>.
  const auto check = [&](Tensor value, const Tensor& gradient,
                         const std::function<double()>& loss_now,
                         const std::string& what) {
    const Tensor v = normal_tensor(DType::kF32, gradient.shape(), 99);
    Tensor before = Tensor::empty(DType::kF32, gradient.shape());
    std::memcpy(before.mutable_data(), value.view.data,
                value.view.bytes().size());
    double product = 0;
    for (std::int64_t i = 0; i < v.numel(); ++i)
      product += at(gradient, i) * at(v, i);
    const auto moved = [&](double step) {
      for (std::int64_t i = 0; i < v.numel(); ++i)
        store_from_double(DType::kF32, at(before, i) + step * at(v, i),
                          value.mutable_data(), i);
      return loss_now();
    };
    const double quotient = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    moved(0);
    EXPECT_NEAR(quotient, product, 5e-3 * std::max(1.0, std::abs(product)))
        << what;
  };
  Tensor moving = normal_tensor(DType::kF32, {8, 24}, 1);
  check(
      moving, expected.dx, [&] { return loss(moving); }, "x");
  const auto parameters = reference->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    check(
        *parameters[i].parameter->value, expected.parameter_grads[i],
        [&] { return loss(x); }, parameters[i].name);
    EXPECT_LT(distance(actual.parameter_grads[i], expected.parameter_grads[i]),
              3e-6)
        << parameters[i].name;
  }
}

}  // namespace
}  // namespace assay::te::ops
