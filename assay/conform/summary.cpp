#include "assay/conform/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/base/text.h"
#include "assay/conform/report/run_view.h"

namespace assay::conform {
namespace {

std::string worst_figure(const ModuleResult& module) {
  const WorstCheck worst = worst_check(module);
  if (!worst.check) return "-";
  return fmt::format("{} ({})", format_figure(worst.check->norm_l2),
                     worst.check->name);
}

std::string table(const RunResult& run) {
  std::size_t width = 6;
  for (const ModuleResult& module : run.modules)
    width = std::max(width, module.module.size());
  std::string text = fmt::format("{:<{}}  {:>6} {:>6} {:>9} {:>11} {:>9}  {}\n",
                                 "module", width, "cases", "match", "mismatch",
                                 "incomplete", "time", "worst norm L2");
  for (const ModuleResult& module : run.modules) {
    const Tally counts = tally(module);
    text += fmt::format("{:<{}}  {:>6} {:>6} {:>9} {:>11} {:>9}  {}\n",
                        module.module, width, module.cases.size(),
                        counts.match + counts.empty, counts.mismatch,
                        counts.incomplete, human_seconds(cost(module).seconds),
                        worst_figure(module));
  }
  return text;
}

std::string failures(const RunResult& run) {
  std::string text;
  for (const ModuleResult& module : run.modules)
    for (const CaseResult& c : module.cases) {
      if (c.verdict == Verdict::kMatch || c.verdict == Verdict::kEmpty)
        continue;
      text += fmt::format("{} {} ({}): {}\n  {}\n", to_string(c.verdict),
                          c.subject.name(), to_string(c.ending), why(c),
                          parameters_text(c.subject.parameters));
      if (!c.log.empty()) text += "  log: " + c.log + "\n";
      if (!run.command.empty()) text += "  again: " + again(run, c) + "\n";
    }
  return text;
}

}  // namespace

std::string summary(const RunResult& run) {
  std::string text = failures(run) + table(run);
  for (const std::string& warning : run.warnings)
    text += "warning: " + warning + "\n";
  return text + fmt::format("{}{}: {} by {}, {}\n", to_string(run.verdict),
                            run.interrupted ? " (interrupted)" : "",
                            side_text(run.target), side_text(run.golden),
                            human_seconds(run.seconds));
}

std::string summary(const Collected& collected, const std::string& folder) {
  std::string text;
  for (const Collected::Failure& failure : collected.failures) {
    text += fmt::format("no golden of {}: {}\n", failure.name, failure.message);
    if (!failure.log.empty()) text += "  log: " + failure.log + "\n";
  }
  text +=
      fmt::format("{}: {} goldens by {} {} on {}", folder,
                  human_count(collected.made), collected.hello.implementation,
                  collected.hello.version, collected.hello.device);
  const auto add = [&](std::int64_t count, std::string_view what) {
    if (count > 0) text += fmt::format(", {} {}", human_count(count), what);
  };
  add(collected.refused, "of them refusals");
  add(collected.unsupported, "of them unsupported");
  add(collected.kept, "kept");
  add(static_cast<std::int64_t>(collected.failures.size()), "failed");
  return text + (collected.interrupted ? "; interrupted\n" : "\n");
}

}  // namespace assay::conform
