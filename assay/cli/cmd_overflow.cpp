// `assay overflow`: who made the first NaN or infinity of a run.
#include "assay/base/atomic_file.h"
#include "assay/cli/color_flag.h"
#include "assay/cli/commands.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/interrupt.h"
#include "assay/cli/number_set.h"
#include "assay/cli/progress.h"
#include "assay/cli/read_flags.h"
#include "assay/cli/report_paths.h"
#include "assay/cli/terminal_size.h"
#include "assay/compare/overflow/overflow.h"
#include "assay/report/overflow_json.h"
#include "assay/report/overflow_text.h"

namespace assay {
namespace {

class OverflowCommand : public Command {
 public:
  std::string name() const override { return "overflow"; }
  std::string summary() const override {
    return "find the first operator that made NaN or infinity of finite inputs";
  }
  std::string examples() const override {
    return "  assay overflow npu_dump\n"
           "  assay overflow npu_dump --steps 10-12 --ranks 0 --json -\n"
           "  assay overflow weights.safetensors\n";
  }

  void declare(Args& args) override {
    args.positional("TRACE", "a dump directory or a tensor file", &path_);
    args.option("--steps", "LIST", "only these steps, such as 0,2,4-7",
                &steps_);
    args.option("--ranks", "LIST", "only these ranks", &ranks_);
    args.list("--only", "GLOB", "only records or operators named so", &only_);
    args.number("-n,--limit", "N", "lines of a list (10)", &limit_, 1);
    args.option("--json", "FILE", "write JSON, - for the standard output",
                &json_, Completes::kPath);
    read_.declare(args);
    args.flag("-q,--quiet", "print one line", &quiet_);
    color_.declare(args);
  }

  int run() override {
    OverflowTextOptions shown;
    shown.color = color_.wanted();
    shown.columns = terminal_columns();
    shown.limit = static_cast<std::size_t>(limit_);
    shown.quiet = quiet_;
    check_report_paths({{"--json", json_ == "-" ? "/dev/stdout" : json_}},
                       {path_});
    const OverflowReport report = search();
    write_json(report);
    if (json_ != "-") print_text(render_overflow(report, shown));
    return report.interrupted ? 130 : exit_code(report.verdict);
  }

 private:
  OverflowReport search() const {
    Progress progress(quiet_, "traces");
    const NumberSet steps("--steps", steps_), ranks("--ranks", ranks_);
    OverflowOptions options;
    options.only = only_;
    options.step = [&](std::int64_t step) { return steps.contains(step); };
    options.rank = [&](std::int64_t rank) { return ranks.contains(rank); };
    options.read = read_.options();
    options.stop = install_interrupt_handler();
    options.progress = [&](std::int64_t done, std::int64_t total,
                           std::int64_t bytes) {
      progress.update(done, total, bytes);
    };
    return find_overflow(path_, options);
  }

  void write_json(const OverflowReport& report) const {
    if (json_.empty()) return;
    if (json_ == "-") return print_text(overflow_json(report));
    AtomicFile out(json_);
    out.write(overflow_json(report));
    out.commit();
  }

  std::string path_, steps_, ranks_, json_;
  std::vector<std::string> only_;
  int limit_ = 10;
  bool quiet_ = false;
  ReadFlags read_;
  ColorFlag color_;
};

}  // namespace

std::unique_ptr<Command> make_overflow_command() {
  return std::make_unique<OverflowCommand>();
}

}  // namespace assay
