#include "assay/te/modules/residual_branch.h"

#include <utility>

#include "assay/te/modules/random.h"
#include "assay/te/quantize/identity.h"

namespace assay::te {

void ResidualBranch::Saved::visit_tensors(const TensorVisitor& visit) const {
  if (mask.numel() > 0) visit(mask);
  if (kept) visit(*kept);
}

Tensor ResidualBranch::forward(const Tensor& x, const Parameter* bias,
                               const Tensor& residual, Saved* saved) const {
  std::optional<Tensor> added;
  if (bias) added = convert_high_precision(values_of(*bias), x.dtype());
  if (!saved) return bias_dropout_add_forward(x, added, residual, 0, {}).out;

  DropoutState state;
  if (options_.dropout > 0) {
    std::optional<RandomScope> scope;
    if (options_.own_rows) scope.emplace(kModelParallelRandom);
    state = next_dropout_state();
  }
  *saved = {};
  const bool drops_paths = options_.drop_path_rate > 0;
  BiasDropoutAdd dropped = bias_dropout_add_forward(
      x, added, drops_paths ? std::nullopt : std::optional(residual),
      options_.dropout, state);
  saved->mask = std::move(dropped.mask);
  if (!drops_paths) return std::move(dropped.out);
  saved->drop_path = {options_.drop_path_rate, options_.batch_dim,
                      next_dropout_state()};
  DropPathForward path =
      drop_path_forward(dropped.out, residual, saved->drop_path);
  saved->kept = std::move(path.kept);
  return std::move(path.out);
}

Tensor ResidualBranch::backward(const Tensor& dy, Saved& saved) const {
  const Tensor d =
      saved.kept ? drop_path_backward(dy, *saved.kept, saved.drop_path) : dy;
  Tensor dx =
      bias_dropout_add_backward(d, saved.mask, options_.dropout, false).dx;
  saved = {};
  return dx;
}

}  // namespace assay::te
