// What each role of an NVFP4 recipe is quantised with.
#pragma once

#include <optional>
#include <string_view>

#include "assay/te/quantize/nvfp4.h"
#include "assay/te/recipe/recipe.h"

namespace assay::te {

bool is_nvfp4_scope(std::string_view scope);
// Whether `scope` takes the role in: weights, or inputs and outputs of the
// forward pass. Gradients are never in one.
bool nvfp4_in_scope(std::string_view scope, Role role);
// MAE or MSE, in either case; nullopt for anything else.
std::optional<FourOverSix> nvfp4_error_mode(const recipe::NVFP4BlockScaling& r);

// Input (and output): transform on columns, or one amax a row, or 4-over-6;
// weight: 16 x 16 tiles; gradients: transform and stochastic rounding; each
// unless the recipe disables it (NVTE; docs/numerics.md). The seed is not set.
NVFP4Options nvfp4_options(const recipe::NVFP4BlockScaling& r, Role role);

}  // namespace assay::te
