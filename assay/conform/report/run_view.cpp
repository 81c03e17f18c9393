#include "assay/conform/report/run_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "assay/base/text.h"
#include "assay/compare/divergence.h"
#include "assay/report/display.h"

namespace assay::conform {
namespace {

// Mismatches first, then larger errors; false for what has no figure.
bool worse(const Check& a, const Check& b) {
  const bool a_differs = a.verdict == Verdict::kMismatch;
  const bool b_differs = b.verdict == Verdict::kMismatch;
  if (a_differs != b_differs) return a_differs;
  return a.norm_l2 > b.norm_l2;
}

std::string check_text(const Check& check) {
  std::string name = check.name;
  if (check.rank > 0) name += fmt::format(" (rank {})", check.rank);
  if (check.rank < 0) name += " (all ranks)";
  return check.text.empty() ? name : name + ": " + check.text;
}

}  // namespace

const Check* worst_check(const CaseResult& result) {
  const Check* worst = nullptr;
  for (const Check& check : result.checks) {
    if (check.standard.empty() || std::isnan(check.norm_l2)) continue;
    if (!worst || worse(check, *worst)) worst = &check;
  }
  return worst;
}

WorstCheck worst_check(const ModuleResult& module) {
  WorstCheck worst;
  for (const CaseResult& c : module.cases) {
    const Check* check = worst_check(c);
    if (check && (!worst.check || worse(*check, *worst.check)))
      worst = {&c, check};
  }
  return worst;
}

Cost cost(const ModuleResult& module) {
  Cost total;
  for (const CaseResult& c : module.cases) {
    total.golden_seconds += c.golden_seconds;
    total.seconds += c.seconds;
    total.golden_peak_bytes =
        std::max(total.golden_peak_bytes, c.golden_peak_bytes);
    total.peak_bytes = std::max(total.peak_bytes, c.peak_bytes);
    total.slower = std::max(total.slower, c.slower);
  }
  return total;
}

std::string again(const RunResult& run, const CaseResult& result) {
  if (run.command.empty()) return "";
  return run.command + " --only " + shell_quote(result.subject.name());
}

std::string why(const CaseResult& result) {
  if (!result.message.empty()) return result.message;
  for (const Verdict verdict : {Verdict::kMismatch, Verdict::kIncomplete})
    for (const Check& check : result.checks)
      if (check.verdict == verdict) return check_text(check);
  if (result.verdict == Verdict::kEmpty) return "nothing but empty tensors";
  return result.verdict == Verdict::kMatch ? "" : "no reason recorded";
}

std::string own_message(const CaseResult& result) {
  for (const Check& check : result.checks)
    if (check.verdict != Verdict::kMatch && !check.text.empty() &&
        result.message.ends_with(check.text))
      return "";
  return result.message;
}

std::string parameters_text(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    if (!text.empty()) text += ' ';
    text += name + '=' + (value.is_text() ? value.text() : to_json(value));
  }
  return text;
}

std::string side_text(const Side& side) {
  std::string text = side.implementation;
  if (!side.version.empty()) text += " " + side.version;
  if (!side.device.empty()) text += ", " + side.device;
  return text.empty() ? "unknown" : text;
}

std::map<Ending, std::int64_t> endings(const RunResult& run) {
  std::map<Ending, std::int64_t> counts;
  for (const ModuleResult& module : run.modules)
    for (const CaseResult& c : module.cases) ++counts[c.ending];
  return counts;
}

std::string_view ending_text(Ending ending) {
  switch (ending) {
    case Ending::kCompared:
      return "compared in part";
    case Ending::kTimeout:
      return "timed out";
    case Ending::kMemory:
      return "out of memory";
    case Ending::kGarbage:
      return "answered garbage";
    case Ending::kStale:
      return "stale golden";
    case Ending::kMissing:
      return "without golden";
    case Ending::kNotRun:
      return "not run";
    default:
      return to_string(ending);
  }
}

bool tells_little(Ending ending) {
  return ending == Ending::kStale || ending == Ending::kMissing ||
         ending == Ending::kNotRun || ending == Ending::kUnsupported;
}

std::string incomplete_text(const RunResult& run) {
  std::map<Ending, std::int64_t> counts;
  for (const ModuleResult& module : run.modules)
    for (const CaseResult& c : module.cases)
      if (c.verdict == Verdict::kIncomplete) ++counts[c.ending];
  std::vector<std::pair<Ending, std::int64_t>> sorted(counts.begin(),
                                                      counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](auto& a, auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [ending, count] : sorted) {
    if (!text.empty()) text += ", ";
    text += human_count(count) + " " + std::string(ending_text(ending));
  }
  return text;
}

std::string verdict_sentence(const RunResult& run) {
  const Tally all = tally(run);
  const std::string of_all = " of " + plural(all.total(), "case");
  switch (run.verdict) {
    case Verdict::kMatch:
      if (all.empty > 0)
        return plural(all.match, "case") +
               (all.match == 1 ? " agrees, " : " agree, ") +
               human_count(all.empty) +
               (all.empty == 1 ? " more is empty" : " more are empty");
      return "all " + plural(all.total(), "case") + " agree";
    case Verdict::kMismatch:
      return human_count(all.mismatch) + of_all +
             (all.mismatch == 1 ? " differs" : " differ");
    default:
      break;
  }
  if (all.total() == 0) return "nothing was compared";
  if (all.incomplete == 0)
    return all.match == 0 ? "nothing but empty tensors"
                          : "not every module was run to its end";
  return human_count(all.incomplete) + of_all + " could not be compared";
}

std::int64_t tested(const Tally& tally) { return tally.total() - tally.empty; }

double pass_rate(const Tally& tally) {
  return tested(tally) == 0 ? 0
                            : static_cast<double>(tally.match) /
                                  static_cast<double>(tested(tally));
}

std::string percent_text(double share) {
  const double tenths = std::floor(share * 1000 + 1e-9);
  if (tenths == 1000) return "100 %";
  return fmt::format("{:.1f} %", tenths / 10);
}

std::vector<std::string> guarded_api(const RunResult& run) {
  std::set<std::string> names;
  for (const ModuleResult& module : run.modules)
    names.insert(module.api.begin(), module.api.end());
  return {names.begin(), names.end()};
}

}  // namespace assay::conform
