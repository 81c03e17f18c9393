#include "assay/compare/determinism/parting.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "assay/base/text.h"
#include "assay/compare/determinism/calls.h"
#include "assay/compare/determinism/causes.h"
#include "assay/compare/divergence.h"
#include "assay/compare/op_state.h"
#include "assay/compare/pair_locations.h"
#include "assay/compare/read_traces.h"
#include "assay/metrics/standard.h"

namespace assay {
namespace {

bool is_random(const OpRow& op) {
  return op_class(op.api) == OpClass::kRandom ||
         op_class(op.name) == OpClass::kRandom ||
         op.api.starts_with("nn.init.");
}

bool takes_tensors(const Comparison& result, const OpRow& op) {
  for (std::uint32_t i = 0; i < op.row_count; ++i) {
    const Row& row = result.rows[op.first_row + i];
    if (row.is_tensor && row.verdict != Verdict::kEmpty &&
        (row.role == Role::kInput || row.role == Role::kParameter)) {
      return true;
    }
  }
  return false;
}

bool has_reason(const Row& row, std::string_view criterion) {
  return std::any_of(
      row.reasons.begin(), row.reasons.end(),
      [&](const Reason& reason) { return reason.criterion == criterion; });
}

bool is_generator(const Row& row) {
  return row.name().ends_with(".generator");
}

Parting kind_of(const Comparison& result, const Row& row, const OpRow& op) {
  switch (row.origin) {
    case Origin::kBorn:
    case Origin::kUndetermined:
      if (is_random(op)) return Parting::kRandom;
      // Of numbers, lists and arrays, which are not compared wholly.
      if (op.name.ends_with(".forward") && !takes_tensors(result, op))
        return Parting::kData;
      return row.origin == Origin::kBorn ? Parting::kOperator
                                         : Parting::kUnknown;
    case Origin::kParameterDiffers:
      return Parting::kWeights;
    case Origin::kInputDiffers:
      // One that the run's seed does not reach.
      if (!row.is_tensor && is_generator(row)) return Parting::kRandom;
      if (!row.is_tensor) return Parting::kArgument;
      return has_reason(row, "provenance") ? Parting::kExchange
                                           : Parting::kData;
    case Origin::kNone:
    case Origin::kInherited:
      break;
  }
  return Parting::kUnknown;
}

std::string text_of(const RowSide& side, bool is_tensor) {
  return is_tensor ? side.digest : side.value;
}

std::string figures_of(const Row& row) {
  if (!row.stats) return "";
  return fmt::format("max abs {}, normalised L2 {}",
                     format_figure(row.stats->max_abs),
                     format_figure(row.stats->norm_l2));
}

// Which operators put out the two values that a call took.
std::string exchanged(const Comparison& result, const Row& taken) {
  std::string first, second;
  for (const Row& row : result.rows) {
    if (&row == &taken) break;
    if (row.role != Role::kOutput || row.group != taken.group) continue;
    const std::string& name = result.groups[row.group].ops[row.op].name;
    if (row.golden.digest == taken.golden.digest) first = name;
    if (row.target.digest == taken.target.digest) second = name;
  }
  if (taken.golden.digest.empty() || first.empty() || second.empty() ||
      first == second) {
    return "";
  }
  return "one takes what " + first + " put out, the other that of " + second +
         ": an order that changes, as that of a set?";
}

// The backward pass is called by nobody: where the forward call was made.
std::vector<std::string> stack_of_forward(const Group& group, const OpRow& op) {
  std::string name = op.name;
  const std::size_t at = name.rfind(".backward");
  if (at == name.npos) return {};
  name.replace(at, std::string_view(".backward").size(), ".forward");
  for (const OpRow& other : group.ops) {
    if (other.name == name && other.stack >= 0)
      return group.stacks[other.stack];
  }
  return {};
}

DeterminismFinding describe(const Comparison& result, std::size_t at) {
  const Row& row = result.rows[at];
  const Group& group = result.groups[row.group];
  const OpRow& op = group.ops[row.op];
  const Divergence place = describe_divergence(result, at);
  DeterminismFinding finding;
  finding.kind = kind_of(result, row, op);
  finding.step = group.step;
  finding.rank = group.rank;
  finding.op = op.name;
  const std::string& name = row.name();
  finding.leaf =
      name.starts_with(op.name + ".") ? name.substr(op.name.size() + 1) : name;
  const SideFacts& facts = row.golden.facts;
  if (row.is_tensor) {
    finding.dtype =
        facts.dtype ? std::string(traits(*facts.dtype).name) : facts.dtype_text;
    finding.shape = facts.shape;
  }
  finding.first = text_of(row.golden, row.is_tensor);
  finding.second = text_of(row.target, row.is_tensor);
  finding.figures = figures_of(row);
  finding.call_path = place.call_path;
  finding.stack =
      place.stack.empty() ? stack_of_forward(group, op) : place.stack;
  if (finding.kind == Parting::kOperator) {
    finding.cause = cause_of_operator(
        op.api, op.name.find(".backward") != std::string::npos);
  } else if (finding.kind == Parting::kExchange) {
    finding.cause = exchanged(result, row);
  }
  return finding;
}

class PartingFinder {
 public:
  explicit PartingFinder(const Comparison& result)
      : result_(result),
        first_(result.golden_path),
        second_(result.target_path) {}

