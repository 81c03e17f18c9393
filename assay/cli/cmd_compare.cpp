// `assay compare`: the main job.
#include <filesystem>
#include <utility>

#include "assay/base/error.h"
#include "assay/cli/color_flag.h"
#include "assay/cli/commands.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/history_flag.h"
#include "assay/cli/interrupt.h"
#include "assay/cli/progress.h"
#include "assay/cli/read_flags.h"
#include "assay/cli/report_paths.h"
#include "assay/cli/terminal_size.h"
#include "assay/compare/compare.h"
#include "assay/kernels/kernels.h"
#include "assay/report/csv.h"
#include "assay/report/history/history_of_comparison.h"
#include "assay/report/html.h"
#include "assay/report/json.h"
#include "assay/report/junit.h"
#include "assay/report/terminal.h"
#include "assay/report/xlsx.h"

namespace assay {
namespace {

class CompareCommand : public Command {
 public:
  std::string name() const override { return "compare"; }
  std::string summary() const override {
    return "compare two dumps or tensor files and name the first operator "
           "that differs";
  }
  std::string examples() const override {
    return "  assay compare gpu_dump npu_dump --html report.html\n"
           "  assay compare gpu/step0/rank0 npu/step0/rank0 --only "
           "'*.layers.3.*'\n"
           "  assay compare a.pt b.pt --standard torch-assert-close\n"
           "  assay compare a.bin b.bin --dtype bf16 --shape 4,6\n"
           "  assay compare gpu npu --baseline gpu2 --standard "
           "ascend-commercial-l1\n";
  }

  void declare(Args& args) override {
    args.positional("GOLDEN", "the trusted run: a dump directory or a file",
                    &golden_);
    args.positional("TARGET", "the run in question", &target_);
    args.option("-s,--standard", "NAME", "precision standard, or a YAML file",
                &standard_, Completes::kStandard);
    args.list("--only", "GLOB", "compare only records or operators named so",
              &only_);
    args.option("--map", "FILE", "YAML rules that pair differing names", &map_,
                Completes::kPath);
    args.flag("--fuzzy", "pair what is left without call indices", &fuzzy_);
    args.option("--baseline", "TRACE",
                "a third run; its error is the yardstick (ratio standards)",
                &baseline_, Completes::kPath);
    args.list("--noise", "TRACE",
              "further golden runs; their spread widens each bound", &noise_,
              Completes::kPath);
    declare_reports(args);
    read_.declare(args);
    args.flag("-a,--all", "list every row, not only the worst", &all_);
    args.flag("-q,--quiet", "print one line", &quiet_);
    color_.declare(args);
  }

  int run() override {
    // What can be refused is refused before the work.
    kernels();  // an unknown ASSAY_ISA
    const bool color = color_.wanted();
    check_report_paths({{"--html", html_},
                        {"--json", json_ == "-" ? "/dev/stdout" : json_},
                        {"--csv", csv_},
                        {"--xlsx", xlsx_},
                        {"--junit", junit_}},
                       {golden_, target_});
    history_.check();
    const std::string began = utc_time();
    const std::atomic<bool>* stop = install_interrupt_handler();
    Comparison result = compare(stop);
    if (json_ != "-") print(result, color);
    write_reports(result);
    const std::string kept =
        history_.add([&] { return history_of(result, began); });
    if (!quiet_ && json_ != "-") print_text(kept);
    const int code = result.interrupted ? 130 : exit_code(result.verdict);
    discard(std::move(result));
    return code;
  }

 private:
  void declare_reports(Args& args) {
    const auto report = [&](const char* name, const char* what,
                            std::string* value) {
      args.option(name, "FILE", what, value, Completes::kPath);
    };
    report("--html", "write a self-contained HTML report", &html_);
    report("--json", "write JSON, - for the standard output", &json_);
    report("--csv", "write CSV with msprobe's columns and ours", &csv_);
    report("--xlsx", "write a spreadsheet", &xlsx_);
    report("--junit", "write JUnit XML", &junit_);
    history_.declare(args);
  }

  Comparison compare(const std::atomic<bool>* stop) {
    Progress progress(quiet_);
    CompareOptions options;
    options.standard = Standard::load(standard_);
    options.map_file = map_;
    options.fuzzy = fuzzy_;
    options.only = only_;
    options.baseline = baseline_;
    options.noise = noise_;
    options.read = read_.options();
    options.stop = stop;
    options.progress = [&](std::int64_t done, std::int64_t total,
                           std::int64_t bytes) {
      progress.update(done, total, bytes);
    };
    Comparison result = compare_paths(golden_, target_, options);
    std::error_code ignored;
    if (std::filesystem::equivalent(golden_, target_, ignored)) {
      result.warnings.emplace_back("golden and target are the same path");
    }
    return result;
  }

  void write_reports(const Comparison& result) const {
    if (!json_.empty()) {
      write_json(result, json_ == "-" ? "/dev/stdout" : json_);
    }
    if (!csv_.empty()) write_csv(result, csv_);
    if (!xlsx_.empty()) write_xlsx(result, xlsx_);
    if (!junit_.empty()) write_junit(result, junit_);
    if (html_.empty()) return;
    write_html(result, html_);
    if (!quiet_ && json_ != "-") print_text("report: " + html_ + "\n");
  }

  void print(const Comparison& result, bool color) const {
    TerminalOptions options;
    options.color = color;
    options.all = all_;
    options.quiet = quiet_;
    options.columns = terminal_columns();
    print_text(render_terminal(result, options));
  }

  std::string golden_, target_, standard_ = "assay", map_, baseline_;
  std::vector<std::string> only_, noise_;
  std::string html_, json_, csv_, xlsx_, junit_;
  bool fuzzy_ = false, all_ = false, quiet_ = false;
  ReadFlags read_;
  ColorFlag color_;
  HistoryFlag history_;
};

}  // namespace

std::unique_ptr<Command> make_compare_command() {
  return std::make_unique<CompareCommand>();
}

}  // namespace assay
