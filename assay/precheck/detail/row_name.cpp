#include "assay/precheck/detail/row_name.h"

namespace assay::precheck {
namespace {

constexpr std::string_view kForward = ".forward.", kBackward = ".backward.";

}  // namespace

std::optional<RowName> parse_row_name(std::string_view name) {
  RowName row;
  // The last one: an operator may be called "forward" itself.
  const std::size_t forward = name.rfind(kForward);
  const std::size_t backward = name.rfind(kBackward);
  const bool has_forward = forward != std::string_view::npos;
  const bool has_backward = backward != std::string_view::npos;
  if (!has_forward && !has_backward) return std::nullopt;
  row.backward = has_backward && (!has_forward || backward > forward);
  const std::size_t at = row.backward ? backward : forward;
  row.call = name.substr(0, at);
  row.output = name.substr(at + (row.backward ? kBackward : kForward).size());
  const std::size_t first = row.call.find('.');
  const std::size_t last = row.call.rfind('.');
  if (first == std::string_view::npos || last <= first + 1 || first == 0 ||
      last + 1 == row.call.size() || row.output.empty())
    return std::nullopt;
  row.api = row.call.substr(first + 1, last - first - 1);
  return row;
}

}  // namespace assay::precheck
