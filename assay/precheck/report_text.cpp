#include "assay/precheck/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "assay/base/text.h"
#include "assay/metrics/judgement.h"
#include "assay/report/display.h"
#include "assay/report/row_view.h"
#include "assay/report/terminal.h"
#include "assay/report/terminal_table.h"
#include "assay/report/text_table.h"

namespace assay::precheck {
namespace {

// Of one API: its signatures by verdict, and the worst row of all.
struct ApiLine {
  std::string api;
  std::int64_t signatures = 0, mismatch = 0, incomplete = 0, calls = 0;
  Verdict verdict = Verdict::kEmpty;
  const Row* worst = nullptr;
};

class Text {
 public:
  Text(const RunResult& result, const TextOptions& options)
      : result_(result), comparison_(result.comparison), options_(options) {}

  std::string run() {
    count();
    if (options_.quiet) return word() + "   " + totals();
    text_ = fmt::format(
        "{} judged by {}, {}\n", safe_text(comparison_.target_path),
        safe_text(comparison_.golden_path), human_seconds(comparison_.seconds));
    verdict();
    text_ += totals();
    coverage();
    table();
    reasons();
    warnings();
    return std::move(text_);
  }

 private:
  std::string word() const {
    return colored(comparison_.verdict, to_string(comparison_.verdict),
                   options_.color);
  }

  Verdict verdict_of(const CallResult& call) const {
    const Group& group = comparison_.groups[call.group];
    Verdict worst = group.ops[call.forward].verdict;
    if (call.backward >= 0) {
      const Verdict other =
          group.ops[static_cast<std::size_t>(call.backward)].verdict;
      if (severity(other) > severity(worst)) worst = other;
    }
    return worst;
  }

  void count() {
    std::map<std::string, std::size_t> index;
    for (const CallResult& call : result_.calls) {
      const auto [at, is_new] = index.try_emplace(call.api, apis_.size());
      if (is_new) apis_.push_back({call.api});
      ApiLine& line = apis_[at->second];
      const Verdict verdict = verdict_of(call);
      ++line.signatures;
      line.calls += call.stands_for;
      line.mismatch += verdict == Verdict::kMismatch ? 1 : 0;
      line.incomplete += verdict == Verdict::kIncomplete ? 1 : 0;
      if (severity(verdict) > severity(line.verdict)) line.verdict = verdict;
      look_at_rows(call, line);
      ++signatures_[static_cast<std::size_t>(verdict)];
      if (call.skip == Skip::kNone && call.generated) ++generated_;
      if (call.skip == Skip::kNoLoss) ++no_loss_;
    }
  }

  void look_at_rows(const CallResult& call, ApiLine& line) const {
    const Group& group = comparison_.groups[call.group];
    for (const std::int64_t op : {static_cast<std::int64_t>(call.forward),
                                  std::int64_t{call.backward}}) {
      if (op < 0) continue;
      const OpRow& row = group.ops[static_cast<std::size_t>(op)];
      for (std::uint32_t i = 0; i < row.row_count; ++i) {
        const Row& one = comparison_.rows[row.first_row + i];
        if (!line.worst || is_worse(one, *line.worst)) line.worst = &one;
      }
    }
  }

  // Without a figure (shape, dtype, missing) is worse than any figure.
  static double error_of(const Row& row) {
    const double error = row_error(row);
    return row.verdict == Verdict::kMismatch && error < 0 ? INFINITY : error;
  }

  static bool is_worse(const Row& a, const Row& b) {
    if (severity(a.verdict) != severity(b.verdict))
      return severity(a.verdict) > severity(b.verdict);
    return error_of(a) > error_of(b);
  }

  void verdict() {
    text_ += word() + "   ";
    if (comparison_.first_divergence) {
      const Divergence& first = *comparison_.first_divergence;
      const Row& row = comparison_.rows[first.row];
      text_ += "first: " + safe_text(row.name()) + "\n";
      line(safe_text(first.reason));
      line(safe_text(likely_text(first.cause)));
      line(safe_text(user_frame(first.stack)));
      line("again: " + safe_text(first.again));
      return;
    }
    const std::int64_t bad = of(Verdict::kIncomplete);
    const auto all = static_cast<std::int64_t>(result_.calls.size());
    if (comparison_.verdict == Verdict::kMatch)
      text_ += "every call that was replayed agrees\n";
    else if (all == 0)
      text_ += "nothing was replayed\n";
    else if (bad == 0)
      text_ += "nothing was compared but what is empty\n";
    else
      text_ += fmt::format("{} of {} could not be checked\n", human_count(bad),
                           plural(all, "signature"));
  }

  void line(const std::string& text) {
    if (!text.empty()) text_ += "  " + text + "\n";
  }

  std::int64_t of(Verdict verdict) const {
    return signatures_[static_cast<std::size_t>(verdict)];
  }

