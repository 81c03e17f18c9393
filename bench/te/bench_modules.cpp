// Training steps of modules, forward and backward with every gradient, beside
// the same layers in torch: quantised ones beside torch's bf16, for the CPU has
// no FP8 product to be compared with.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/te/modules/layernorm_mlp.h"
#include "assay/te/modules/linear.h"
#include "assay/te/modules/transformer_layer.h"
#include "bench/te/bench.h"

namespace assay::bench {
namespace {

constexpr std::int64_t kTokens = 2048, kHidden = 1024, kFfn = 4096;
constexpr std::int64_t kHeads = 16, kGroups = 4, kHeadDim = 64;

struct Mode {
  std::string name;
  DType dtype;
  std::optional<te::Recipe> recipe;
  double torch_goal;
};

std::vector<Mode> modes() {
  const DType bf16 = DType::kBF16;
  return {{"f32", DType::kF32, std::nullopt, 1},
          {"bf16", bf16, std::nullopt, 1},
          {"delayed", bf16, te::recipe::DelayedScaling{}, 1},
          {"current", bf16, te::recipe::Float8CurrentScaling{}, 1},
          {"block", bf16, te::recipe::Float8BlockScaling{}, 1},
          {"mxfp8", bf16, te::recipe::MXFP8BlockScaling{}, 1},
          {"nvfp4", bf16, te::recipe::NVFP4BlockScaling{}, 1}};
}

const Tensor& tensor_of(const Tensor& y) { return y; }
const Tensor& tensor_of(const te::NormLinearOutput& y) { return y.output; }

// One step of a module made by `make(dtype)`, from [tokens, 1, in] to
// [.., out].
template <typename Make>
std::function<Body()> step(const Mode& mode, std::int64_t in, std::int64_t out,
                           Make make) {
  return [=]() -> Body {
    auto module = make(mode.dtype);
    const Tensor x = random_tensor(mode.dtype, {kTokens, 1, in}, 1);
    const Tensor dy = random_tensor(mode.dtype, {kTokens, 1, out}, 2, 1e-3);
    return [=] {
      module->zero_grad();
      typename std::decay_t<decltype(*module)>::Context context;
      {
        te::Autocast autocast(te::AutocastOptions{
            .enabled = mode.recipe.has_value(),
            .recipe = mode.recipe.value_or(te::default_recipe())});
        tensor_of(module->forward(x, &context));
      }
      module->backward(dy, context);
    };
  };
}

auto linear(DType dtype) {
  te::LinearOptions options;
  options.params_dtype = dtype;
  return std::make_shared<te::Linear>(kHidden, kFfn, options);
}

auto mlp(DType dtype) {
  te::LayerNormMLPOptions options;
  options.params_dtype = dtype;
  return std::make_shared<te::LayerNormMLP>(kHidden, kFfn, options);
}

// Causal, grouped queries, without dropout.
auto layer(DType dtype) {
  te::TransformerLayerOptions options;
  options.params_dtype = dtype;
  options.num_gqa_groups = kGroups;
  options.hidden_dropout = options.attention_dropout = 0;
  return std::make_shared<te::TransformerLayer>(kHidden, kFfn, kHeads, options);
}

std::vector<Row> make_rows() {
  constexpr double kProduct = 2.0 * kTokens * kHidden * kFfn;
  // q, k, v and proj; of attention the half that is not masked, forward twice
  // and backward five products.
  constexpr double kLayer =
      6 * kProduct +
      3 * 2.0 * kTokens * kHidden * (2 * kHidden + 2 * kGroups * kHeadDim) +
      7 * 2.0 * kTokens * kTokens * kHidden / 2;
  std::vector<Row> all;
  for (const Mode& mode : modes()) {
    all.push_back({.name = "linear_step_" + mode.name,
                   .torch_goal = mode.torch_goal,
                   .flops = 3 * kProduct,
                   .prepare = step(mode, kHidden, kFfn, linear)});
    all.push_back({.name = "layernorm_mlp_step_" + mode.name,
                   .torch_goal = mode.torch_goal,
                   .flops = 6 * kProduct,
                   .prepare = step(mode, kHidden, kHidden, mlp)});
    // bench_layer.cpp has every mode on a smaller one.
    if (mode.name != "bf16" && mode.name != "delayed") continue;
    all.push_back({.name = "transformer_layer_step_" + mode.name,
                   .torch_goal = mode.torch_goal,
                   .flops = kLayer,
                   .prepare = step(mode, kHidden, kHidden, layer)});
  }
  // What FP8 is chosen for where there are no bf16 units: torch's fp32.
  for (const Mode& mode : modes()) {
    if (mode.name != "delayed" && mode.name != "current") continue;
    all.push_back({.name = "linear_step_" + mode.name + "_over_f32",
                   .torch_goal = 1.5,
                   .flops = 3 * kProduct,
                   .prepare = step(mode, kHidden, kFfn, linear)});
  }
  return all;
}

const Registration kRows{make_rows()};

}  // namespace
}  // namespace assay::bench
