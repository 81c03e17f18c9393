#include "assay/compare/localise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "assay/compare/communication.h"
#include "assay/compare/distributed.h"
#include "assay/compare/op_state.h"
#include "assay/compare/provenance.h"

namespace assay {
namespace {

// An output error of at most this many times its inputs' is their growth.
constexpr double kGrowth = 4;

// Event::order of a module's outputs where operators inside it are listed
// after it.
constexpr std::int32_t kOfEnclosing = 3;

double relative(const std::optional<double>& golden,
                const std::optional<double>& target, double scale) {
  if (!golden || !target) return -1;
  const double difference = std::abs(*target - *golden);
  if (difference == 0) return 0;
  if (std::isnan(difference) || scale == 0) {
    return std::isnan(*golden) && std::isnan(*target)
               ? 0
               : std::numeric_limits<double>::infinity();
  }
  return difference / scale;
}

// The largest relative difference of the statistics both sides kept. Unlike
// the figure that ranks rows in a report, the norm's alone, it must not miss an
// extreme, and extremes are relative to the larger one: a minimum near zero
// says nothing.
double largest_statistics_error(const TensorStatistics& golden,
                                const TensorStatistics& target) {
  const double extreme = std::max(std::abs(golden.max.value_or(0)),
                                  std::abs(golden.min.value_or(0)));
  return std::max(
      {relative(golden.max, target.max, extreme),
       relative(golden.min, target.min, extreme),
       relative(golden.norm, target.norm, std::abs(golden.norm.value_or(0)))});
}

class Localiser {
 public:
  Localiser(const TracePair& pair, std::uint32_t group, Comparison& result,
            bool earlier_step_differs)
      : pair_(pair),
        result_(result),
        group_(result.groups[group]),
        earlier_step_differs_(earlier_step_differs) {
    findings_.group = group;
  }

  GroupFindings run() {
    collect();
    if (findings_.mismatches.empty() && !has_communications()) {
      return std::move(findings_);
    }
    states_ = find_op_states(pair_, result_, findings_.group);
    for (Event& event : findings_.mismatches) set_time(event);
    sort_events(findings_.mismatches);
    if (any_input_differs_) collect_producers();
    for (const Event& event : findings_.mismatches) {
      produce_until(event);
      assign(event);
    }
    findings_.communications =
        find_communications(pair_, result_, states_, findings_.group);
    return std::move(findings_);
  }

 private:
  static std::int32_t order_of(Role role) {
    if (role == Role::kParameter) return 0;
    return role == Role::kInput ? 1 : 2;
  }

  static void sort_events(std::vector<Event>& events) {
    // Of modules that end together the inner one, listed later, ends first.
    const auto key = [](const Event& e) {
      const auto op = static_cast<std::int64_t>(e.op);
      return std::tuple(e.time, e.order, e.order == kOfEnclosing ? -op : op);
    };
    std::stable_sort(
        events.begin(), events.end(),
        [&](const Event& a, const Event& b) { return key(a) < key(b); });
  }

  bool has_communications() const {
    const auto& ops = pair_.golden.ops;
    return std::any_of(ops.begin(), ops.end(), is_communication);
  }

  // Ranks are compared among each other only where something differs, but a
  // rank that agrees must still say that its inputs did.
  void collect() {
    for (std::size_t op = 0; op < group_.ops.size(); ++op) {
      const OpRow& rows = group_.ops[op];
      for (std::uint32_t i = 0; i < rows.row_count; ++i) {
        const std::size_t row = rows.first_row + i;
        const Row& one = result_.rows[row];
        if (one.verdict != Verdict::kMismatch) continue;
        const std::int32_t order = order_of(one.role);
        any_input_differs_ = any_input_differs_ || order < 2;
        findings_.mismatches.push_back(
            {0, order, static_cast<std::uint32_t>(op), row});
      }
    }
  }

  void set_time(Event& event) const {
    const OpState& state = states_[event.op];
    event.time = event.order < 2 ? state.start : state.finish;
    if (event.order == 2 && state.finish > static_cast<std::int64_t>(event.op))
      event.order = kOfEnclosing;
  }

