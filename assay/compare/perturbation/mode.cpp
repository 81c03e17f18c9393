#include "assay/compare/perturbation/mode.h"

#include <array>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay::perturbation {
namespace {

constexpr std::array<std::string_view, 6> kNames = {
    "repeat", "improve_precision", "add_noise", "bit_noise", "swap", "to_cpu"};

}  // namespace

std::string_view to_string(Mode mode) {
  return kNames[static_cast<std::size_t>(mode)];
}

Mode mode_named(std::string_view name) {
  std::string expected;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Mode>(i);
    expected.append(i == 0 ? "" : ", ").append(kNames[i]);
  }
  throw Error(Code::kUsage, "mode: " + printable(std::string(name)) +
                                ", expected one of " + expected);
}

std::vector<std::string> mode_names() { return {kNames.begin(), kNames.end()}; }

}  // namespace assay::perturbation
