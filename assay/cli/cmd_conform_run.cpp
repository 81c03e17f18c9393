// `assay conform run` and `assay conform loop`: judge a target by goldens, by
// those that are there or by those that a reference makes now.
#include <fmt/format.h>

#include <filesystem>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/conform_flags.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/interrupt.h"
#include "assay/cli/run_reports.h"
#include "assay/compare/divergence.h"
#include "assay/conform/collect.h"
#include "assay/conform/report/run_json.h"
#include "assay/conform/run.h"
#include "assay/conform/slower.h"
#include "assay/conform/summary.h"

namespace assay {
namespace {

class ConformRunCommand : public Command {
 public:
  explicit ConformRunCommand(bool collects) : collects_(collects) {}
  std::string name() const override { return collects_ ? "loop" : "run"; }
  std::string summary() const override {
    return collects_ ? "collect goldens, then judge a target by them"
                     : "judge a target by goldens that were collected";
  }
  std::string examples() const override {
    if (collects_)
      return "  assay conform loop --reference reference --target cpu\n"
             "  assay conform loop --reference torch --target cpu --module "
             "linear --html run.html\n";
    return "  assay conform run --goldens cuda.goldens --target 'python3 -m "
           "assay.worker --provider te --device npu'\n"
           "  assay conform run --goldens goldens --target cpu --only "
           "linear/small-3f09a1c2\n";
  }
  void declare(Args& args) override {
    if (collects_)
      args.option("--reference", "WORKER",
                  "reference, cpu, torch, te, or a command line", &reference_);
    args.option("--target,--worker", "WORKER", "what is judged", &target_);
    args.option("--goldens", "PATH",
                collects_ ? "the store; OUTPUT/goldens without it"
                          : "a store or a pack",
                &goldens_, Completes::kPath);
    args.option("-o,--output", "DIR", "where run.json and the logs go",
                &output_, Completes::kPath);
    args.option("--perf-baseline", "RUN",
                "run.json of an earlier run, to compare times with", &baseline_,
                Completes::kPath);
    args.option("--slower", "RATIO",
                "how many times as long is worth a warning (1.5)", &slower_);
    flags_.declare(args);
    reports_.declare(args);
  }
  int run() override;

 private:
  // False where it was interrupted.
  bool collect(const conform::RunOptions& options) const;
  std::string command() const;

  const bool collects_;
  std::string reference_ = "reference", target_, goldens_;
  std::string output_ = "assay-run";
  std::string baseline_, slower_ = "1.5";
  ConformFlags flags_;
  RunReports reports_;
};

std::string ConformRunCommand::command() const {
  std::string text = "assay conform run --goldens " + shell_quote(goldens_) +
                     " --target " + shell_quote(target_);
  return text + flags_.selection();
}

bool ConformRunCommand::collect(const conform::RunOptions& options) const {
  conform::Collected collected;
  {
    Progress progress(flags_.quiet(), "goldens");
    collected =
        conform::collect(showing(progress, options),
                         conform::parse_worker_command(reference_), goldens_);
  }
  if (!flags_.quiet() || !collected.failures.empty())
    fmt::print(reports_.takes_stdout() ? stderr : stdout, "{}",
               conform::summary(collected, goldens_));
  return !collected.interrupted;
}

int ConformRunCommand::run() {
  if (target_.empty())
    throw Error(Code::kUsage, "--target: expected what is judged: a worker");
  if (goldens_.empty()) {
    if (!collects_)
      throw Error(Code::kUsage, "--goldens: expected a store or a pack");
    goldens_ = (std::filesystem::path(output_) / "goldens").string();
  }
  // Reports may go beside run.json; the run makes the folder anyway.
  std::error_code ignored;
  std::filesystem::create_directories(output_, ignored);
  reports_.check({goldens_});
  const std::atomic<bool>* stop = install_interrupt_handler();
  const conform::WorkerCommand target = conform::parse_worker_command(target_);
  const conform::RunOptions options = flags_.options(stop);
  // What can be refused is refused before the work.
  const double slower = parse_positive("--slower", slower_);
  conform::RunResult baseline;
  if (!baseline_.empty())
    baseline = conform::read_run(conform::run_file(baseline_));
  if (collects_ && !collect(options)) return 130;
  conform::RunResult result;
  {
    Progress progress(flags_.quiet(), "cases");
    result = conform::run(showing(progress, options), target,
                          {goldens_, output_, command()});
  }
  if (!baseline_.empty()) conform::compare_times(baseline, slower, result);
  conform::write_run(result, std::filesystem::path(output_) / "run.json");
  reports_.write(result, flags_.quiet());
  return result.interrupted ? 130 : exit_code(result.verdict);
}

}  // namespace

std::unique_ptr<Command> make_conform_run_command() {
  return std::make_unique<ConformRunCommand>(false);
}

std::unique_ptr<Command> make_conform_loop_command() {
  return std::make_unique<ConformRunCommand>(true);
}

}  // namespace assay
