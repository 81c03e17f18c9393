#include "assay/te/fusible/sequential.h"

#include <gmock/gmock.h>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/te/fusible/activation.h"
#include "assay/te/fusible/elementwise.h"
#include "assay/te/fusible/layout.h"
#include "assay/te/fusible/linear.h"
#include "assay/te/fusible/normalization.h"
#include "assay/te/modules/layernorm_mlp.h"
#include "assay/te/modules/recompute.h"
#include "assay/te/modules/transformer_layer.h"
#include "tests/te/fusible/fusible_test.h"

namespace assay::te::ops {
namespace {

BasicLinearOptions bf16() {
  BasicLinearOptions options;
  options.dtype = DType::kBF16;
  return options;
}

// The same weights at every call.
Sequential mlp(const BasicLinearOptions& options = bf16()) {
  manual_seed(7);
  NormalizationOptions norm;
  norm.dtype = options.dtype;
  norm.device = options.device;
  return Sequential(std::make_shared<LayerNorm>(Shape{64}, norm),
                    std::make_shared<Linear>(64, 128, true, options),
                    std::make_shared<GELU>(),
                    std::make_shared<Linear>(128, 64, true, options));
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Sequential, ListsWhatItRuns) {
  Sequential model = mlp();
  EXPECT_EQ(model.plan(),
            "forward\n"
            "  LayerNorm\n"
            "  ForwardLinearBiasActivation(BasicLinear, Bias, GELU)\n"
            "  ForwardLinearBiasActivation(BasicLinear, Bias)\n"
            "backward\n"
            "  Bias\n"
            "  BasicLinear\n"
            "  GELU\n"
            "  Bias\n"
            "  BasicLinear\n"
            "  LayerNorm\n");
  const Recipe mxfp8 = recipe::MXFP8BlockScaling{};
  EXPECT_EQ(model.plan(&mxfp8),
            "forward\n"
            "  LayerNorm, quantises for BasicLinear\n"
            "  ForwardLinearBiasActivation(BasicLinear, Bias)\n"
            "  GELU, quantises for BasicLinear\n"
            "  ForwardLinearBiasActivation(BasicLinear, Bias)\n"
            "backward\n"
            "  Bias, quantises for BasicLinear\n"
            "  BasicLinear\n"
            "  BackwardActivationBias(Bias, GELU)\n"
            "  BasicLinear\n"
            "  LayerNorm\n");
  model.set_fusion(false);
  EXPECT_EQ(model.plan(&mxfp8),
            "forward\n"
            "  LayerNorm\n  BasicLinear\n  Bias\n  GELU\n  BasicLinear\n"
            "  Bias\n"
            "backward\n"
            "  Bias\n  BasicLinear\n  GELU\n  Bias\n  BasicLinear\n"
            "  LayerNorm\n");
}

TEST(Sequential, NamesItsStateAsTorchDoes) {
  Sequential model = mlp();
  std::vector<std::string> names;
  for (const NamedTensor& t : model.state_dict()) names.push_back(t.name);
  EXPECT_THAT(names,
              testing::ElementsAre("0.weight", "0.bias", "1.basic_ops.0.weight",
                                   "1.basic_ops.1.bias", "3.basic_ops.0.weight",
                                   "3.basic_ops.1.bias"));
  // Of delayed scaling, once it has run: "1.basic_ops.0._extra_state. ...".
  {
    Autocast scope(recipe::DelayedScaling{});
    model.forward(normal_tensor(DType::kBF16, {32, 64}, 1));
  }
  std::size_t extra = 0;
  for (const NamedTensor& t : model.state_dict())
    extra += t.name.starts_with("1.basic_ops.0._extra_state.");
  EXPECT_EQ(extra, 4u);
  const auto state = model.state_dict();
  Sequential other = mlp();
  other.load_state_dict(state);
  EXPECT_THAT(message_of([&] {
                other.load_state_dict(
                    std::vector<NamedTensor>(state.begin(), state.begin() + 2));
              }),
              testing::HasSubstr("1.basic_ops.0.weight: missing"));
  auto odd = state;
  odd.push_back({"2._extra_state.scale_fwd", Tensor::zeros(DType::kF32, {1})});
  EXPECT_EQ(message_of([&] { other.load_state_dict(odd); }),
            "GELU: extra state: _extra_state.scale_fwd, expected no extra "
            "state");
}

TEST(Sequential, GrowsAndShrinks) {
  Sequential model;
  const Tensor x = filled(DType::kF32, {1, 2}, {1, -3});
  EXPECT_TRUE(same_bits(model.forward(x), x));
  model.append(std::make_shared<ReLU>());
  model.append(std::make_shared<ConstantScale>(3.0f));
  model.insert(1, std::make_shared<Bias>(2));
  EXPECT_EQ(model.size(), 3u);
  EXPECT_EQ(model.parameters().at(0).name, "1.bias");
  expect_values(model.forward(x), {3, 0}, 0, "relu, bias, scale");
  SequentialItem first = model.pop(0);
  EXPECT_EQ(first.module().type(), "ReLU");
  EXPECT_EQ(model.parameters().at(0).name, "0.bias");
  expect_values(model.forward(x), {3, -9}, 0, "bias, scale");
  model.append(std::move(first));
  expect_values(model.forward(x), {3, 0}, 0, "bias, scale, relu");
  EXPECT_EQ(message_of([&] { model.pop(3); }),
            "Sequential: index: 3, expected below 3");
  EXPECT_EQ(message_of([&] { model.insert(4, std::make_shared<ReLU>()); }),
            "Sequential: index: 4, expected at most 3");
}

// y = x + W (2 x), the residual leaving one Sequential and entering the next.
TEST(Sequential, CarriesAResidualThroughExtraTensors) {
  for (bool fuse : {false, true}) {
    Sequential begin(std::make_shared<ConstantScale>(2.0f));
    begin.insert(0, std::make_shared<MakeExtraOutput>(true));
    Sequential end(std::make_shared<BasicLinear>(2, 2),
                   std::make_shared<AddExtraInput>(true));
    begin.set_fusion(fuse);
    end.set_fusion(fuse);
    end.load_state_dict(std::vector<NamedTensor>{
        {"0.weight", filled(DType::kF32, {2, 2}, {1, 2, 3, 4})}});
    EXPECT_EQ(begin.num_extra_outputs(), 1);
    EXPECT_EQ(end.num_extra_inputs(), 1);
    const Tensor x = filled(DType::kF32, {1, 2}, {1, -1});
    const Tensor dy = filled(DType::kF32, {1, 2}, {1, 0.5});
    Sequential::Context first, second;
    SequentialOutput h = begin.forward(x, std::span<const Tensor>{}, &first);
    SequentialOutput y = end.forward(h.output, h.extra, &second);
    expect_values(y.output, {-1, -3}, 0, "y");
    SequentialGrads d = end.backward(dy, std::span<const Tensor>{}, second);
    SequentialGrads dx = begin.backward(d.input, d.extra, first);
    // dy + 2 W^T dy.
    expect_values(dx.input, {1 + 2 * (1 + 1.5), 0.5 + 2 * (2 + 2)}, 0, "dx");
    expect_values(*end.parameters()[0].parameter->grad, {2, -2, 1, -1}, 0,
                  "dW");
  }
}

TEST(Sequential, CountsExtraTensors) {
  Sequential add(std::make_shared<AddExtraInput>());
  Sequential make(std::make_shared<MakeExtraOutput>());
  const Tensor x = filled(DType::kF32, {1, 2}, {1, -1});
  EXPECT_EQ(message_of([&] { add.forward(x); }),
            "Sequential: extra inputs: 0, expected 1");
  EXPECT_THAT(message_of([&] { make.forward(x); }),
              testing::StartsWith("Sequential: forward: without extra"));
  Sequential::Context context;
  make.forward(x, std::span<const Tensor>{}, &context);
  EXPECT_EQ(
      message_of([&] { make.backward(x, std::span<const Tensor>{}, context); }),
      "Sequential: gradients of extra outputs: 0, expected 1");
  const std::vector<Tensor> wrong = {Tensor::zeros(DType::kF32, {2, 2})};
  EXPECT_THAT(message_of([&] { add.forward(x, wrong); }),
              testing::StartsWith("AddExtraInput: extra input: shape [2, 2]"));
}

TEST(Sequential, RefusesAContextThatIsUsedUp) {
  Sequential model = mlp();
  const Tensor x = normal_tensor(DType::kBF16, {32, 64}, 1);
  Sequential::Context context;
  EXPECT_THAT(message_of([&] { model.backward(x, context); }),
              testing::HasSubstr("context: 0 segments, expected 1"));
  model.forward(x, &context);
  model.backward(x, context);
  EXPECT_THAT(message_of([&] { model.backward(x, context); }),
              testing::HasSubstr("context: 0 segments"));
  EXPECT_THAT(message_of([&] {
                Reshape shape({-1, -1});
              }),
              testing::StartsWith("Reshape: shape: [-1, -1]"));
  EXPECT_THAT(message_of([&] { Dropout dropout(1.0f); }),
              testing::StartsWith("Dropout: p: 1"));
  EXPECT_THAT(message_of([&] { LayerNorm norm(Shape{}); }),
              testing::StartsWith("LayerNorm: normalized_shape: []"));
}

// A module breaks the group: what stands left and right of it is not fused
// with it, nor across it.
TEST(Sequential, TakesPlainModulesAndSequentials) {
  manual_seed(7);
  te::LinearOptions options;
  options.params_dtype = DType::kBF16;
  auto plain = std::make_shared<te::Linear>(128, 128, options);
  auto inner = std::make_shared<Sequential>(
      std::make_shared<Linear>(128, 64, true, bf16()),
      std::make_shared<GELU>());
  Sequential model(std::make_shared<Linear>(64, 128, true, bf16()), plain,
                   std::make_shared<GELU>(), inner,
                   std::make_shared<ConstantScale>(0.5f));
  EXPECT_EQ(model.plan(),
            "forward\n"
            "  ForwardLinearBiasActivation(BasicLinear, Bias)\n"
            "  module Linear\n"
            "  GELU\n"
            "  module Sequential\n"
            "  ConstantScale\n"
            "backward\n"
            "  ConstantScale\n"
            "  module Sequential\n"
            "  GELU\n"
            "  module Linear\n"
            "  Bias\n"
            "  BasicLinear\n");
  EXPECT_EQ(model.parameters()[2].name, "1.weight");
  EXPECT_EQ(model.parameters()[4].name, "3.0.basic_ops.0.weight");
  const Tensor x = normal_tensor(DType::kBF16, {32, 64}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {32, 64}, 2);
  const Pass whole = run(model, x, dy);
  for (const Tensor& grad : whole.parameter_grads) {
    double sum = 0;
    for (std::int64_t k = 0; k < grad.numel(); ++k)
      sum += std::abs(at(grad, k));
    EXPECT_GT(sum, 0);
  }
  // The same module by module.
  std::vector<std::unique_ptr<Sequential>> pieces;
  while (model.size() > 0) {
    pieces.push_back(std::make_unique<Sequential>());
    pieces.back()->append(model.pop(0));
  }
  std::vector<Sequential::Context> contexts(pieces.size());
  Tensor y = x, dx = dy;
  for (std::size_t k = 0; k < pieces.size(); ++k)
    y = pieces[k]->forward(y, &contexts[k]);
  for (std::size_t k = pieces.size(); k-- > 0;)
    dx = pieces[k]->backward(dx, contexts[k]);
  EXPECT_TRUE(same_bits(whole.y, y));
  EXPECT_TRUE(same_bits(whole.dx, dx));
}

// Modules whose results are more than a tensor go in a row as well.
TEST(Sequential, TakesLayersWithResultsOfTheirOwn) {
  auto layer = std::make_shared<TransformerLayer>(
      64, 128, 4,
      TransformerLayerOptions{.hidden_dropout = 0, .attention_dropout = 0});
  auto mlp = std::make_shared<LayerNormMLP>(64, 128);
  Sequential model(layer, mlp);
  const Tensor x = normal_tensor(DType::kF32, {8, 2, 64}, 1);
  const Tensor dy = normal_tensor(DType::kF32, {8, 2, 64}, 2);
  const Pass pass = run(model, x, dy);

  TransformerLayer::Context c;
  LayerNormMLP::Context d;
  EXPECT_TRUE(
      same_bits(pass.y, mlp->forward(layer->forward(x, &c), &d).output));
  EXPECT_TRUE(same_bits(
      pass.dx, layer->backward(mlp->backward(dy, d), c).d_hidden_states));

  LayerNormMLPOptions options;
  options.return_layernorm_output = true;
  Sequential two(std::make_shared<LayerNormMLP>(64, 128, options));
  EXPECT_EQ(message_of([&] { two.forward(x); }),
            "Sequential: layernorm_output: returned, expected a module that "
            "gives its output alone");
}

TEST(Sequential, LeavesOutWhatNeedsNoGradient) {
  Sequential model = mlp();
  model.insert(0, std::make_shared<ConstantScale>(2.0f));
  const Tensor x = normal_tensor(DType::kBF16, {32, 64}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {32, 64}, 2);
  const Pass all = run(model, x, dy);
  model.zero_grad();
  Sequential::Context context;
  LinearCall call;
  call.input_requires_grad = false;
  model.forward(x, &context, call);
  SequentialGrads grads =
      model.backward(dy, std::span<const Tensor>{}, context);
  EXPECT_EQ(grads.input.view.data, nullptr);
  const auto parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(
        same_bits(*parameters[i].parameter->grad, all.parameter_grads[i]));
  // Frozen up to the second Linear: nothing before it has a gradient.
  for (std::size_t i = 0; i < 4; ++i)
    parameters[i].parameter->requires_grad = false;
  model.zero_grad();
  model.forward(x, &context, call);
  model.backward(dy, context);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_EQ(parameters[i].parameter->grad.has_value(), i >= 4) << i;
  EXPECT_TRUE(
      same_bits(*parameters[4].parameter->grad, all.parameter_grads[4]));
}

// The linear layer of an operation and that of a module are one: bit for bit,
// under every recipe and in its histories, over several steps.
TEST(Sequential, ABasicLinearIsAModulesLinear) {
  for (const auto& [name, recipe, error] : all_recipes()) {
    manual_seed(7);
    Sequential model(std::make_shared<BasicLinear>(128, 64, bf16()));
    te::LinearOptions options;
    options.params_dtype = DType::kBF16;
    options.bias = false;
    te::Linear module(128, 64, options);
    module.load_state_dict(std::vector<NamedTensor>{
        {"weight", *model.parameters()[0].parameter->value}});
    for (std::uint64_t step = 0; step < 3; ++step) {
      const double scale = 1 + static_cast<double>(step);
      const Tensor x = normal_tensor(DType::kBF16, {64, 128}, step, scale);
      const Tensor dy = normal_tensor(DType::kBF16, {64, 64}, 9 + step, scale);
      Sequential::Context a;
      te::Linear::Context b;
      Tensor y, z, dx, dz;
      {
        Autocast scope(recipe);
        y = model.forward(x, &a);
      }
      dx = model.backward(dy, a);
      {
        Autocast scope(recipe);
        z = module.forward(x, &b);
      }
      dz = module.backward(dy, b);
      EXPECT_TRUE(same_bits(y, z)) << name << step;
      EXPECT_TRUE(same_bits(dx, dz)) << name << step;
      EXPECT_TRUE(same_bits(*model.parameters()[0].parameter->grad,
                            *module.weight().grad))
          << name << step;
    }
    const auto own = model[0].modules()[0].module->extra_state();
    const auto theirs = module.extra_state();
    ASSERT_EQ(own.size(), theirs.size()) << name;
    // Histories, and the offsets of stochastic rounding.
    EXPECT_EQ(own.empty(), name != "delayed" && name != "nvfp4");
    for (std::size_t i = 0; i < own.size(); ++i)
      EXPECT_TRUE(same_bits(own[i].tensor, theirs[i].tensor)) << own[i].name;
  }
}

TEST(Sequential, KeepsAWeightForMicrobatches) {
  Sequential model(std::make_shared<BasicLinear>(64, 64, bf16()));
  const Tensor x = normal_tensor(DType::kBF16, {32, 64}, 1);
  LinearCall first, later;
  first.is_first_microbatch = true;
  later.is_first_microbatch = false;
  Autocast scope(recipe::MXFP8BlockScaling{});
  const Tensor y = model.forward(x, nullptr, first);
  constant_init(1)(*model.parameters()[0].parameter->value, 0);
  EXPECT_TRUE(same_bits(model.forward(x, nullptr, later), y));
  EXPECT_FALSE(same_bits(model.forward(x), y));
}

TEST(Sequential, IsTheSameWhenRecomputed) {
  for (const auto& [name, recipe, error] : all_recipes()) {
    Sequential model = mlp(), again = mlp();
    for (Sequential* m : {&model, &again})
      m->append(std::make_shared<Dropout>(0.25f));
    for (std::uint64_t step = 0; step < 2; ++step) {
      const Tensor x = normal_tensor(DType::kBF16, {32, 64}, step);
      const Tensor dy = normal_tensor(DType::kBF16, {32, 64}, 5 + step);
      Sequential::Context a;
      RecomputeContext<Sequential> b;
      Tensor y, z;
      manual_seed(9 + step);
      {
        Autocast scope(recipe);
        y = model.forward(x, &a);
      }
      const Tensor dx = model.backward(dy, a);
      manual_seed(9 + step);
      {
        Autocast scope(recipe);
        z = recomputed_forward(again, x, b);
      }
      EXPECT_LT(saved_bytes(b), 32 * 64 * 2 + 1);
      const Tensor dz = recomputed_backward(again, dy, b);
      EXPECT_TRUE(same_bits(y, z)) << name;
      EXPECT_TRUE(same_bits(dx, dz)) << name;
    }
  }
}

TEST(Sequential, DoesNotDependOnThreads) {
  const Tensor x = normal_tensor(DType::kBF16, {96, 64}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {96, 64}, 2);
  for (const auto& [name, recipe, error] : all_recipes()) {
    std::vector<Pass> passes;
    for (int threads : {1, 4}) {
      set_thread_count(threads);
      Sequential model = mlp();
      Autocast scope(recipe);
      passes.push_back(run(model, x, dy));
    }
    set_thread_count(0);
    expect_same_pass(passes[0], passes[1], name);
  }
}

// What Quantize hands on are the codes that the next GEMM would have made.
TEST(Sequential, QuantizeMakesWhatTheGemmReads) {
  const Tensor x = normal_tensor(DType::kBF16, {64, 128}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {64, 64}, 2);
  for (const auto& [name, recipe, error] : all_recipes()) {
    // Stochastic rounding draws for another slot.
    if (name == "nvfp4") continue;
    std::vector<Pass> passes;
    for (bool quantize : {false, true}) {
      manual_seed(7);
      Sequential model(std::make_shared<BasicLinear>(128, 64, bf16()));
      if (quantize) {
        model.insert(0, std::make_shared<Quantize>());
        model.append(std::make_shared<Quantize>(false, true));
      }
      Autocast scope(recipe);
      passes.push_back(run(model, x, dy));
    }
    expect_same_pass(passes[0], passes[1], name);
  }
  Sequential alone(std::make_shared<Quantize>(true, true));
  const Pass plain = run(alone, x, dy);
  EXPECT_TRUE(same_bits(plain.y, x));
  EXPECT_TRUE(same_bits(plain.dx, dy));
  Autocast scope(recipe::MXFP8BlockScaling{});
  const Pass rounded = run(alone, x, dy);
  EXPECT_GT(distance(rounded.y, x), 0.01);
  EXPECT_LT(distance(rounded.y, x), 0.04);
  EXPECT_GT(distance(rounded.dx, dy), 0.01);
  EXPECT_LT(distance(rounded.dx, dy), 0.04);
}

TEST(Sequential, FollowsABackwardOverride) {
  const Tensor x = normal_tensor(DType::kBF16, {64, 64}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {64, 64}, 2);
  for (BackwardOverride override :
       {BackwardOverride::kHighPrecision, BackwardOverride::kDequantized}) {
    recipe::MXFP8BlockScaling recipe;
    recipe.backward_override = override;
    std::vector<Pass> passes;
    for (bool fuse : {false, true}) {
      Sequential model = mlp();
      model.set_fusion(fuse);
      Autocast scope(recipe);
      passes.push_back(run(model, x, dy));
    }
    // GELU's output is rounded once less, then to codes of the other side now
    // and then: less than the error of a code.
    EXPECT_LT(distance(passes[1].y, passes[0].y), 0.03);
    EXPECT_LT(distance(passes[1].dx, passes[0].dx), 0.03);
  }
}

}  // namespace
}  // namespace assay::te::ops
