#include "assay/conform/report/run_junit.h"

#include <fmt/format.h>

#include <string>

#include "assay/base/atomic_file.h"
#include "assay/conform/report/run_view.h"
#include "assay/report/markup.h"

namespace assay::conform {
namespace {

// An error that stands for a suite or a run without a result of its own.
std::string nothing_case(std::string_view name, std::string_view why) {
  return fmt::format(
      "    <testcase classname=\"assay.conform\" name=\"{}\">\n"
      "      <error type=\"incomplete\" message=\"{}\"/>\n"
      "    </testcase>\n",
      xml_text(name), xml_text(why));
}

// Parameters, checks, log and command, for whoever reads the failure.
std::string details(const RunResult& run, const CaseResult& c) {
  std::string text = parameters_text(c.subject.parameters) + "\n";
  for (const Check& check : c.checks) {
    if (check.verdict == Verdict::kMatch) continue;
    text += fmt::format("{} (rank {}) {}: {}\n", check.name, check.rank,
                        to_string(check.verdict), check.text);
  }
  if (!c.log.empty()) text += "log: " + c.log + "\n";
  const std::string command = again(run, c);
  if (!command.empty()) text += "again: " + command + "\n";
  // Line by line: xml_text escapes line ends as it does in attributes.
  std::string out;
  std::string_view rest = text;
  for (std::size_t end; (end = rest.find('\n')) != rest.npos;
       rest.remove_prefix(end + 1))
    out += xml_text(rest.substr(0, end)) + "\n";
  return out;
}

std::string test_case(const RunResult& run, const CaseResult& c) {
  const std::string head = fmt::format(
      "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.6f}\"",
      xml_text(c.subject.module), xml_text(c.subject.id), c.seconds);
  const bool compared = c.ending == Ending::kCompared;
  if (c.verdict == Verdict::kMatch && compared) return head + "/>\n";
  std::string_view element = "error";
  std::string_view type = compared ? "incomplete" : to_string(c.ending);
  if (c.verdict == Verdict::kEmpty)
    return head +
           ">\n      <skipped message=\"nothing but empty tensors\"/>\n"
           "    </testcase>\n";
  if (c.verdict == Verdict::kMismatch) {
    element = "failure";
    type = "mismatch";
  }
  return head + fmt::format(
                    ">\n      <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n"
                    "    </testcase>\n",
                    element, type, xml_text(why(c)), details(run, c));
}

std::string suite(const RunResult& run, const ModuleResult& module) {
  const Tally counts = tally(module);
  const bool nothing = counts.match + counts.mismatch + counts.incomplete == 0;
  std::string text = fmt::format(
      "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"{}\" time=\"{:.6f}\">\n",
      xml_text(module.module), counts.total() + nothing, counts.mismatch,
      counts.incomplete + nothing, counts.empty, cost(module).seconds);
  for (const CaseResult& c : module.cases) text += test_case(run, c);
  if (nothing) text += nothing_case(module.module, "nothing was compared");
  return text + "  </testsuite>\n";
}

bool needs_own_error(const RunResult& run) {
  return run.modules.empty() || run.interrupted;
}

std::string own_suite(const RunResult& run) {
  return "  <testsuite name=\"assay\" tests=\"1\" failures=\"0\" errors=\"1\" "
         "skipped=\"0\">\n" +
         nothing_case("run", run.interrupted ? "the run was interrupted"
                                             : "nothing was compared") +
         "  </testsuite>\n";
}

}  // namespace

void write_run_junit(const RunResult& run, const std::filesystem::path& path) {
  const Tally counts = tally(run);
  std::int64_t extra = needs_own_error(run);
  for (const ModuleResult& module : run.modules) {
    const Tally part = tally(module);
    extra += part.match + part.mismatch + part.incomplete == 0;
  }
  AtomicFile file(path);
  file.write("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  file.write(fmt::format(
      "<testsuites name=\"assay conform\" tests=\"{}\" failures=\"{}\" "
      "errors=\"{}\" skipped=\"{}\" time=\"{:.6f}\">\n",
      counts.total() + extra, counts.mismatch, counts.incomplete + extra,
      counts.empty, run.seconds));
  for (const ModuleResult& module : run.modules) file.write(suite(run, module));
  if (needs_own_error(run)) file.write(own_suite(run));
  file.write("</testsuites>\n");
  file.commit();
}

}  // namespace assay::conform
