#include "assay/conform/report/run_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "assay/base/text.h"
#include "assay/compare/divergence.h"

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

WorstCheck worst_check(const ModuleResult& module) {
  WorstCheck worst;
  for (const CaseResult& c : module.cases) {
    for (const Check& check : c.checks) {
      if (check.standard.empty() || std::isnan(check.norm_l2)) continue;
      if (!worst.check || worse(check, *worst.check)) worst = {&c, &check};
    }
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

std::map<Ending, std::int64_t> not_compared(const RunResult& run) {
  std::map<Ending, std::int64_t> counts;
  for (const ModuleResult& module : run.modules)
    for (const CaseResult& c : module.cases)
      if (c.ending != Ending::kCompared) ++counts[c.ending];
  return counts;
}

std::string not_compared_text(const RunResult& run) {
  std::vector<std::pair<Ending, std::int64_t>> sorted;
  std::int64_t total = 0;
  for (const auto& entry : not_compared(run)) {
    sorted.push_back(entry);
    total += entry.second;
  }
  if (total == 0) return "";
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](auto& a, auto& b) { return a.second > b.second; });
  std::string text = human_count(total) + " not compared";
  const char* before = ": ";
  for (const auto& [ending, count] : sorted) {
    std::string word(to_string(ending));
    std::replace(word.begin(), word.end(), '_', ' ');
    text += before + human_count(count) + " " + word;
    before = ", ";
  }
  return text;
}

double pass_rate(const Tally& tally) {
  return tally.total() == 0 ? 0
                            : static_cast<double>(tally.match) /
                                  static_cast<double>(tally.total());
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
