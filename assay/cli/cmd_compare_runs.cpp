// `assay compare-runs`: did this training go the way of that one?
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/cli/color_flag.h"
#include "assay/cli/commands.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/report_paths.h"
#include "assay/cli/terminal_size.h"
#include "assay/compare/divergence.h"
#include "assay/compare/runs/compare_runs.h"
#include "assay/report/runs/runs_html.h"
#include "assay/report/runs/runs_json.h"
#include "assay/report/runs/runs_text.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::int64_t step_of(const std::string& flag, const std::string& text) {
  std::int64_t step = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, step);
  if (error != std::errc() || stop != end || step < 0)
    throw Error(Code::kUsage,
                flag + ": '" + printable(text) + "', expected a step");
  return step;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

class CompareRunsCommand : public Command {
 public:
  std::string name() const override { return "compare-runs"; }
  std::string summary() const override {
    return "compare the logs of training runs against the spread of seeds";
  }
  std::string examples() const override {
    return "  assay compare-runs gpu.jsonl npu.jsonl --seeds gpu-seed1.jsonl "
           "gpu-seed2.jsonl\n"
           "  assay compare-runs gpu.jsonl npu.jsonl --seeds gpu-seed*.jsonl "
           "--html runs.html\n"
           "  assay compare-runs a.jsonl b.jsonl c.jsonl --judge loss --smooth "
           "20 --from 100\n";
  }

  void declare(Args& args) override {
    args.positional("REFERENCE",
                    "the trusted run: lines of assay.watch or train_gpt, or "
                    "CSV",
                    &reference_);
    args.positionals("RUN", "runs in question", &targets_);
    args.values("--seeds", "LOG",
                "further runs like the reference, which span the band with it",
                &seeds_, Completes::kPath);
    args.list("--judge", "FIGURE",
              "judge this (loss and grad_norm, as far as they are logged)",
              &judged_);
    args.number("--smooth", "N", "judge means of the last N steps (1)",
                &smooth_, 1);
    args.option("--from", "STEP", "compare from this step on", &from_);
    args.option("--to", "STEP", "compare up to this step", &to_);
    args.number("--every", "N", "compare only steps that N divides (1)",
                &every_, 1);
    args.option("--html", "FILE", "write a self-contained HTML report", &html_,
                Completes::kPath);
    args.option("--json", "FILE", "write JSON, - for the standard output",
                &json_, Completes::kPath);
    args.flag("-q,--quiet", "print one line a run", &quiet_);
    color_.declare(args);
  }

  int run() override {
    const bool color = color_.wanted();
    const RunsOptions options = this->options();
    check_paths();
    RunsComparison result =
        compare_runs(read(runs()), read(reference_seeds()), options);
    check_judged(result);
    for (const std::string& target : targets_)
      if (same_file(reference_, target))
        result.warnings.push_back(printable(target) +
                                  " is the reference itself");
    result.command = command();
    if (json_ != "-") print(result, color);
    write_reports(result);
    return exit_code(result.verdict);
  }

 private:
  RunsOptions options() const {
    RunsOptions options;
    options.smooth = static_cast<std::size_t>(smooth_);
    options.every = every_;
    if (!from_.empty()) options.from = step_of("--from", from_);
    if (!to_.empty()) options.to = step_of("--to", to_);
    if (options.from > options.to)
      throw Error(Code::kUsage, "--from " + from_ + " is behind --to " + to_);
    if (judged_.empty()) return options;
    options.judged.clear();
    for (const std::string& name : judged_) {
      const auto figure = figure_named(name);
      if (!figure) refuse_figure(name);
      if (std::ranges::count(options.judged, *figure) == 0)
        options.judged.push_back(*figure);
    }
    return options;
  }

  [[noreturn]] static void refuse_figure(const std::string& name) {
    std::string known;
    for (const std::string_view figure : kFigureNames)
      known += (known.empty() ? "" : ", ") + std::string(figure);
    throw Error(Code::kUsage, "--judge: '" + printable(name) +
                                  "' is no figure; there are " + known);
  }

  std::vector<std::string> runs() const {
    std::vector<std::string> paths = {reference_};
    paths.insert(paths.end(), targets_.begin(), targets_.end());
    return paths;
  }

  // `--seeds seed*.jsonl` may well name the reference, too.
  std::vector<std::string> reference_seeds() const {
    std::vector<std::string> paths;
    for (const std::string& seed : seeds_)
      if (!same_file(seed, reference_)) paths.push_back(seed);
    return paths;
  }

  void check_paths() const {
    std::vector<std::string> inputs = runs();
    inputs.insert(inputs.end(), seeds_.begin(), seeds_.end());
    check_report_paths(
        {{"--html", html_}, {"--json", json_ == "-" ? "/dev/stdout" : json_}},
        inputs);
    for (const std::string& target : targets_)
      for (const std::string& seed : seeds_)
        if (same_file(target, seed))
          throw Error(Code::kUsage, printable(target) +
                                        " is among the seeds: its own band "
                                        "would prove nothing of it");
  }

  static std::vector<RunLog> read(const std::vector<std::string>& paths) {
    std::vector<RunLog> logs;
    for (const std::string& path : paths) logs.push_back(read_run_log(path));
    return logs;
  }

  // What was asked for by name has to be there.
  void check_judged(const RunsComparison& result) const {
    if (judged_.empty()) return;
    for (const Figure figure : result.options.judged)
      if (!result.runs.front().has(figure))
        throw Error(Code::kUsage, "--judge " + std::string(to_string(figure)) +
                                      ": " + printable(reference_) +
                                      " does not log it");
  }

  std::string command() const {
    std::string text = "assay compare-runs";
    for (const std::string& path : runs()) text += " " + shell_quote(path);
    if (!seeds_.empty()) text += " --seeds";
    for (const std::string& seed : seeds_) text += " " + shell_quote(seed);
    for (const std::string& figure : judged_) text += " --judge " + figure;
    if (smooth_ != 1) text += " --smooth " + std::to_string(smooth_);
    if (every_ != 1) text += " --every " + std::to_string(every_);
    if (!from_.empty()) text += " --from " + from_;
    if (!to_.empty()) text += " --to " + to_;
    return text;
  }

  void print(const RunsComparison& result, bool color) const {
    RunsTextOptions options;
    options.color = color;
    options.quiet = quiet_;
    options.columns = terminal_columns();
    print_text(render_runs_comparison(result, options));
  }

  void write_reports(const RunsComparison& result) const {
    if (json_ == "-") {
      print_text(runs_json(result));
    } else if (!json_.empty()) {
      AtomicFile file(json_);
      file.write(runs_json(result));
      file.commit();
    }
    if (html_.empty()) return;
    write_runs_html(result, html_);
    if (!quiet_ && json_ != "-") print_text("report: " + html_ + "\n");
  }

  std::string reference_, from_, to_, html_, json_;
  std::vector<std::string> targets_, seeds_, judged_;
  int smooth_ = 1, every_ = 1;
  bool quiet_ = false;
  ColorFlag color_;
};

}  // namespace

std::unique_ptr<Command> make_compare_runs_command() {
  return std::make_unique<CompareRunsCommand>();
}

}  // namespace assay
