#include "assay/compare/overflow/classify.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "assay/compare/distributed.h"
#include "assay/compare/exchange.h"
#include "assay/compare/op_state.h"
#include "assay/compare/overflow/describe.h"
#include "assay/compare/overflow/layout.h"
#include "assay/compare/rank_order.h"

namespace assay {
namespace {

// What one operator has to do with what is not finite.
struct OpFacts {
  bool input = false;        // an input or parameter is not finite
  bool infinite_in = false;  // ... or a mask
  bool any_output = false, outputs_finite = true, masks = false;
  std::optional<std::size_t> entered, output;  // rows
};

class RankClassifier {
 public:
  RankClassifier(const std::vector<std::unique_ptr<RankScan>>& ranks,
                 const std::vector<GroupFindings>& findings,
                 const Exchanges& exchanges, const Comparison& result,
                 std::size_t rank, OverflowReport& out)
      : ranks_(ranks),
        findings_(findings),
        exchanges_(exchanges),
        result_(result),
        group_(result.groups[findings[rank].group]),
        rank_(rank),
        out_(out) {}

  // Every operator with something to tell, once.
  void run() {
    facts_.resize(group_.ops.size());
    for (std::size_t op = 0; op < facts_.size(); ++op) collect(op);
    std::vector<bool> told(facts_.size());
    for (const Event& event : findings_[rank_].mismatches) {
      const OpFacts& facts = facts_[event.op];
      if (told[event.op] || !decides(facts, event.row)) continue;
      told[event.op] = true;
      tell(event.op, facts);
    }
    for (const OpFacts& facts : facts_) count_quiet(facts);
  }

  OverflowFinding finding_of(std::size_t op, bool in_full) const {
    const OpFacts& facts = facts_[op];
    const std::size_t row = facts.entered  ? *facts.entered
                            : facts.output ? *facts.output
                                           : first_input(op);
    OverflowFinding finding =
        describe_finding(*ranks_[rank_], result_, findings_[rank_].group, row,
                         kind_of(op, facts), in_full);
    if (finding.kind == OverflowKind::kArrived) finding.sender = sender(op);
    return finding;
  }

  // As finding_of, for the operators that carry on what `first` began.
  void carry_on(const Event& first, std::vector<OverflowFinding>& carried) {
    std::vector<bool> told(facts_.size());
    for (const Event& event : findings_[rank_].mismatches) {
      const OpFacts& facts = facts_[event.op];
      if (carried.size() >= kCarried / 2) return;  // arrivals follow
      if (event.time < first.time || event.op == first.op || told[event.op] ||
          !decides(facts, event.row) ||
          kind_of(event.op, facts) != OverflowKind::kPropagated) {
        continue;
      }
      told[event.op] = true;
      carried.push_back(finding_of(event.op, false));
    }
  }

 private:
  const Row& row(std::size_t at) const { return result_.rows[at]; }

  void collect(std::size_t op) {
    const OpRow& rows = group_.ops[op];
    OpFacts& facts = facts_[op];
    for (std::uint32_t i = 0; i < rows.row_count; ++i) {
      const std::size_t at = rows.first_row + i;
      if (!row(at).is_tensor) continue;
      feeds(row(at).role) ? collect_input(at, facts)
                          : collect_output(at, facts);
    }
  }

  void collect_input(std::size_t at, OpFacts& facts) const {
    const bool differs = row(at).verdict == Verdict::kMismatch;
    facts.input = facts.input || differs;
    facts.infinite_in = facts.infinite_in || differs || is_mask(at);
    const bool entered = row(at).origin == Origin::kInputDiffers ||
                         row(at).origin == Origin::kParameterDiffers;
    if (entered && !facts.entered) facts.entered = at;
  }

  void collect_output(std::size_t at, OpFacts& facts) const {
    facts.any_output = true;
    const bool finite = row(at).verdict == Verdict::kMatch && !is_mask(at);
    facts.outputs_finite = facts.outputs_finite && finite;
    facts.masks = facts.masks || is_mask(at);
    if (row(at).verdict == Verdict::kMismatch && !facts.output)
      facts.output = at;
  }

  bool is_mask(std::size_t at) const {
    const RankScan& rank = *ranks_[rank_];
    return rank.meanings[record_of(rank.pair, result_, findings_[rank_].group,
                                   at)] == Meaning::kMask;
  }

  // The row at which the operator takes its place in the order.
  static bool decides(const OpFacts& facts, std::size_t at) {
    if (facts.entered) return *facts.entered == at;
    if (facts.output) return *facts.output == at;
    return !facts.any_output;  // what it made of its input was not captured
  }

