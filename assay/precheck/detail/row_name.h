// The name of a row of a details csv, taken apart:
// "Functional.linear.0.forward.output.0".
#pragma once

#include <optional>
#include <string_view>

namespace assay::precheck {

struct RowName {
  std::string_view call;  // "Functional.linear.0"
  std::string_view api;   // "linear", "linalg.inv": without type and number
  bool backward = false;
  std::string_view output;  // "output.0"
};

// Nullopt where it has no direction, or less than type, API and number before
// it. The views are into `name`.
std::optional<RowName> parse_row_name(std::string_view name);

}  // namespace assay::precheck
