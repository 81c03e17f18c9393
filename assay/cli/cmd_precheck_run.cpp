// `assay precheck run`: replays the calls of a trace on a device.
#include <filesystem>
#include <utility>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/comparison_reports.h"
#include "assay/cli/conform_flags.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/interrupt.h"
#include "assay/cli/number_set.h"
#include "assay/cli/progress.h"
#include "assay/cli/report_paths.h"
#include "assay/cli/terminal_size.h"
#include "assay/compare/compare.h"
#include "assay/compare/divergence.h"
#include "assay/kernels/kernels.h"
#include "assay/precheck/detail/csv.h"
#include "assay/precheck/report_text.h"
#include "assay/precheck/run.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

class PrecheckRunCommand : public Command {
 public:
  std::string name() const override { return "run"; }
  std::string summary() const override {
    return "replay every API call of a trace on a device and judge it by a "
           "float64 golden";
  }
  std::string examples() const override {
    return "  assay precheck run gpu/step0/rank0 --worker 'python3 -m "
           "assay.worker --provider torch --device npu'\n"
           "  assay precheck run gpu --worker torch --rank 0 --html "
           "precheck.html\n"
           "  assay precheck run gpu --worker torch --only "
           "'Functional.layer_norm*'\n"
           "  assay precheck run dump_path --worker torch --standard "
           "msprobe-precheck --out npu-precheck\n";
  }
  void declare(Args& args) override;
  int run() override;

 private:
  precheck::RunOptions options(const std::atomic<bool>* stop) const;
  void choose_standard(precheck::RunOptions& options) const;
  std::string command() const;
  std::string folder() const;

  std::string trace_, worker_, golden_ = "torch", standard_ = "assay";
  std::string out_, steps_, ranks_, timeout_ = "300", memory_;
  std::vector<std::string> only_;
  int jobs_ = 0, runs_ = 0;
  bool every_call_ = false, resume_ = false;
  ComparisonReports reports_;
};

void PrecheckRunCommand::declare(Args& args) {
  args.positional("TRACE", "a capture with API calls, or an msprobe dump",
                  &trace_);
  args.option("--worker", "WORKER",
              "the device: torch, or the command line of a worker", &worker_);
  args.option("--golden", "WORKER",
              "who computes in float64 (torch, on the "
              "CPU)",
              &golden_);
  args.option("-s,--standard", "NAME",
              "precision standard, or a YAML file; msprobe-precheck: the "
              "verdict of msprobe's pre-check",
              &standard_, Completes::kStandard);
  args.list("--only", "GLOB", "only calls, or APIs, named so", &only_);
  args.option("--step", "NUMBERS", "only these steps: 0,2-4", &steps_);
  args.option("--rank", "NUMBERS", "only these ranks: 0,2-4", &ranks_);
  args.flag("--every-call",
            "replay every call, not only the first of each signature",
            &every_call_);
  args.number("--runs", "N",
              "compute every call N times on the device: what does not repeat "
              "is reported. Without it twice where torch says that results "
              "may differ, else once",
              &runs_, 1);
  args.number("-j,--jobs", "N",
              "calls at once, on two workers each; half of the cores, 4 at "
              "most, without it",
              &jobs_, 1);
  args.option("--timeout", "SECONDS", "that a call may take (300)", &timeout_);
  args.option("--memory-limit", "SIZE",
              "resident memory that a worker may take, such as 8G", &memory_);
  args.option("-o,--out", "DIR",
              "where details.csv, the journal and logs go; precheck-TRACE "
              "without it",
              &out_, Completes::kPath);
  args.flag("--resume", "keep what an interrupted run has finished", &resume_);
  reports_.declare(args);
}

std::string PrecheckRunCommand::folder() const {
  if (!out_.empty()) return out_;
  fs::path path = fs::absolute(trace_).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  return "precheck-" + path.filename().string();
}

// What repeats it, but for the reports: --only NAME narrows it.
std::string PrecheckRunCommand::command() const {
  std::string text =
      "assay precheck run " +
      shell_quote(trace_.starts_with("-") ? "./" + trace_ : trace_);
  const auto add = [&](const char* flag, const std::string& value) {
    text.append(" ").append(flag).append(" ").append(shell_quote(value));
  };
  add("--worker", worker_);
  if (golden_ != "torch") add("--golden", golden_);
  if (standard_ != "assay") add("--standard", standard_);
  if (!steps_.empty()) add("--step", steps_);
  if (!ranks_.empty()) add("--rank", ranks_);
  if (every_call_) text += " --every-call";
  if (runs_ > 0) add("--runs", std::to_string(runs_));
  if (jobs_ > 0) add("--jobs", std::to_string(jobs_));
  if (timeout_ != "300") add("--timeout", timeout_);
  if (!memory_.empty()) add("--memory-limit", memory_);
  if (!out_.empty()) add("--out", out_);
  return text;
}

void PrecheckRunCommand::choose_standard(precheck::RunOptions& options) const {
  options.by_detail = standard_ == "msprobe-precheck" || standard_ == "msprobe";
  options.standard = Standard::load(options.by_detail ? "assay" : standard_);
}

precheck::RunOptions PrecheckRunCommand::options(
    const std::atomic<bool>* stop) const {
  precheck::RunOptions options;
  options.device = conform::parse_worker_command(worker_);
  options.golden = conform::parse_worker_command(golden_);
  options.limits.seconds = parse_positive("--timeout", timeout_);
  if (!memory_.empty())
    options.limits.memory_bytes = parse_bytes("--memory-limit", memory_);
  choose_standard(options);
  options.jobs = jobs_;
  options.runs = runs_;
  options.out = folder();
  options.resume = resume_;
  options.command = command();
  options.stop = stop;
  return options;
}

int PrecheckRunCommand::run() {
  if (worker_.empty())
    throw Error(Code::kUsage,
                "--worker: expected the device: torch, or the "
                "command line of a worker");
  // What can be refused is refused before the work.
  kernels();  // an unknown ASSAY_ISA
  reports_.check({trace_});
  precheck::PlanOptions chosen;
  const NumberSet steps("--step", steps_), ranks("--rank", ranks_);
  chosen.step = [&](std::int64_t step) { return steps.contains(step); };
  chosen.rank = [&](std::int64_t rank) { return ranks.contains(rank); };
  chosen.only = only_;
  chosen.every_call = every_call_;
  precheck::RunOptions options = this->options(install_interrupt_handler());
  const precheck::Plan plan = precheck::make_plan(trace_, chosen);
  precheck::RunResult result;
  {
    Progress progress(reports_.quiet(), "calls");
    options.progress = [&](std::int64_t done, std::int64_t total) {
      progress.update(done, total, 0);
    };
    result = precheck::run(plan, options);
  }
  precheck::write_details_csv(options.out / "details.csv", result.details);
  reports_.write(result.comparison, [&](bool color) {
    precheck::TextOptions text;
    text.color = color;
    text.columns = terminal_columns();
    text.all = reports_.all();
    text.quiet = reports_.quiet();
    return precheck::render_text(result, text);
  });
  const int code = result.comparison.interrupted
                       ? 130
                       : exit_code(result.comparison.verdict);
  discard(std::move(result.comparison));
  return code;
}

}  // namespace

std::unique_ptr<Command> make_precheck_run_command() {
  return std::make_unique<PrecheckRunCommand>();
}

}  // namespace assay