  std::size_t first_input(std::size_t op) const {
    const OpRow& rows = group_.ops[op];
    std::size_t at = rows.first_row;
    while (row(at).verdict != Verdict::kMismatch) ++at;
    return at;
  }

  OverflowKind kind_of(std::size_t op, const OpFacts& facts) const {
    if (facts.entered) return OverflowKind::kEntered;
    if (!facts.output) return OverflowKind::kPropagated;
    switch (row(*facts.output).origin) {
      case Origin::kBorn:
        return OverflowKind::kBorn;
      case Origin::kNone:  // an entry of a plain file
      case Origin::kUndetermined:
        return OverflowKind::kUnknown;
      default:
        break;
    }
    return !facts.input && is_communication(source(op)) && sender(op)
               ? OverflowKind::kArrived
               : OverflowKind::kPropagated;
  }

  const Op& source(std::size_t op) const {
    return ranks_[rank_]->pair.golden.ops[op];
  }

  // The lowest of the other ranks that gave what is not finite.
  std::optional<OverflowSender> sender(std::size_t op) const {
    std::optional<OverflowSender> lowest;
    const auto& calls = findings_[rank_].communications;
    const auto of_op = [](const Communication& call, std::size_t at) {
      return call.op < at;
    };
    auto call = std::lower_bound(calls.begin(), calls.end(), op, of_op);
    for (; call != calls.end() && call->op == op; ++call) {
      const auto index = static_cast<std::size_t>(call - calls.begin());
      for (const CallRef& ref :
           exchanges_.all[exchanges_.of_call[rank_][index]].calls) {
        consider(*call, ref, lowest);
      }
    }
    return lowest;
  }

  void consider(const Communication& call, const CallRef& ref,
                std::optional<OverflowSender>& lowest) const {
    const GroupFindings& other = findings_[ref.rank];
    const Group& group = result_.groups[other.group];
    const Communication& theirs = other.communications[ref.call];
    if (ref.rank == rank_ || !theirs.input_differs ||
        !is_source(call, group.rank) ||
        (lowest && lowest->rank <= group.rank)) {
      return;
    }
    lowest = OverflowSender{group.rank, group.ops[theirs.op].name};
  }

  void tell(std::size_t op, const OpFacts& facts) {
    OverflowCounts& counts = out_.counts;
    switch (kind_of(op, facts)) {
      case OverflowKind::kBorn:
        ++counts.born;
        break;
      case OverflowKind::kEntered:
        ++counts.entered;
        break;
      case OverflowKind::kArrived:
        ++counts.arrived;
        break;
      case OverflowKind::kUnknown:
        ++counts.unknown;
        break;
      case OverflowKind::kPropagated:
        ++counts.propagated;
        return;
    }
    const bool in_full = out_.found.size() < kDetailed;
    out_.found.push_back(finding_of(op, in_full));
  }

  void count_quiet(const OpFacts& facts) {
    if (facts.masks && !facts.output) ++out_.counts.masked;
    if (facts.infinite_in && facts.any_output && facts.outputs_finite)
      ++out_.counts.absorbed;
  }

  const std::vector<std::unique_ptr<RankScan>>& ranks_;
  const std::vector<GroupFindings>& findings_;
  const Exchanges& exchanges_;
  const Comparison& result_;
  const Group& group_;
  const std::size_t rank_;
  OverflowReport& out_;
  std::vector<OpFacts> facts_;
};

}  // namespace

void classify(const std::vector<std::unique_ptr<RankScan>>& ranks,
              const std::vector<GroupFindings>& findings,
              const Comparison& result, OverflowReport& out) {
  const Exchanges exchanges = join_calls(findings);
  std::vector<RankClassifier> classifiers;
  classifiers.reserve(ranks.size());
  const std::size_t found_before = out.found.size();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    classifiers.emplace_back(ranks, findings, exchanges, result, rank, out);
    classifiers.back().run();
  }
  if (out.first) return;
  const auto first = first_mismatch(findings, result);
  if (!first) return;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (findings[rank].group != result.rows[*first].group) continue;
    out.first = classifiers[rank].finding_of(result.rows[*first].op, true);
    for (const Event& event : findings[rank].mismatches) {
      if (event.row != *first) continue;
      classifiers[rank].carry_on(event, out.carried);
    }
  }
  for (std::size_t i = found_before; i < out.found.size(); ++i) {
    if (out.found[i].kind == OverflowKind::kArrived &&
        out.carried.size() < kCarried) {
      out.carried.push_back(out.found[i]);
    }
  }
}

}  // namespace assay
