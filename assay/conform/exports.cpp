#include "assay/conform/exports.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace assay::conform {

std::optional<CaseResult> judge_exports(const Spec& spec, Tier tier,
                                        const Hello& hello) {
  const auto found = hello.modules.find(spec.module);
  if (found == hello.modules.end() || !found->second.has_api ||
      spec.api.empty())
    return std::nullopt;
  const std::vector<std::string>& names = found->second.api;
  CaseResult result;
  result.subject.module = spec.module;
  result.subject.tier = tier;
  result.subject.id = "exports";
  result.ending = Ending::kCompared;
  result.verdict = Verdict::kMatch;
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::string> missing;
  for (const std::string& name : spec.api) {
    Check check;
    check.name = "exports." + name;
    check.max_abs = check.max_rel = check.norm_l2 = check.ulp_max = kNone;
    check.verdict = Verdict::kMatch;
    if (std::ranges::find(names, name) == names.end()) {
      check.verdict = result.verdict = Verdict::kMismatch;
      check.criterion = "exports";
      check.text = "missing";
      missing.push_back(name);
    }
    result.checks.push_back(std::move(check));
  }
  if (!missing.empty())
    result.message = fmt::format("missing: {}", fmt::join(missing, ", "));
  return result;
}

}  // namespace assay::conform
