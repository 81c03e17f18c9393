// `assay history`: every run that was kept, and what changed between two.
#include <charconv>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/cli/color_flag.h"
#include "assay/cli/commands.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/history_flag.h"
#include "assay/cli/report_paths.h"
#include "assay/cli/terminal_size.h"
#include "assay/conform/report/run_history.h"
#include "assay/conform/report/run_json.h"
#include "assay/report/history/history_text.h"

namespace assay {
namespace {

// What the verbs share: the file, and how it is shown.
struct HistoryFlags {
  std::string file = "default", json;
  ColorFlag color;
  bool all = false;

  void declare_file(Args& args) {
    args.option("--history", "FILE",
                "$ASSAY_HISTORY, else ~/.local/share/assay/history.db", &file,
                Completes::kPath);
  }
  void declare_json(Args& args) {
    args.option("--json", "FILE", "write JSON, - for the standard output",
                &json, Completes::kPath);
  }
  History open(History::Mode mode) const {
    check_report_paths({{"--json", json == "-" ? "/dev/stdout" : json}},
                       {history_path(file).string()});
    return {history_path(file), mode};
  }
  HistoryTextOptions options() const {
    HistoryTextOptions options;
    options.color = color.wanted();
    options.columns = terminal_columns();
    options.all = all;
    return options;
  }
  // The text, unless the JSON takes its place.
  void print(const std::string& text, const std::string& document) const {
    if (json == "-") return print_text(document);
    if (!json.empty()) {
      AtomicFile out(json);
      out.write(document);
      out.commit();
    }
    print_text(text);
  }
};

std::int64_t run_number(const std::string& text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 1)
    throw Error(Code::kUsage, "'" + printable(text) +
                                  "', expected the number of a run: assay "
                                  "history lists them");
  return number;
}

double factor(const std::string& flag, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value > 1))
    throw Error(Code::kUsage, flag + ": '" + printable(text) +
                                  "', expected a number above 1");
  return value;
}

class ListVerb : public Command {
 public:
  std::string name() const override { return "list"; }
  std::string summary() const override {
    return "list the runs, newest first; what `assay history` does alone";
  }
  std::string examples() const override {
    return "  assay history\n  assay history list --last 100\n";
  }
  void declare(Args& args) override {
    args.number("-n,--last", "N", "so many of them (20)", &last_, 1);
    flags_.declare_json(args);
    flags_.declare_file(args);
    flags_.color.declare(args);
  }
  int run() override {
    const std::vector<HistoryRun> runs =
        flags_.open(History::Mode::kRead).runs(last_);
    flags_.print(render_runs(runs, flags_.options()), runs_json(runs));
    return kExitMatch;
  }

 private:
  int last_ = 20;
  HistoryFlags flags_;
};

class AddVerb : public Command {
 public:
  std::string name() const override { return "add"; }
  std::string summary() const override {
    return "keep conformance runs, from their folders or run.json";
  }
  std::string examples() const override {
    return "  assay history add assay-run\n";
  }
  void declare(Args& args) override {
    args.positionals("RUN", "folders of runs, or their run.json", &runs_);
    flags_.declare_file(args);
  }
  int run() override {
    // All are read before the first is added.
    std::vector<HistoryRun> runs;
    for (const std::string& run : runs_)
      runs.push_back(
          conform::history_of(conform::read_run(conform::run_file(run))));
    History history = flags_.open(History::Mode::kWrite);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const History::Added added = history.add(runs[i]);
      print_text(printable(runs_[i]) +
                 (added.known ? ": was there already, as run " : ": run ") +
                 std::to_string(added.number) + "\n");
    }
    return kExitMatch;
  }

 private:
  std::vector<std::string> runs_;
  HistoryFlags flags_;
};

class ShowVerb : public Command {
 public:
  std::string name() const override { return "show"; }
  std::string summary() const override {
    return "show a run: its sides, its counts and what is no match";
  }
  std::string examples() const override {
    return "  assay history show 12\n  assay history show 12 --all\n";
  }
  void declare(Args& args) override {
    args.positional("RUN", "its number", &run_, Completes::kNothing);
    args.flag("-a,--all", "every entry, matches too", &flags_.all);
    flags_.declare_file(args);
    flags_.color.declare(args);
  }
  int run() override {
    const std::int64_t number = run_number(run_);
    const HistoryRun run = flags_.open(History::Mode::kRead).run(number);
    print_text(render_history_run(run, flags_.options()));
    return kExitMatch;
  }

 private:
  std::string run_;
  HistoryFlags flags_;
};

class DiffVerb : public Command {
 public:
  std::string name() const override { return "diff"; }
  std::string summary() const override {
    return "what changed from one run to another: newly failing, fixed, "
           "worse, slower, new, gone";
  }
  std::string examples() const override {
    return "  assay history diff          the newest against the one before\n"
           "  assay history diff 11       run 11 against the one before it\n"
           "  assay history diff 3 12 --worse 1.2\n";
  }
  void declare(Args& args) override {
    args.optional_positional("A", "the earlier run; alone, the later one", &a_);
    args.optional_positional("B", "the later run", &b_);
    args.option("--worse", "X", "times the figure that count as worse (2)",
                &worse_);
    args.option("--slower", "X", "times the time that count as slower (1.5)",
                &slower_);
    args.flag("-a,--all", "every change, not the first 50 of a kind",
              &flags_.all);
    flags_.declare_json(args);
    flags_.declare_file(args);
    flags_.color.declare(args);
  }
  int run() override {
    DiffLimits limits;
    limits.worse = factor("--worse", worse_);
    limits.slower = factor("--slower", slower_);
    const History history = flags_.open(History::Mode::kRead);
    const auto [before, after] = chosen(history);
    const HistoryDiff result =
        diff(history.run(before), history.run(after), limits);
    flags_.print(render_diff(result, flags_.options()), diff_json(result));
    return exit_code(result.verdict());
  }

 private:
  std::pair<std::int64_t, std::int64_t> chosen(const History& history) const {
    if (!b_.empty()) return {run_number(a_), run_number(b_)};
    const auto newest = history.newest();
    if (!newest) throw Error(Code::kUsage, "no run is kept yet");
    const std::int64_t after = a_.empty() ? *newest : run_number(a_);
    history.run(after);  // says so where there is none
    const auto before = history.previous(after);
    if (!before)
      throw Error(Code::kUsage,
                  "run " + std::to_string(after) +
                      " is the first of its sides: name the one to compare "
                      "it with");
    return {*before, after};
  }

  std::string a_, b_, worse_ = "2", slower_ = "1.5";
  HistoryFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_history_command() {
  std::vector<std::unique_ptr<Command>> members;
  members.push_back(std::make_unique<ListVerb>());
  members.push_back(std::make_unique<DiffVerb>());
  members.push_back(std::make_unique<ShowVerb>());
  members.push_back(std::make_unique<AddVerb>());
  return make_command_group(
      "history", "keep every run, and see what changed since the last",
      std::move(members), "list");
}

}  // namespace assay