  // Everything an operator put out, in order, for `produce_until`.
  void collect_producers() {
    for (std::size_t op = 0; op < group_.ops.size(); ++op) {
      const OpRow& rows = group_.ops[op];
      for (std::uint32_t i = 0; i < rows.row_count; ++i) {
        if (result_.rows[rows.first_row + i].role != Role::kOutput) continue;
        producers_.push_back(
            {0, 2, static_cast<std::uint32_t>(op), rows.first_row + i});
        set_time(producers_.back());
      }
    }
    sort_events(producers_);
  }

  void produce_until(const Event& event) {
    for (; next_producer_ < producers_.size() &&
           std::tie(producers_[next_producer_].time,
                    producers_[next_producer_].order) <
               std::tie(event.time, event.order);
         ++next_producer_) {
      provenance_.add(result_.rows[producers_[next_producer_].row]);
    }
  }

  void assign(const Event& event) {
    Row& row = result_.rows[event.row];
    if (row.role == Role::kTensor) return;
    if (event.order >= 2) {
      assign_output(event.op, row);
      output_differed_ = true;
      return;
    }
    row.origin = origin_of_input(row);
    provenance_.add(row);
  }

  Origin origin_of_input(Row& row) {
    const Origin first = row.role == Role::kParameter
                             ? Origin::kParameterDiffers
                             : Origin::kInputDiffers;
    if (!row.is_tensor) return first;
    if (row.role == Role::kParameter && earlier_step_differs_) {
      add_note(row, "earlier_step",
               "an earlier step differs: its update reached this parameter");
      return Origin::kInherited;
    }
    switch (provenance_.find(row)) {
      case Provenance::Seen::kDiffered:
        return Origin::kInherited;
      case Provenance::Seen::kAgreed:
        add_note(row, "provenance",
                 "the operator that produced this value agrees: it changed "
                 "between the two, or the target uses another tensor here");
        return first;
      case Provenance::Seen::kNever:
        break;
    }
    // Not every operation is dumped: once a value differs, an unknown float
    // may have been computed from it.
    const bool computed = row.role == Role::kInput && row.golden.facts.dtype &&
                          !is_exact(*row.golden.facts.dtype);
    return output_differed_ && computed ? Origin::kInherited : first;
  }

  static void add_note(Row& row, const char* criterion, const char* text) {
    Reason reason;
    reason.criterion = criterion;
    reason.text = text;
    reason.note = true;
    row.reasons.push_back(std::move(reason));
  }

  void assign_output(std::uint32_t op, Row& row) {
    const OpState& state = states_[op];
    const Agreement inputs = upstream(states_, op);
    const double error = error_of(row);
    if (row.stats && inputs.measured && inputs.error > 0) {
      row.amplification = error / inputs.error;
    }
    const bool inner =
        state.inner_differs ||
        (state.backward >= 0 && states_[state.backward].inner_differs);
    if (inner || inputs.differs) {
      row.origin = Origin::kInherited;
    } else if (!inputs.any || inputs.unknown) {
      row.origin = Origin::kUndetermined;
    } else if (!inputs.equal && error >= 0 && error <= kGrowth * inputs.error) {
      row.origin = Origin::kInherited;
      add_note(row, "accumulated",
               "no larger than 4 times the error of its inputs, each within "
               "its bound: errors added up");
    } else {
      row.origin = Origin::kBorn;
    }
  }

  const TracePair& pair_;
  Comparison& result_;
  const Group& group_;
  const bool earlier_step_differs_;
  GroupFindings findings_;
  std::vector<OpState> states_;
  std::vector<Event> producers_;
  std::size_t next_producer_ = 0;
  Provenance provenance_;
  bool any_input_differs_ = false;
  bool output_differed_ = false;
};

}  // namespace

double error_of(const Row& row) {
  if (row.stats) {
    if (row.stats->nonfinite_mismatches > 0) {
      return std::numeric_limits<double>::infinity();
    }
    return row.stats->mismatches == 0 ? 0 : row.stats->norm_l2;
  }
  if (row.evidence != Evidence::kStatistics) return -1;
  return largest_statistics_error(row.golden.stats, row.target.stats);
}

GroupFindings localise_group(const TracePair& pair, std::uint32_t group,
                             Comparison& result, bool earlier_step_differs) {
  return Localiser(pair, group, result, earlier_step_differs).run();
}

}  // namespace assay
