#include "assay/te/recipe/nvfp4_roles.h"

#include <cctype>

namespace assay::te {

bool is_nvfp4_scope(std::string_view scope) {
  return scope == "none" || scope == "weights" || scope == "activations" ||
         scope == "all";
}

bool nvfp4_in_scope(std::string_view scope, Role role) {
  if (direction_of(role) == Direction::kBackward || scope == "none")
    return false;
  if (scope == "all") return true;
  return (scope == "weights") == (role == Role::kWeight);
}

std::optional<FourOverSix> nvfp4_error_mode(
    const recipe::NVFP4BlockScaling& r) {
  std::string mode;
  for (const unsigned char c : r.nvfp4_4over6_err_mode)
    mode += static_cast<char>(std::toupper(c));
  if (mode == "MAE") return FourOverSix::kMae;
  if (mode == "MSE") return FourOverSix::kMse;
  return std::nullopt;
}

NVFP4Options nvfp4_options(const recipe::NVFP4BlockScaling& r, Role role) {
  NVFP4Options options;
  const bool backward = direction_of(role) == Direction::kBackward;
  const bool weight = role == Role::kWeight;
  options.with_2d = weight && !r.disable_2d_quantization;
  options.row_scaled = !weight && !backward && r.row_scaled_activation;
  options.rht = !weight && !options.row_scaled && !r.disable_rht;
  options.stochastic_rounding = backward && !r.disable_stochastic_rounding;
  if (nvfp4_in_scope(r.nvfp4_4over6, role)) {
    options.four_over_six = *nvfp4_error_mode(r);
    if (nvfp4_in_scope(r.nvfp4_4over6_e4m3_use_256, role))
      options.scale_max = 256.0f;
  }
  return options;
}

}  // namespace assay::te
