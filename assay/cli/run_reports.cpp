#include "assay/cli/run_reports.h"

#include <optional>

#include "assay/base/text.h"
#include "assay/cli/report_paths.h"
#include "assay/cli/terminal_size.h"
#include "assay/conform/report/run_history.h"
#include "assay/conform/report/run_html.h"
#include "assay/conform/report/run_json.h"
#include "assay/conform/report/run_junit.h"
#include "assay/conform/report/run_terminal.h"

namespace assay {
namespace {

std::string json_path(const std::string& path) {
  return path == "-" ? "/dev/stdout" : path;
}

}  // namespace

void RunReports::declare(Args& args) {
  const auto report = [&](const char* name, const char* what,
                          std::string* value) {
    args.option(name, "FILE", what, value, Completes::kPath);
  };
  report("--html", "write a self-contained HTML report", &html_);
  report("--json", "write JSON, - for the standard output", &json_);
  report("--junit", "write JUnit XML: what was not compared is an error",
         &junit_);
  report("--api", "say which names of `assay api scan --json FILE` it guards",
         &api_);
  history_.declare(args);
  args.flag("-a,--all", "tell every case that is no match in full", &all_);
  color_.declare(args);
}

void RunReports::check(const std::vector<std::string>& inputs) const {
  color_.wanted();
  std::vector<std::string> kept = inputs;
  if (!api_.empty()) {
    conform::read_scanned_api(api_);
    kept.push_back(api_);
  }
  check_report_paths(
      {{"--html", html_}, {"--json", json_path(json_)}, {"--junit", junit_}},
      kept);
  history_.check();
}

void RunReports::write(const conform::RunResult& run, bool quiet) const {
  std::optional<conform::ApiCoverage> api;
  if (!api_.empty())
    api = conform::api_coverage(run, conform::read_scanned_api(api_));
  const conform::ApiCoverage* coverage = api ? &*api : nullptr;
  std::string text;
  if (json_ != "-") {
    conform::RunTextOptions options;
    options.color = color_.wanted();
    options.columns = terminal_columns();
    options.all = all_;
    options.quiet = quiet;
    text = conform::render_run(run, coverage, options);
  }
  if (!json_.empty()) conform::write_run_json(run, coverage, json_path(json_));
  if (!junit_.empty()) conform::write_run_junit(run, junit_);
  if (!html_.empty()) {
    conform::write_run_html(run, coverage, html_);
    text += "report: " + printable(html_) + "\n";
  }
  text += history_.add([&] { return conform::history_of(run); });
  if (json_ != "-") print_text(text);
}

}  // namespace assay
