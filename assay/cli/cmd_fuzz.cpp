// `assay fuzz`: which operators of a training script are unsteady, without a
// reference?
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/comparison_reports.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/interrupt.h"
#include "assay/cli/progress.h"
#include "assay/compare/divergence.h"
#include "assay/compare/perturbation/collection.h"
#include "assay/conform/row_reader.h"
#include "assay/conform/scratch.h"
#include "assay/conform/script_run.h"

namespace assay {
namespace {

// Whole, and between `least` and `most`; throws Error{kUsage}.
double checked_number(const std::string& flag, const std::string& text,
                      double above, double most) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc() && parsed.ptr == end && value > above &&
      value <= most) {
    return value;
  }
  throw Error(Code::kUsage,
              fmt::format("{}: {}, expected a number above {} and at most {}",
                          flag, printable(text), above, most));
}

class FuzzCommand : public Command {
 public:
  std::string name() const override { return "fuzz"; }
  std::string summary() const override {
    return "run a training script with every call perturbed and name the "
           "operators that are unsteady";
  }
  std::string examples() const override {
    return "  assay fuzz train.py\n"
           "  assay fuzz train.py --mode repeat --steps 3 -- --batch 8\n"
           "  assay fuzz train.py --mode add_noise --only 'Functional.*' "
           "--html fuzz.html\n"
           "  assay fuzz train.py --stage backward --sample 0.1\n";
  }

  void declare(Args& args) override {
    args.positional("SCRIPT", "a Python script that trains with torch",
                    &script_);
    args.optional_positionals("ARGS", "its arguments, after --", &arguments_,
                              Completes::kPath);
    args.option("--mode", "MODE",
                "improve_precision (the default), repeat, add_noise, "
                "bit_noise, swap or to_cpu",
                &mode_);
    args.option("--stage", "STAGE",
                "forward (the default), or backward with repeat and "
                "improve_precision",
                &stage_);
    args.number("--steps", "N", "steps of an optimizer until it is ended (1)",
                &steps_, 1);
    args.list("--only", "GLOB", "look at these calls or modules alone", &only_);
    args.option("--sample", "SHARE", "look at this share of the calls (1)",
                &sample_);
    args.option("--noise", "N", "of add_noise, in roundoffs of the input",
                &noise_);
    args.option("--wide", "DTYPE", "float32 or float64, for what is narrower",
                &wide_);
    args.option("--standard", "STANDARD", "whose bounds count (assay)",
                &standard_, Completes::kStandard);
    args.option("--seed", "S", "call assay.seed_all with it first (1234)",
                &seed_);
    args.flag("--no-seed", "seed nothing: as the script runs by itself",
              &no_seed_);
    reports_.declare(args);
  }

  int run() override {
    check();
    const auto began = std::chrono::steady_clock::now();
    stop_ = install_interrupt_handler();
    const conform::Scratch scratch(std::filesystem::temp_directory_path());
    const std::filesystem::path journal = scratch.path() / "journal";
    const conform::ScriptRun run = run_script(journal);
    const bool interrupted = stop_->load();
    perturbation::Collection rows(*Standard::load(standard_),
                                  perturbation::mode_named(mode_));
    if (std::filesystem::exists(journal))
      conform::read_row_journal(journal, rows);
    if (run.failed && !interrupted) {
      if (!reports_.quiet()) fmt::print(stderr, "{}", run.log);
      if (rows.as_is().rows.empty()) fail(run);
      rows.skip(script_, "it failed before its end: " + run.why,
                Verdict::kIncomplete);
    }
    if (interrupted) rows.warn("interrupted: the rest is not looked at");
    Comparison& result = rows.mutable_result();
    result.target_path = script_;
    result.interrupted = interrupted;
    result.command = command();
    if (result.first_divergence) {
      result.first_divergence->again =
          result.command + " --only " +
          shell_quote(call_of(result.first_divergence->name));
    }
    const auto elapsed = std::chrono::steady_clock::now() - began;
    result.seconds = std::chrono::duration<double>(elapsed).count();
    reports_.write(result);
    return interrupted ? 130 : exit_code(result.verdict);
  }

 private:
  void check() {
    reports_.check({script_});
    const auto mode = perturbation::mode_named(mode_);
    Standard::load(standard_);
    if (stage_ != "forward" && stage_ != "backward")
      throw Error(Code::kUsage, "--stage: " + printable(stage_) +
                                    ", expected forward or backward");
    if (stage_ == "backward" && mode != perturbation::Mode::kRepeat &&
        mode != perturbation::Mode::kImprovePrecision) {
      throw Error(Code::kUsage,
                  "--stage backward: has --mode repeat and "
                  "improve_precision, not " +
                      mode_);
    }
    if (!wide_.empty() && wide_ != "float32" && wide_ != "float64")
      throw Error(Code::kUsage, "--wide: " + printable(wide_) +
                                    ", expected float32 or float64");
    checked_number("--sample", sample_, 0, 1);
    if (!noise_.empty()) {
      checked_number("--noise", noise_, 0, 1e6);
      if (mode != perturbation::Mode::kAddNoise)
        throw Error(Code::kUsage, "--noise: is for --mode add_noise");
    }
    seed_number_ = conform::checked_seed(seed_);
    if (!std::filesystem::is_regular_file(script_))
      throw Error(Code::kUnreadable, printable(script_) + ": no such script");
  }

  conform::ScriptRun run_script(const std::filesystem::path& journal) const {
    Progress progress(reports_.quiet(), "steps");
    conform::ScriptOptions options;
    options.module = "assay.fuzz.script";
    const auto add = [&](const std::string& flag, const std::string& value) {
      if (!value.empty()) options.flags.push_back(flag + "=" + value);
    };
    add("--journal", journal.string());
    add("--mode", mode_);
    add("--stage", stage_);
    add("--steps", std::to_string(steps_));
    for (const std::string& glob : only_) add("--only", glob);
    add("--sample", sample_);
    add("--noise", noise_);
    add("--wide", wide_);
    add("--standard", standard_);
    add_seed(options, !no_seed_, seed_number_, false);
    options.script = script_;
    options.arguments = arguments_;
    options.stop = stop_;
    options.progress = [&](std::int64_t done) {
      progress.update(done, steps_, 0);
    };
    return conform::run_script(options);
  }

  [[noreturn]] void fail(const conform::ScriptRun& run) const {
    throw Error(Code::kUnreadable,
                fmt::format("{}: failed: {}", printable(script_), run.why));
  }

  // "Functional.gelu.0" of "Functional.gelu.0.forward".
  static std::string call_of(const std::string& op) {
    return op.substr(0, op.rfind('.'));
  }

  std::string command() const {
    std::string text = "assay fuzz " + shell_quote(script_) + " --mode " +
                       mode_ + " --steps " + std::to_string(steps_);
    if (stage_ != "forward") text += " --stage " + stage_;
    return text;
  }

  std::string script_, mode_ = "improve_precision", stage_ = "forward",
                       sample_ = "1", noise_, wide_, standard_ = "assay",
                       seed_ = "1234";
  std::vector<std::string> arguments_, only_;
  int steps_ = 1;
  std::int64_t seed_number_ = 0;
  bool no_seed_ = false;
  const std::atomic<bool>* stop_ = nullptr;
  ComparisonReports reports_;
};

}  // namespace

std::unique_ptr<Command> make_fuzz_command() {
  return std::make_unique<FuzzCommand>();
}

}  // namespace assay
