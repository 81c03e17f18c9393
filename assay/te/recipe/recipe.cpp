#include "assay/te/recipe/recipe.h"

#include <cstdlib>
#include <type_traits>

#include "assay/te/check.h"

namespace assay::te {

std::string_view format_name(Format format) {
  constexpr std::string_view kNames[] = {"E4M3", "E5M2",      "HYBRID",
                                         "E2M1", "E4M3_FNUZ", "HYBRID_FNUZ"};
  return kNames[static_cast<std::size_t>(format)];
}

DType format_dtype(Format format, Direction direction) {
  const bool forward = direction == Direction::kForward;
  switch (format) {
    case Format::kE4M3:
      return DType::kE4M3FN;
    case Format::kE5M2:
      return DType::kE5M2;
    case Format::kHybrid:
      return forward ? DType::kE4M3FN : DType::kE5M2;
    case Format::kE4M3Fnuz:
      return DType::kE4M3FNUZ;
    case Format::kHybridFnuz:
      return forward ? DType::kE4M3FNUZ : DType::kE5M2FNUZ;
    case Format::kE2M1:
      break;
  }
  return DType::kE2M1;
}

std::string_view role_name(Role role) {
  constexpr std::string_view kNames[] = {"input", "weight", "output",
                                         "grad_output", "grad_input"};
  return kNames[static_cast<std::size_t>(role)];
}

namespace recipe {

BackwardOverride default_backward_override() {
  const std::string text = environment_text("NVTE_BACKWARD_OVERRIDE", "");
  if (text.empty()) return BackwardOverride::kNone;
  if (text == "high_precision") return BackwardOverride::kHighPrecision;
  if (text == "dequantized") return BackwardOverride::kDequantized;
  fail("recipe", "NVTE_BACKWARD_OVERRIDE", "\"" + text + "\"",
       "high_precision, dequantized or unset");
}

bool environment_flag(const char* name) {
  return environment_text(name, "0") == "1";
}

std::string environment_text(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

}  // namespace recipe

std::string_view recipe_name(const Recipe& r) {
  constexpr std::string_view kNames[] = {
      "DelayedScaling",    "Float8CurrentScaling", "Float8BlockScaling",
      "MXFP8BlockScaling", "NVFP4BlockScaling",    "CustomRecipe"};
  return kNames[r.index()];
}

BackwardOverride backward_override(const Recipe& r) {
  return std::visit([](const auto& one) { return one.backward_override; }, r);
}

std::int64_t quantization_alignment(const Recipe& r) {
  if (std::holds_alternative<recipe::MXFP8BlockScaling>(r)) return 32;
  if (std::holds_alternative<recipe::NVFP4BlockScaling>(r)) return 128;
  if (const auto* custom = std::get_if<recipe::Custom>(&r))
    return custom->quantization_alignment;
  return 16;
}

}  // namespace assay::te
