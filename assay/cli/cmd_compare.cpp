// `assay compare`: the main job.
#include <filesystem>
#include <utility>

#include "assay/base/clock.h"
#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/comparison_reports.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/history_flag.h"
#include "assay/cli/interrupt.h"
#include "assay/cli/progress.h"
#include "assay/cli/read_flags.h"
#include "assay/compare/compare.h"
#include "assay/kernels/kernels.h"
#include "assay/report/history/history_of_comparison.h"

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
    reports_.declare(args);
    history_.declare(args);
    read_.declare(args);
  }

  int run() override {
    // What can be refused is refused before the work.
    kernels();  // an unknown ASSAY_ISA
    reports_.check({golden_, target_});
    history_.check();
    const std::string began = utc_time();
    const std::atomic<bool>* stop = install_interrupt_handler();
    Comparison result = compare(stop);
    reports_.write(result);
    const std::string kept =
        history_.add([&] { return history_of(result, began); });
    if (!reports_.quiet() && reports_.may_print()) print_text(kept);
    const int code = result.interrupted ? 130 : exit_code(result.verdict);
    discard(std::move(result));
    return code;
  }

 private:
  Comparison compare(const std::atomic<bool>* stop) {
    Progress progress(reports_.quiet());
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

  std::string golden_, target_, standard_ = "assay", map_, baseline_;
  std::vector<std::string> only_, noise_;
  bool fuzzy_ = false;
  ComparisonReports reports_;
  ReadFlags read_;
  HistoryFlag history_;
};

}  // namespace

std::unique_ptr<Command> make_compare_command() {
  return std::make_unique<CompareCommand>();
}

}  // namespace assay
