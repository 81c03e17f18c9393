#include "assay/cli/comparison_reports.h"

#include "assay/cli/terminal_size.h"
#include "assay/report/csv.h"
#include "assay/report/html.h"
#include "assay/report/json.h"
#include "assay/report/junit.h"
#include "assay/report/terminal.h"
#include "assay/report/xlsx.h"

namespace assay {

void ComparisonReports::declare(Args& args) {
  const auto report = [&](const char* name, const char* what,
                          std::string* value) {
    args.option(name, "FILE", what, value, Completes::kPath);
  };
  report("--html", "write a self-contained HTML report", &html_);
  report("--json", "write JSON, - for the standard output", &json_);
  report("--csv", "write CSV with msprobe's columns and ours", &csv_);
  report("--xlsx", "write a spreadsheet", &xlsx_);
  report("--junit", "write JUnit XML", &junit_);
  args.flag("-a,--all", "list every row, not only the worst", &all_);
  args.flag("-q,--quiet", "print one line", &quiet_);
  color_.declare(args);
}

void ComparisonReports::check(const std::vector<std::string>& inputs,
                              const std::vector<ReportPath>& more) {
  colored_ = color_.wanted();
  std::vector<ReportPath> reports = {
      {"--html", html_},
      {"--json", json_ == "-" ? "/dev/stdout" : json_},
      {"--csv", csv_},
      {"--xlsx", xlsx_},
      {"--junit", junit_}};
  reports.insert(reports.end(), more.begin(), more.end());
  check_report_paths(reports, inputs);
}

void ComparisonReports::write(
    const Comparison& result,
    const std::function<std::string(bool color)>& text) const {
  if (may_print()) print_text(text ? text(colored_) : summary(result));
  if (!json_.empty()) write_json(result, may_print() ? json_ : "/dev/stdout");
  if (!csv_.empty()) write_csv(result, csv_);
  if (!xlsx_.empty()) write_xlsx(result, xlsx_);
  if (!junit_.empty()) write_junit(result, junit_);
  if (html_.empty()) return;
  write_html(result, html_);
  if (!quiet_ && may_print()) print_text("report: " + html_ + "\n");
}

std::string ComparisonReports::summary(const Comparison& result) const {
  TerminalOptions options;
  options.color = colored_;
  options.all = all_;
  options.quiet = quiet_;
  options.columns = terminal_columns();
  return render_terminal(result, options);
}

}  // namespace assay
