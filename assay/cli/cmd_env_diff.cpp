// `assay env diff`: two snapshots, likely culprits first.
#include <chrono>

#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/comparison_reports.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/terminal_size.h"
#include "assay/compare/divergence.h"
#include "assay/env/diff.h"
#include "assay/env/diff_text.h"

namespace assay {
namespace {

class EnvDiffCommand : public Command {
 public:
  std::string name() const override { return "diff"; }
  std::string summary() const override {
    return "compare two snapshots: what differs, what usually breaks "
           "alignment first";
  }
  std::string examples() const override {
    return "  assay env diff cuda.json npu.json\n"
           "  assay env diff cuda.json npu.json --section switches "
           "--section hyperparameters\n"
           "  assay env diff a.json b.json --ignore 'libraries.*' --html "
           "env.html\n";
  }

  void declare(Args& args) override {
    args.positional("GOLDEN", "a snapshot of the trusted run", &golden_);
    args.positional("TARGET", "a snapshot of the run under test", &target_);
    args.list("--section", "NAME",
              "only this section: switches, hyperparameters, environment, "
              "libraries, device, data, weights, random or system",
              &sections_);
    args.list("--ignore", "GLOB",
              "leave out keys named so, such as 'libraries.*'", &ignore_);
    args.number("-n,--limit", "N", "settings that are shown (12)", &limit_, 1);
    reports_.declare(args);
  }

  int run() override {
    reports_.check({golden_, target_});
    const auto began = std::chrono::steady_clock::now();
    env::DiffOptions options;
    options.ignore = ignore_;
    for (const std::string& name : sections_)
      options.only.push_back(env::section_named(name));
    Comparison result = env::diff_snapshots(env::read_snapshot(golden_),
                                            env::read_snapshot(target_),
                                            env::RankTable::shipped(), options);
    const std::chrono::duration<double> spent =
        std::chrono::steady_clock::now() - began;
    result.seconds = spent.count();
    result.command =
        "assay env diff " + shell_quote(golden_) + " " + shell_quote(target_);
    reports_.write(result, [&](bool color) { return text(result, color); });
    return exit_code(result.verdict);
  }

 private:
  std::string text(const Comparison& result, bool color) const {
    env::DiffTextOptions options;
    options.color = color;
    options.all = reports_.all();
    options.quiet = reports_.quiet();
    options.limit = static_cast<std::size_t>(limit_);
    options.columns = terminal_columns();
    return env::render_diff(result, options);
  }

  std::string golden_, target_;
  std::vector<std::string> sections_, ignore_;
  int limit_ = 12;
  ComparisonReports reports_;
};

}  // namespace

std::unique_ptr<Command> make_env_diff_command() {
  return std::make_unique<EnvDiffCommand>();
}

}  // namespace assay
