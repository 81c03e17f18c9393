#include "assay/conform/report/run_terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "assay/base/text.h"
#include "assay/conform/report/run_view.h"
#include "assay/report/display.h"
#include "assay/report/terminal_table.h"
#include "assay/report/text_table.h"

namespace assay::conform {
namespace {

using Align = TextTable::Align;
constexpr std::size_t kChecksShown = 8;  // of one case
constexpr std::size_t kNamesShown = 10;  // of an API

std::string word(const RunResult& run, bool color) {
  return colored(run.verdict, to_string(run.verdict), color);
}

std::string counts_line(const RunResult& run) {
  const Tally all = tally(run);
  std::string incomplete = human_count(all.incomplete);
  if (all.incomplete > 0) incomplete += " (" + incomplete_text(run) + ")";
  return fmt::format(
      "match {}   mismatch {}   incomplete {}   empty {}   "
      "pass rate {}\n",
      human_count(all.match), human_count(all.mismatch), incomplete,
      human_count(all.empty), percent_text(pass_rate(all)));
}

bool one_tier(const RunResult& run) {
  return std::all_of(run.modules.begin(), run.modules.end(),
                     [&](const ModuleResult& module) {
                       return module.tier == run.modules[0].tier;
                     });
}

// "3 modules, small", the tier where there is one alone.
std::string scope_text(const RunResult& run) {
  std::string text =
      plural(static_cast<std::int64_t>(run.modules.size()), "module");
  if (!run.modules.empty() && one_tier(run))
    text += ", " + std::string(to_string(run.modules[0].tier));
  return text;
}

std::string head(const RunResult& run, bool color) {
  return fmt::format("golden {}; target {}; {}, {}, {}\n{}   {}\n{}",
                     safe_text(side_text(run.golden)),
                     safe_text(side_text(run.target)), scope_text(run),
                     plural(tally(run).total(), "case"),
                     human_seconds(run.seconds), word(run, color),
                     verdict_sentence(run), counts_line(run));
}

std::string notices(const RunResult& run) {
  std::string text;
  if (run.interrupted)
    text += "interrupted: the cases that were not reached are incomplete\n";
  for (const std::string& warning : run.warnings)
    text += "warning: " + safe_text(warning) + "\n";
  return text;
}

std::string ratio_text(double ratio) {
  return std::isfinite(ratio) && ratio > 0 ? fmt::format("{:.2f}x", ratio) : "";
}

// "" for none: a column that has nothing to say is left out.
std::string some(std::int64_t count) {
  return count > 0 ? human_count(count) : "";
}

TextTable empty_module_table() {
  using Tight = TextTable::Tight;
  return TextTable({{"module"},
                    {"match", Align::kRight},
                    {"differ", Align::kRight},
                    {"incompl.", Align::kRight},
                    {"empty", Align::kRight},
                    {"pass", Align::kRight},
                    {"rel. L2", Align::kRight},
                    {"worst case"},
                    {"tensor", Align::kLeft, Tight::kYield},
                    {"time", Align::kRight},
                    {"slower", Align::kRight},
                    {"peak", Align::kRight, Tight::kDrop}});
}

std::string module_table(const RunResult& run, const RunTextOptions& options) {
  TextTable table = empty_module_table();
  for (const ModuleResult& module : run.modules) {
    const Tally counts = tally(module);
    const WorstCheck worst = worst_check(module);
    const Cost spent = cost(module);
    std::string name = module.module;
    if (!one_tier(run)) name += " " + std::string(to_string(module.tier));
    table.row(
        module.verdict,
        {name, human_count(counts.match) + "/" + human_count(tested(counts)),
         some(counts.mismatch), some(counts.incomplete), some(counts.empty),
         percent_text(pass_rate(counts)),
         worst.check ? format_figure(worst.check->norm_l2) : "-",
         worst.check ? worst.subject->subject.id : "",
         worst.check ? worst.check->name : "", human_seconds(spent.seconds),
         ratio_text(spent.slower),
         spent.peak_bytes > 0 ? human_bytes(spent.peak_bytes) : ""});
  }
  const std::string text = table.render(options.columns, options.color);
  return text.empty() ? "" : "\n" + text;
}

std::string check_line(const Check& check) {
  std::string name = safe_text(check.name);
  if (check.rank > 0) name += fmt::format(" (rank {})", check.rank);
  if (check.rank < 0) name += " (all ranks)";
  std::string text = "  " + name + ": " + safe_text(check.text);
  if (std::isnan(check.max_abs)) return text + "\n";
  text += fmt::format("; rel. L2 {}, max abs {}", format_figure(check.norm_l2),
                      format_figure(check.max_abs));
  if (!std::isnan(check.ulp_max))
    text += ", max ulp " + format_figure(check.ulp_max);
  if (check.index >= 0) text += fmt::format(", element {}", check.index);
  return text + "\n";
}

std::string check_lines(const CaseResult& c, bool all) {
  std::string text;
  std::size_t shown = 0, bad = 0;
  for (const Check& check : c.checks) {
    if (check.verdict == Verdict::kMatch || check.verdict == Verdict::kEmpty)
      continue;
    if (++bad > kChecksShown && !all) continue;
    text += check_line(check);
    ++shown;
  }
  if (bad > shown) text += fmt::format("  {} more checks\n", bad - shown);
  return text;
}

std::string case_block(const RunResult& run, const CaseResult& c,
                       const RunTextOptions& options) {
  std::string text = colored(c.verdict, to_string(c.verdict), options.color) +
                     "   " + safe_text(c.subject.name());
  if (c.ending != Ending::kCompared)
    text += fmt::format("   {}", ending_text(c.ending));
  if (c.slower > 0)
    text += fmt::format("   {} of its baseline", ratio_text(c.slower));
  text += "\n  " + safe_text(parameters_text(c.subject.parameters)) + "\n";
  const std::string checks = check_lines(c, options.all);
  const std::string message = checks.empty() ? why(c) : own_message(c);
  if (!message.empty()) text += "  " + safe_text(message) + "\n";
  text += checks;
  if (!c.log.empty()) text += "  log: " + safe_text(c.log) + "\n";
  const std::string command = again(run, c);
  if (!command.empty()) text += "  again: " + safe_text(command) + "\n";
  return text;
}

bool told_in_full(const CaseResult& c) {
  return c.verdict == Verdict::kMismatch ||
         (c.verdict == Verdict::kIncomplete && !tells_little(c.ending));
}

// Mismatches first, then what could not be compared.
std::string case_blocks(const RunResult& run, const RunTextOptions& options) {
  std::string text;
  std::size_t shown = 0, left = 0;
  for (const Verdict verdict : {Verdict::kMismatch, Verdict::kIncomplete}) {
    for (const ModuleResult& module : run.modules) {
      for (const CaseResult& c : module.cases) {
        if (c.verdict != verdict || !told_in_full(c)) continue;
        if (shown == options.cases && !options.all) {
          ++left;
          continue;
        }
        ++shown;
        text += "\n" + case_block(run, c, options);
      }
    }
  }
  if (left > 0)
    text += "\n" + plural(static_cast<std::int64_t>(left), "more case") +
            " that " + (left == 1 ? "is" : "are") +
            " no match, --all shows them\n";
  return text;
}

// "linear: the golden is of another spec (12 cases, first small-9d20beef)".
std::string reasons_of(const RunResult& run, Ending ending) {
  struct Group {
    std::int64_t count = 0;
    std::string first;
  };
  std::string text;
  for (const ModuleResult& module : run.modules) {
    std::map<std::string, Group> groups;
    for (const CaseResult& c : module.cases) {
      if (c.ending != ending || told_in_full(c)) continue;
      Group& group = groups[c.message];
      if (group.count++ == 0) group.first = c.subject.id;
    }
    for (const auto& [message, group] : groups)
      text += fmt::format("  {}: {}{}{}, first {}\n", safe_text(module.module),
                          safe_text(message), message.empty() ? "" : "; ",
                          plural(group.count, "case"), safe_text(group.first));
  }
  return text;
}

std::string apart(const RunResult& run) {
  constexpr std::pair<Ending, std::string_view> kKinds[] = {
      {Ending::kStale, "stale goldens, no failure of numbers: collect again"},
      {Ending::kMissing, "without a golden: collect them"},
      {Ending::kUnsupported, "not supported, says the worker"},
      {Ending::kNotRun, "not run"},
  };
  std::string text;
  for (const auto& [ending, heading] : kKinds) {
    const std::string reasons = reasons_of(run, ending);
    if (!reasons.empty()) text += "\n" + std::string(heading) + "\n" + reasons;
  }
  return text;
}

std::string api_lines(const RunResult& run, const ApiCoverage* api) {
  if (!api) {
    const auto count = static_cast<std::int64_t>(guarded_api(run).size());
    if (count == 0) return "";
    return "\nAPI: guards " + plural(count, "name") +
           "; --api SCAN.json says of how many\n";
  }
  std::string text = "\nAPI: " + coverage_text(*api) + "\n";
  std::vector<ApiName> names = api->unguarded;
  std::stable_sort(names.begin(), names.end(),
                   [](auto& a, auto& b) { return a.uses > b.uses; });
  const std::size_t shown = std::min(kNamesShown, names.size());
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("  unguarded: {} ({})\n", safe_text(names[i].name),
                        plural(names[i].uses, "use"));
  if (shown < names.size())
    text += fmt::format("  and {} more\n", names.size() - shown);
  return text;
}

}  // namespace

std::string render_run(const RunResult& run, const ApiCoverage* api,
                       const RunTextOptions& options) {
  if (options.quiet) return word(run, options.color) + "   " + counts_line(run);
  return head(run, options.color) + notices(run) + module_table(run, options) +
         case_blocks(run, options) + apart(run) + api_lines(run, api);
}

}  // namespace assay::conform