  std::string totals() const {
    return fmt::format(
        "match {}   mismatch {}   incomplete {}   empty {}   of {}\n",
        human_count(of(Verdict::kMatch)), human_count(of(Verdict::kMismatch)),
        human_count(of(Verdict::kIncomplete)), human_count(of(Verdict::kEmpty)),
        plural(static_cast<std::int64_t>(result_.calls.size()), "signature"));
  }

  void coverage() {
    text_ += fmt::format(
        "{} of {}, {} compared", plural(result_.chosen, "call"),
        plural(result_.apis, "API"),
        plural(comparison_.counts.match + comparison_.counts.mismatch,
               "result"));
    if (generated_ > 0)
      text_ += fmt::format("; inputs or gradients of {} generated",
                           plural(generated_, "signature"));
    if (no_loss_ > 0)
      text_ += fmt::format("; {} with nothing to check", no_loss_);
    text_ += "\n";
  }

  void table() {
    std::vector<const ApiLine*> shown;
    for (const ApiLine& api : apis_)
      if (options_.all || api.verdict == Verdict::kMismatch)
        shown.push_back(&api);
    if (shown.empty()) return;
    std::stable_sort(shown.begin(), shown.end(),
                     [](const ApiLine* a, const ApiLine* b) {
                       return is_worse(*a->worst, *b->worst);
                     });
    const std::size_t count =
        options_.all ? shown.size() : std::min(shown.size(), options_.rows);
    using Align = TextTable::Align;
    using Tight = TextTable::Tight;
    TextTable table({{"verdict", Align::kLeft, Tight::kCut},
                     {"API", Align::kLeft, Tight::kCut},
                     {"failed", Align::kRight, Tight::kCut},
                     {"calls", Align::kRight, Tight::kDrop},
                     {"worst", Align::kLeft, Tight::kCut},
                     {"rel. L2", Align::kRight, Tight::kCut},
                     {"reason", Align::kLeft, Tight::kYield}});
    for (std::size_t i = 0; i < count; ++i)
      table.row(shown[i]->verdict, cells(*shown[i]));
    text_ += "\n" + table.render(options_.columns, options_.color);
    if (count < shown.size())
      text_ += fmt::format("{} more, --all shows them\n", shown.size() - count);
  }

  static std::vector<std::string> cells(const ApiLine& api) {
    const double error = row_error(*api.worst);
    const Reason* reason = deciding_reason(*api.worst);
    if (!reason && !api.worst->reasons.empty())
      reason = &api.worst->reasons.front();
    return {std::string(to_string(api.verdict)),
            api.api,
            fmt::format("{}/{}", api.mismatch, api.signatures),
            human_count(api.calls),
            api.worst->name(),
            error < 0 ? "-" : format_figure(error),
            reason ? reason->text : ""};
  }

  // Why calls were not checked: what is equal but for what is particular.
  void reasons() {
    struct Cause {
      std::int64_t count = 0;
      const Row* first = nullptr;
    };
    std::map<std::string, Cause> causes;
    for (const Row& row : comparison_.rows) {
      if (row.verdict != Verdict::kIncomplete) continue;
      const Reason* reason = deciding_reason(row);
      Cause& cause = causes[reason ? reason->text : "no reason recorded"];
      if (cause.count++ == 0) cause.first = &row;
    }
    if (causes.empty()) return;
    std::vector<std::pair<std::string, Cause>> sorted(causes.begin(),
                                                      causes.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) {
      return a.second.count > b.second.count;
    });
    text_ += "\nnot checked\n";
    const std::size_t count =
        options_.all ? sorted.size() : std::min<std::size_t>(sorted.size(), 10);
    for (std::size_t i = 0; i < count; ++i) {
      const auto& [why, cause] = sorted[i];
      const std::string name = safe_text(cause.first->name());
      line(fmt::format("{:>5}  {}  ({})", human_count(cause.count),
                       safe_text(why),
                       cause.count == 1 ? name : "first " + name));
    }
    if (count < sorted.size())
      line(fmt::format("{} more reasons, --all shows them",
                       sorted.size() - count));
  }

  void warnings() {
    for (const std::string& warning : comparison_.warnings)
      text_ += "warning: " + safe_text(warning) + "\n";
    if (comparison_.interrupted)
      text_ += "interrupted; to go on: " +
               safe_text(comparison_.command + " --resume") + "\n";
  }

  const RunResult& result_;
  const Comparison& comparison_;
  const TextOptions& options_;
  std::string text_;
  std::vector<ApiLine> apis_;
  std::int64_t signatures_[4] = {};
  std::int64_t generated_ = 0, no_loss_ = 0;
};

}  // namespace

std::string render_text(const RunResult& result, const TextOptions& options) {
  return Text(result, options).run();
}

}  // namespace assay::precheck
