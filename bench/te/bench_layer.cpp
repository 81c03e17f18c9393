// A training step of a transformer layer: forward and backward.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/te/modules/transformer_layer.h"
#include "bench/te/bench.h"

namespace assay::bench {
namespace {

constexpr std::int64_t kSequence = 512, kBatch = 2, kHidden = 512, kFfn = 2048,
                       kHeads = 8;

Body step(DType dtype, const std::optional<te::Recipe>& recipe,
          bool recompute_core) {
  te::TransformerLayerOptions options;
  options.hidden_dropout = options.attention_dropout = 0;
  options.params_dtype = dtype;
  auto layer =
      std::make_shared<te::TransformerLayer>(kHidden, kFfn, kHeads, options);
  const Tensor x = random_tensor(dtype, {kSequence, kBatch, kHidden}, 1);
  const Tensor dy = random_tensor(dtype, {kSequence, kBatch, kHidden}, 2);
  te::TransformerLayerCall call;
  call.checkpoint_core_attention = recompute_core;
  return [=] {
    te::TransformerLayer::Context context;
    {
      std::optional<te::Autocast> scope;
      if (recipe) scope.emplace(*recipe);
      layer->forward(x, &context, call);
    }
    layer->backward(dy, context);
  };
}

Row row(const std::string& name, DType dtype,
        const std::optional<te::Recipe>& recipe, bool recompute_core = false) {
  // Three products of each weight; attention's two and five, half of them
  // above the diagonal.
  const double weights = kHidden * (4.0 * kHidden + 2.0 * kFfn);
  const double tokens = kSequence * kBatch;
  const double attention = 7.0 * tokens * kSequence * kHidden;
  return {.name = "layer_" + name,
          .flops = 3 * 2.0 * tokens * weights + attention,
          .prepare = [=] { return step(dtype, recipe, recompute_core); }};
}

const Registration kRows{std::vector<Row>{
    row("f32", DType::kF32, std::nullopt),
    row("bf16", DType::kBF16, std::nullopt),
    row("bf16_recompute_core", DType::kBF16, std::nullopt, true),
    row("delayed", DType::kBF16, te::recipe::DelayedScaling{}),
    row("current", DType::kBF16, te::recipe::Float8CurrentScaling{}),
    row("block", DType::kBF16, te::recipe::Float8BlockScaling{}),
    row("mxfp8", DType::kBF16, te::recipe::MXFP8BlockScaling{}),
    row("nvfp4", DType::kBF16, te::recipe::NVFP4BlockScaling{})}};

}  // namespace
}  // namespace assay::bench
