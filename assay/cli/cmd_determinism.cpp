// `assay determinism`: does a training script compute the same twice?
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/cli/color_flag.h"
#include "assay/cli/commands.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/interrupt.h"
#include "assay/cli/progress.h"
#include "assay/cli/report_paths.h"
#include "assay/compare/determinism/determinism.h"
#include "assay/compare/divergence.h"
#include "assay/conform/scratch.h"
#include "assay/conform/script_run.h"
#include "assay/report/determinism_json.h"
#include "assay/report/determinism_text.h"

namespace assay {
namespace {

class DeterminismCommand : public Command {
 public:
  std::string name() const override { return "determinism"; }
  std::string summary() const override {
    return "run a training script twice and name the first operator that "
           "does not compute the same";
  }
  std::string examples() const override {
    return "  assay determinism train.py\n"
           "  assay determinism train.py --steps 5 --deterministic -- "
           "--batch 8\n"
           "  assay determinism train.py --runs 5 --tensors --keep runs\n";
  }

  void declare(Args& args) override {
    args.positional("SCRIPT", "a Python script that trains with torch",
                    &script_);
    args.optional_positionals("ARGS", "its arguments, after --", &arguments_,
                              Completes::kPath);
    args.number("--steps", "N", "steps of an optimizer until it is ended (3)",
                &steps_, 1);
    args.number("--runs", "N", "how often it runs (2)", &runs_, 2);
    args.option("--level", "LEVEL",
                "module, api (functions) or mix (both, the default)", &level_);
    args.option("--seed", "S", "what assay.seed_all is called with (1234)",
                &seed_);
    args.flag("--no-seed", "seed nothing: as the script runs by itself",
              &no_seed_);
    args.flag("--deterministic",
              "ask torch for kernels with one order of additions, and fix "
              "the order of sets",
              &deterministic_);
    args.flag("--tensors", "keep elements: differences get figures", &tensors_);
    args.option("--keep", "DIR", "leave traces and logs here (nowhere)", &keep_,
                Completes::kPath);
    args.option("--json", "FILE", "write JSON, - for the standard output",
                &json_, Completes::kPath);
    args.flag("-q,--quiet", "print one line", &quiet_);
    color_.declare(args);
  }

  int run() override {
    check();
    const auto began = std::chrono::steady_clock::now();
    stop_ = install_interrupt_handler();
    std::optional<conform::Scratch> scratch;
    if (keep_.empty()) scratch.emplace(std::filesystem::temp_directory_path());
    const std::filesystem::path folder =
        scratch ? scratch->path() : std::filesystem::path(keep_);
    std::vector<RunTraces> runs;
    for (int i = 1; i <= runs_; ++i) {
      runs.push_back(run_once(i, folder / fmt::format("run{}", i)));
      if (stop_->load()) return 130;
    }
    const DeterminismReport report = compared(runs);
    const auto elapsed = std::chrono::steady_clock::now() - began;
    print(report, runs, std::chrono::duration<double>(elapsed).count());
    return report.interrupted ? 130 : exit_code(report.verdict);
  }

 private:
  void check() {
    color_.wanted();
    check_report_paths({{"--json", json_ == "-" ? "/dev/stdout" : json_}},
                       {script_});
    if (level_ != "module" && level_ != "api" && level_ != "mix")
      throw Error(Code::kUsage, "--level: " + printable(level_) +
                                    ", expected module, api or mix");
    seed_number_ = conform::checked_seed(seed_);
    if (!std::filesystem::is_regular_file(script_))
      throw Error(Code::kUnreadable, printable(script_) + ": no such script");
    if (!keep_.empty() && std::filesystem::exists(keep_) &&
        !std::filesystem::is_empty(keep_)) {
      throw Error(Code::kUsage,
                  "--keep: " + printable(keep_) + " is not empty");
    }
  }

  RunTraces run_once(int number, const std::filesystem::path& out) const {
    std::filesystem::create_directories(out);
    Progress progress(quiet_, "steps");
    conform::ScriptOptions options;
    options.module = "assay.determinism.script";
    options.flags = {"--out=" + out.string(),
                     "--steps=" + std::to_string(steps_), "--level=" + level_,
                     std::string("--mode=") + (tensors_ ? "tensor" : "hash")};
    add_seed(options, !no_seed_, seed_number_, deterministic_);
    options.script = script_;
    options.arguments = arguments_;
    options.stop = stop_;
    options.progress = [&](std::int64_t done) {
      progress.update((number - 1) * steps_ + done, runs_ * steps_, 0);
    };
    const conform::ScriptRun run = conform::run_script(options);
    if (!keep_.empty()) {
      AtomicFile log(out / "log");
      log.write(run.log);
      log.commit();
    }
    if (run.failed && !stop_->load()) fail(number, run);
    RunTraces traces;
    traces.steps = (out / "steps").string();
    if (std::filesystem::exists(out / "setup"))
      traces.setup = (out / "setup").string();
    return traces;
  }

  [[noreturn]] void fail(int number, const conform::ScriptRun& run) const {
    if (!quiet_) fmt::print(stderr, "{}", run.log);
    throw Error(Code::kUnreadable,
                fmt::format("{}: run {} failed: {}", printable(script_), number,
                            run.why));
  }

  DeterminismReport compared(const std::vector<RunTraces>& runs) const {
    for (const RunTraces& one : runs) {
      if (std::filesystem::exists(one.steps)) continue;
      throw Error(Code::kUnsupported,
                  printable(script_) +
                      ": nothing was captured: it called no module and "
                      "nothing of torch");
    }
    Progress progress(quiet_, "rows");
    DeterminismOptions options;
    options.stop = stop_;
    options.progress = [&](std::int64_t done, std::int64_t total,
                           std::int64_t bytes) {
      progress.update(done, total, bytes);
    };
    return find_nondeterminism(runs, options);
  }

  void print(const DeterminismReport& report,
             const std::vector<RunTraces>& runs, double seconds) const {
    if (!json_.empty()) {
      AtomicFile out(json_ == "-" ? "/dev/stdout" : json_);
      out.write(determinism_json(report, script_));
      out.commit();
    }
    if (json_ == "-") return;
    DeterminismTextOptions shown;
    shown.color = color_.wanted();
    shown.quiet = quiet_;
    shown.program = script_;
    shown.seconds = seconds;
    if (!keep_.empty() && report.first) {
      const auto other = static_cast<std::size_t>(report.first->run - 1);
      shown.again = "assay compare " + shell_quote(runs[0].steps) + " " +
                    shell_quote(runs[other].steps) + " --standard exact";
    }
    print_text(render_determinism(report, shown));
  }

  std::string script_, level_ = "mix", seed_ = "1234", keep_, json_;
  std::vector<std::string> arguments_;
  int steps_ = 3, runs_ = 2;
  std::int64_t seed_number_ = 0;
  bool no_seed_ = false, deterministic_ = false, tensors_ = false,
       quiet_ = false;
  const std::atomic<bool>* stop_ = nullptr;
  ColorFlag color_;
};

}  // namespace

std::unique_ptr<Command> make_determinism_command() {
  return std::make_unique<DeterminismCommand>();
}

}  // namespace assay
