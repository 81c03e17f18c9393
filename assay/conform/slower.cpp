#include "assay/conform/slower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "assay/base/text.h"

namespace assay::conform {
namespace {

constexpr std::size_t kMostWarnings = 20;

std::map<std::string, double> seconds_by_name(const RunResult& run) {
  std::map<std::string, double> seconds;
  for (const ModuleResult& module : run.modules)
    for (const CaseResult& c : module.cases)
      seconds[c.subject.name()] = c.seconds;
  return seconds;
}

void warn(std::vector<const CaseResult*> slow, double ratio, RunResult& run) {
  std::stable_sort(slow.begin(), slow.end(),
                   [](const CaseResult* a, const CaseResult* b) {
                     return a->slower > b->slower;
                   });
  for (std::size_t i = 0; i < std::min(slow.size(), kMostWarnings); ++i)
    run.warnings.push_back(fmt::format(
        "{} takes {:.1f} times as long as in the baseline: {}, was {}",
        slow[i]->subject.name(), slow[i]->slower,
        human_seconds(slow[i]->seconds),
        human_seconds(slow[i]->seconds / slow[i]->slower)));
  if (slow.size() > kMostWarnings)
    run.warnings.push_back(fmt::format("{} more over {} times the baseline",
                                       slow.size() - kMostWarnings,
                                       format_double(ratio)));
}

}  // namespace

void compare_times(const RunResult& baseline, double ratio, RunResult& run) {
  const std::map<std::string, double> before = seconds_by_name(baseline);
  std::vector<const CaseResult*> slow;
  std::size_t compared = 0;
  for (ModuleResult& module : run.modules)
    for (CaseResult& c : module.cases) {
      const auto found = before.find(c.subject.name());
      if (found == before.end() || found->second < kLeastSeconds ||
          c.seconds < kLeastSeconds)
        continue;
      ++compared;
      c.slower = c.seconds / found->second;
      if (c.slower > ratio) slow.push_back(&c);
    }
  warn(slow, ratio, run);
  const auto who = [](const Side& side) {
    return fmt::format("{} on {} {}", side.implementation, side.device,
                       printable(to_json(side.environment)));
  };
  if (who(baseline.target) != who(run.target))
    run.warnings.push_back(fmt::format(
        "the baseline's times are of another target: {}; this one is {}",
        who(baseline.target), who(run.target)));
  if (compared == 0)
    run.warnings.push_back(fmt::format(
        "no case of the baseline took {} here and there: no times were "
        "compared",
        human_seconds(kLeastSeconds)));
}

}  // namespace assay::conform
