#include "assay/precheck/assemble.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "assay/base/text.h"
#include "assay/compare/divergence.h"
#include "assay/compare/summary.h"
#include "assay/metrics/judgement.h"

namespace assay::precheck {
namespace {

Reason note(std::string_view criterion, std::string text) {
  return make_reason(criterion, std::move(text), true);
}

// Two devices of which neither could be checked agree in nothing: their
// comparison has to see the row.
Detail detail_without_figures(const Row& row) {
  Detail detail;
  detail.name = row.name();
  detail.status = row.verdict == Verdict::kMismatch ? "error" : "SKIP";
  if (const Reason* reason = deciding_reason(row))
    detail.message = reason->text;
  return detail;
}

class Assembler {
 public:
  Assembler(const Plan& plan, RunResult& result)
      : plan_(plan), result_(result), comparison_(result.comparison) {}

  void run(std::vector<JournalEntry> results) {
    for (const Trace& trace : plan_.traces) {
      Group group;
      group.step = trace.step;
      group.rank = trace.rank;
      group.golden_path = comparison_.golden_path;
      group.target_path = comparison_.target_path;
      comparison_.groups.push_back(std::move(group));
    }
    std::set<std::string> apis;
    std::size_t next = 0;
    for (std::size_t t = 0; t < plan_.traces.size(); ++t) {
      for (; next < plan_.calls.size() && plan_.calls[next].trace == t; ++next)
        add_call(plan_.calls[next], std::move(results[next]), apis);
      for (const Unrecorded& lost : plan_.unrecorded)
        if (lost.trace == t) add_unrecorded(lost);
    }
    result_.chosen = plan_.chosen;
    result_.apis = static_cast<std::int64_t>(apis.size());
    comparison_.warnings = plan_.warnings;
    summarise(comparison_);
    describe_first();
  }

 private:
  void add_call(const PlannedCall& planned, JournalEntry entry,
                std::set<std::string>& apis) {
    apis.insert(planned.call.api);
    if (entry.rows.empty()) entry.rows.push_back(unreplayed(planned));
    CallResult call;
    call.api = planned.call.api;
    call.group = static_cast<std::uint32_t>(planned.trace);
    call.stands_for = planned.stands_for;
    call.skip = planned.rule.skip;
    call.generated = entry.generated;
    add_notes(planned, entry);
    call.forward = add_op(planned, false, entry.rows);
    for (const JudgedRow& row : entry.rows)
      if (row.backward && call.backward < 0)
        call.backward =
            static_cast<std::int32_t>(add_op(planned, true, entry.rows));
    result_.calls.push_back(std::move(call));
  }

  static JudgedRow unreplayed(const PlannedCall& planned) {
    const std::string name = planned.call.name + ".forward";
    if (planned.rule.skip == Skip::kNone)
      return decided(name, false, true, Verdict::kIncomplete, "not_run",
                     "not replayed: interrupted");
    const bool loss = planned.rule.skip == Skip::kLoss;
    return decided(name, false, true,
                   loss ? Verdict::kIncomplete : Verdict::kEmpty, "skipped",
                   "not replayed: " + planned.rule.why);
  }

  static void add_notes(const PlannedCall& planned, JournalEntry& entry) {
    if (planned.stands_for > 1)
      entry.rows.front().row.reasons.push_back(note(
          "stands_for", fmt::format("stands for {} calls of this signature",
                                    human_count(planned.stands_for))));
    if (!entry.generated) return;
    for (JudgedRow& judged : entry.rows)
      if (judged.row.verdict != Verdict::kEmpty)
        judged.row.reasons.push_back(
            note("generated",
                 "inputs, or gradients given, were generated: the trace has no "
                 "elements of them"));
  }

  std::uint32_t add_op(const PlannedCall& planned, bool backward,
                       std::vector<JudgedRow>& rows) {
    const Trace& trace = plan_.traces[planned.trace];
    Group& group = comparison_.groups[planned.trace];
    const auto index = static_cast<std::uint32_t>(group.ops.size());
    const std::uint32_t of_trace =
        backward && planned.call.backward >= 0
            ? static_cast<std::uint32_t>(planned.call.backward)
            : planned.call.forward;
    OpRow op;
    op.name = planned.call.name + (backward ? ".backward" : ".forward");
    op.api = trace.ops[of_trace].api;
    // The backward pass has no stack of its own: the call's says where.
    op.stack = add_stack(planned.trace, trace.ops[planned.call.forward].stack);
    op.first_row = static_cast<std::uint32_t>(comparison_.rows.size());
    op.verdict = Verdict::kEmpty;
    for (JudgedRow& judged : rows) {
      if (judged.backward != backward) continue;
      add_row(std::move(judged), planned.trace, index, op);
      judged.backward = backward;
    }
    group.ops.push_back(std::move(op));
    return index;
  }

  void add_row(JudgedRow judged, std::size_t group, std::uint32_t op,
               OpRow& of) {
    Row& row = judged.row;
    row.group = static_cast<std::uint32_t>(group);
    row.op = op;
    ++of.row_count;
    if (severity(row.verdict) > severity(of.verdict)) of.verdict = row.verdict;
    if (row.verdict == Verdict::kMismatch && !first_)
      first_ = comparison_.rows.size();
    if (judged.detail)
      result_.details.push_back(*std::move(judged.detail));
    else if (row.verdict != Verdict::kMatch && row.verdict != Verdict::kEmpty)
      result_.details.push_back(detail_without_figures(row));
    comparison_.rows.push_back(std::move(row));
  }

  std::int32_t add_stack(std::size_t trace, std::int32_t stack) {
    if (stack < 0) return -1;
    Group& group = comparison_.groups[trace];
    const auto [known, is_new] = stacks_.try_emplace(
        {trace, stack}, static_cast<std::int32_t>(group.stacks.size()));
    if (is_new)
      group.stacks.push_back(
          plan_.traces[trace].stacks[static_cast<std::size_t>(stack)]);
    return known->second;
  }

  void add_unrecorded(const Unrecorded& lost) {
    Group& group = comparison_.groups[lost.trace];
    OpRow op;
    op.name = op.api = lost.name;
    op.verdict = Verdict::kIncomplete;
    op.first_row = static_cast<std::uint32_t>(comparison_.rows.size());
    const auto index = static_cast<std::uint32_t>(group.ops.size());
    add_row(decided(lost.name, false, true, Verdict::kIncomplete, "unrecorded",
                    lost.why),
            lost.trace, index, op);
    group.ops.push_back(std::move(op));
  }

  void describe_first() {
    if (!first_) return;
    Divergence divergence = describe_divergence(comparison_, *first_);
    divergence.input_note = "its inputs agree (both sides were given the same)";
    comparison_.first_divergence = std::move(divergence);
  }

  const Plan& plan_;
  RunResult& result_;
  Comparison& comparison_;
  std::optional<std::size_t> first_;
  std::map<std::pair<std::size_t, std::int32_t>, std::int32_t> stacks_;
};

}  // namespace

void assemble(const Plan& plan, std::vector<JournalEntry> results,
              RunResult& result) {
  Assembler(plan, result).run(std::move(results));
}

}  // namespace assay::precheck
