#include "assay/report/determinism_text.h"

#include <fmt/format.h>

#include <vector>

#include "assay/base/text.h"
#include "assay/report/display.h"
#include "assay/report/row_view.h"
#include "assay/report/terminal_table.h"

namespace assay {
namespace {

constexpr std::size_t kWarnings = 10;

class DeterminismText {
 public:
  DeterminismText(const DeterminismReport& report,
                  const DeterminismTextOptions& options)
      : report_(report), options_(options) {}

  std::string run() {
    if (options_.quiet) {
      text_ = word();
      if (report_.first) text_.append(" ").append(safe_text(report_.first->op));
      text_.append("   ").append(counts());
      return std::move(text_);
    }
    text_ = fmt::format("{} of {}, {}, {}, {}\n", plural(report_.runs, "run"),
                        safe_text(options_.program), plural(steps(), "step"),
                        plural(report_.counts.total(), "record"),
                        human_seconds(options_.seconds));
    add_verdict();
    if (report_.first) add_first(*report_.first);
    text_ += counts();
    add_warnings();
    if (report_.first && !options_.again.empty())
      text_ += "every row: " + safe_text(options_.again) + "\n";
    return std::move(text_);
  }

 private:
  std::string word() const {
    return colored(report_.verdict, determinism_word(report_), options_.color);
  }

  std::int64_t steps() const {
    return static_cast<std::int64_t>(report_.steps.size());
  }

  void line(const std::string& text) { text_ += "  " + text + "\n"; }

  void add_verdict() {
    text_ += word() + "   ";
    if (report_.first) {
      const DeterminismFinding& first = *report_.first;
      text_ += "first: " + safe_text(first.op) + place(first) + "\n";
    } else if (report_.verdict == Verdict::kMatch) {
      text_ += plural(report_.counts.match, "record") +
               " the same in every run, bit for bit\n";
    } else if (report_.counts.match == 0) {
      text_ += "nothing was captured\n";
    } else {
      text_ += fmt::format(
          "{} of {} could not be compared, the others are "
          "the same\n",
          human_count(report_.counts.incomplete),
          plural(report_.counts.total(), "record"));
    }
  }

  std::string place(const DeterminismFinding& first) const {
    std::vector<std::string> parts;
    if (first.setup) {
      parts.emplace_back("before the first step");
    } else if (steps() > 1) {
      parts.push_back(fmt::format("step {}", first.step));
    }
    if (first.rank != 0) parts.push_back(fmt::format("rank {}", first.rank));
    if (report_.runs > 2) parts.push_back(fmt::format("run {}", first.run));
    return parts.empty() ? "" : fmt::format("  ({})", fmt::join(parts, ", "));
  }

  void add_first(const DeterminismFinding& first) {
    const std::string leaf = safe_text(first.leaf);
    line(what(first, leaf));
    add_values(first);
    const std::string cause = likely(first);
    if (!cause.empty()) line("likely: " + safe_text(cause));
    if (!first.reached.empty())
      line("it reaches the steps in " + safe_text(first.reached));
    if (!first.call_path.empty())
      line("inside " + safe_text(first.call_path.back()));
    const std::string frame = safe_text(user_frame(first.stack));
    if (!frame.empty()) line(frame);
  }

  static std::string what(const DeterminismFinding& first,
                          const std::string& leaf) {
    switch (first.kind) {
      case Parting::kOperator:
      case Parting::kRandom:
        return "its inputs agree in both runs, " + leaf + " does not";
      case Parting::kCalls:
        return "from here the runs make other calls";
      case Parting::kWeights:
        return "not the same start: " + leaf +
               " differs before anything captured wrote it";
      case Parting::kData:
        return "not the same input: no captured operator put out " + leaf +
               ", and it differs";
      case Parting::kArgument:
        return "not the same argument: " + leaf + " differs";
      case Parting::kExchange:
        return leaf + " differs, though what put it out in run 1 agrees";
      case Parting::kUnknown:
        break;
    }
    return leaf + " differs, not all that it depends on is known";
  }

  void add_values(const DeterminismFinding& first) {
    const std::string other = fmt::format("run {}", first.run);
    if (first.kind == Parting::kCalls) {
      const auto call = [](const std::string& name) {
        return name.empty() ? std::string("no call any more") : safe_text(name);
      };
      line("run 1 " + call(first.first));
      line(other + " " + call(first.second));
      return;
    }
    std::string text;
    if (!first.dtype.empty())
      text = safe_text(first.dtype) + " " + to_string(first.shape) + "  ";
    if (!first.figures.empty()) {
      line(text + first.figures);
    } else if (!first.first.empty() || !first.second.empty()) {
      line(text + "run 1 " + elide_end(safe_text(first.first), 40) + "  " +
           other + " " + elide_end(safe_text(first.second), 40));
    }
  }

  static std::string likely(const DeterminismFinding& first) {
    if (!first.cause.empty()) return first.cause;
    switch (first.kind) {
      case Parting::kRandom:
        return "it draws from a generator that the seed does not reach, or "
               "that the program seeds with something else each time";
      case Parting::kWeights:
        return "initial weights, or an update that was not captured";
      case Parting::kData:
      case Parting::kArgument:
        return "data loading, a random number from outside of torch, time, or "
               "the order of a set (PYTHONHASHSEED)";
      case Parting::kCalls:
        return "a branch on time, chance, a measured duration, or the order "
               "of a set (PYTHONHASHSEED)";
      default:
        return "";
    }
  }

  std::string counts() const {
    const DeterminismCounts& c = report_.counts;
    return fmt::format("same {}   differ {}   not compared {}   empty {}\n",
                       human_count(c.match), human_count(c.differ),
                       human_count(c.incomplete), human_count(c.empty));
  }

  void add_warnings() {
    const auto& warnings = report_.warnings;
    for (std::size_t i = 0; i < warnings.size() && i < kWarnings; ++i)
      text_ += "warning: " + safe_text(warnings[i]) + "\n";
    if (warnings.size() > kWarnings)
      text_ += fmt::format("warning: {} more\n", warnings.size() - kWarnings);
  }

  const DeterminismReport& report_;
  const DeterminismTextOptions& options_;
  std::string text_;
};

}  // namespace

std::string determinism_word(const DeterminismReport& report) {
  if (report.verdict == Verdict::kMatch) return "deterministic";
  if (report.verdict != Verdict::kMismatch) return "incomplete";
  return report.another_start() ? "another start" : "not deterministic";
}

std::string render_determinism(const DeterminismReport& report,
                               const DeterminismTextOptions& options) {
  return DeterminismText(report, options).run();
}

}  // namespace assay