  std::optional<Parted> run() {
    if (result_.first_divergence) {
      const std::size_t row = result_.first_divergence->row;
      best_ = Parted{describe(result_, row), {}};
      const Group& group = result_.groups[result_.rows[row].group];
      best_->when = {group.step, time_of(row), group.rank};
    }
    for (const LocationPair& place :
         pair_locations(first_.locations, second_.locations)) {
      if (best_ && place.step > std::get<0>(best_->when)) break;
      look_at_calls(place);
    }
    return std::move(best_);
  }

 private:
  Trace read(const TraceTree& tree, std::int32_t at) const {
    if (at < 0) return {};
    Trace trace;
    read_all({{&tree.locations[at], &trace, false}}, {});
    return trace;
  }

  // Operators of run 1 before the value came into being.
  std::int64_t time_of(std::size_t at) const {
    const Row& row = result_.rows[at];
    const Group& group = result_.groups[row.group];
    std::vector<std::int32_t> parents;
    for (const OpRow& op : group.ops) parents.push_back(op.parent);
    const OpSpan span = find_spans(parents)[row.op];
    const bool enters =
        row.role == Role::kInput || row.role == Role::kParameter;
    std::int64_t time = 0;
    for (std::int64_t i = 0; i < (enters ? span.start : span.finish); ++i)
      time += in_first(group.ops[i]);
    return time;
  }

  bool in_first(const OpRow& op) const {
    for (std::uint32_t i = 0; i < op.row_count; ++i) {
      if (!result_.rows[op.first_row + i].golden.present) return false;
    }
    return true;
  }

  void look_at_calls(const LocationPair& place) {
    const auto other = first_other_call(read(first_, place.golden),
                                        read(second_, place.target));
    if (!other) return;
    Parted parted;
    parted.when = {place.step, other->op, place.rank};
    // A call that differs comes before the values that it takes.
    if (best_ && best_->when < parted.when) return;
    DeterminismFinding& finding = parted.finding;
    finding.kind = Parting::kCalls;
    finding.step = place.step;
    finding.rank = place.rank;
    finding.op = other->first.empty() ? other->second : other->first;
    finding.first = other->first;
    finding.second = other->second;
    finding.stack = other->stack;
    best_ = std::move(parted);
  }

  const Comparison& result_;
  TraceTree first_, second_;
  std::optional<Parted> best_;
};

// Not what memory that nobody has written looks like, nor moving it.
bool is_evidence(const Comparison& result, const Row& row,
                 const DeterminismFinding& finding) {
  const OpRow& op = result.groups[row.group].ops[row.op];
  switch (finding.kind) {
    case Parting::kRandom:
    case Parting::kArgument:
      return true;
    case Parting::kOperator:
      return takes_tensors(result, op) &&
             op_class(op.api) != OpClass::kMovement;
    case Parting::kExchange:
      return !finding.cause.empty();
    default:
      return false;
  }
}

}  // namespace

std::optional<Parted> find_parting(const Comparison& result) {
  return PartingFinder(result).run();
}

std::optional<DeterminismFinding> find_origin(const Comparison& result) {
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    const Row& row = result.rows[i];
    if (row.verdict != Verdict::kMismatch || row.origin == Origin::kInherited)
      continue;
    DeterminismFinding finding = describe(result, i);
    if (!is_evidence(result, row, finding)) continue;
    finding.setup = true;
    return finding;
  }
  return std::nullopt;
}

}  // namespace assay
