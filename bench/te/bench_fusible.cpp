// A training step of a row of operations: fused beside one by one.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/te/fusible/activation.h"
#include "assay/te/fusible/elementwise.h"
#include "assay/te/fusible/linear.h"
#include "assay/te/fusible/normalization.h"
#include "assay/te/fusible/sequential.h"
#include "bench/te/bench.h"

namespace assay::bench {
namespace {

namespace ops = te::ops;

constexpr std::int64_t kTokens = 1024, kHidden = 1024, kFfn = 4096;

ops::BasicLinearOptions bf16() {
  ops::BasicLinearOptions options;
  options.dtype = DType::kBF16;
  return options;
}

std::shared_ptr<ops::Sequential> mlp() {
  ops::NormalizationOptions norm;
  norm.dtype = DType::kBF16;
  return std::make_shared<ops::Sequential>(
      std::make_shared<ops::LayerNorm>(Shape{kHidden}, norm),
      std::make_shared<ops::Linear>(kHidden, kFfn, true, bf16()),
      std::make_shared<ops::GELU>(),
      std::make_shared<ops::Linear>(kFfn, kHidden, true, bf16()));
}

// Narrow products, so that what stands beside them counts.
std::shared_ptr<ops::Sequential> residual() {
  return std::make_shared<ops::Sequential>(
      std::make_shared<ops::MakeExtraOutput>(true),
      std::make_shared<ops::Linear>(kHidden, kHidden, true, bf16()),
      std::make_shared<ops::AddExtraInput>(true));
}

Body step(const std::shared_ptr<ops::Sequential>& model,
          const std::optional<te::Recipe>& recipe, bool fuse) {
  const Tensor x = random_tensor(DType::kBF16, {kTokens, kHidden}, 1);
  const Tensor dy = random_tensor(DType::kBF16, {kTokens, kHidden}, 2);
  const std::vector<Tensor> extra(
      static_cast<std::size_t>(model->num_extra_inputs()), x);
  const std::vector<Tensor> extra_dy(
      static_cast<std::size_t>(model->num_extra_outputs()), dy);
  model->set_fusion(fuse);
  return [=] {
    std::optional<te::Autocast> scope;
    if (recipe) scope.emplace(*recipe);
    ops::Sequential::Context context;
    model->forward(x, extra, &context);
    model->backward(dy, extra_dy, context);
  };
}

Row row(const std::string& name, std::shared_ptr<ops::Sequential> (*make)(),
        double flops, const std::optional<te::Recipe>& recipe) {
  return {.name = "fusible_" + name,
          .flops = flops,
          .prepare = [=] { return step(make(), recipe, true); },
          .peer_name = "one by one",
          .peer_goal = 1.0,
          .prepare_peer = [=] { return step(make(), recipe, false); }};
}

std::vector<Row> make_rows() {
  // Three products of each weight.
  const double mlp_flops = 3 * 2.0 * kTokens * kHidden * kFfn * 2;
  const double residual_flops = 3 * 2.0 * kTokens * kHidden * kHidden;
  return {row("mlp_bf16", mlp, mlp_flops, std::nullopt),
          row("mlp_mxfp8", mlp, mlp_flops, te::recipe::MXFP8BlockScaling{}),
          row("mlp_delayed", mlp, mlp_flops, te::recipe::DelayedScaling{}),
          row("residual_bf16", residual, residual_flops, std::nullopt)};
}

const Registration kRows{make_rows()};

}  // namespace
}  // namespace assay::bench
