#include "assay/compare/rank_order.h"

#include <algorithm>
#include <tuple>

#include "assay/compare/exchange.h"

namespace assay {
namespace {

// What the other ranks contributed to a call.
struct Contribution {
  bool differs = false;
  bool unknown = false;
};

class RankSearch {
 public:
  RankSearch(const std::vector<GroupFindings>& findings, Comparison& result)
      : findings_(findings),
        result_(result),
        exchanges_(join_calls(findings)) {}

  void run() {
    for (std::size_t rank = 0; rank < findings_.size(); ++rank) {
      correct(rank);
    }
  }

 private:
  std::int64_t number(std::size_t rank) const {
    return result_.groups[findings_[rank].group].rank;
  }

  // Calls of one operator (a batch of sends and receives) count together.
  void correct(std::size_t rank) {
    const auto& calls = findings_[rank].communications;
    for (std::size_t i = 0; i < calls.size();) {
      Contribution all;
      const std::uint32_t op = calls[i].op;
      for (; i < calls.size() && calls[i].op == op; ++i) {
        const Contribution one = contribution(rank, i);
        all.differs = all.differs || one.differs;
        all.unknown = all.unknown || one.unknown;
      }
      relabel(findings_[rank].group, op, all);
    }
  }

  Contribution contribution(std::size_t rank, std::size_t index) const {
    const Communication& call = findings_[rank].communications[index];
    const Exchange& exchange = exchanges_.all[exchanges_.of_call[rank][index]];
    Contribution result;
    std::vector<std::int64_t> present;
    for (const CallRef& ref : exchange.calls) {
      if (!is_source(call, number(ref.rank))) continue;
      present.push_back(number(ref.rank));
      const Communication& other = findings_[ref.rank].communications[ref.call];
      result.unknown = result.unknown || other.input_unknown;
      if (ref.rank != rank) {
        result.differs = result.differs || other.input_differs;
      }
    }
    result.unknown = result.unknown || present.size() < expected(call);
    return result;
  }

  // How many ranks contribute. A call on the default group names no members:
  // all ranks of the step, of which there are at least two.
  std::size_t expected(const Communication& call) const {
    if (!call.sources.empty()) return call.sources.size();
    if (!call.members.empty()) return call.members.size();
    return std::max<std::size_t>(findings_.size(), 2);
  }

  void relabel(std::uint32_t group, std::uint32_t op,
               const Contribution& others) {
    const OpRow& rows = result_.groups[group].ops[op];
    for (std::uint32_t i = 0; i < rows.row_count; ++i) {
      Row& row = result_.rows[rows.first_row + i];
      if (row.role != Role::kOutput || (row.origin != Origin::kBorn &&
                                        row.origin != Origin::kUndetermined)) {
        continue;
      }
      row.origin = others.differs   ? Origin::kInherited
                   : others.unknown ? Origin::kUndetermined
                                    : Origin::kBorn;
    }
  }

  const std::vector<GroupFindings>& findings_;
  Comparison& result_;
  Exchanges exchanges_;
};

// Where a mismatch stands in the step; the smallest comes first.
using Place = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Place place_of(const GroupFindings& rank,
               const std::vector<std::int64_t>& levels, const Event& event,
               std::int64_t rank_number) {
  Place place{0, event.time, rank_number};
  for (std::size_t i = 0; i < rank.communications.size(); ++i) {
    const auto op = static_cast<std::int64_t>(rank.communications[i].op);
    if (op > event.time || (op == event.time && event.order < 2)) break;
    place = {levels[i], event.time - op, rank_number};
  }
  return place;
}

bool is_consequence(const Row& row) { return row.origin == Origin::kInherited; }

}  // namespace

void find_across_ranks(const std::vector<GroupFindings>& findings,
                       Comparison& result) {
  RankSearch(findings, result).run();
}

std::optional<std::size_t> first_mismatch(
    const std::vector<GroupFindings>& findings, const Comparison& result) {
  const auto levels = call_levels(findings, join_calls(findings), result);
  std::optional<std::tuple<bool, Place>> best;
  std::optional<std::size_t> first;
  for (std::size_t rank = 0; rank < findings.size(); ++rank) {
    const auto& events = findings[rank].mismatches;
    if (events.empty()) continue;
    auto at = std::find_if(events.begin(), events.end(), [&](const Event& e) {
      return !is_consequence(result.rows[e.row]);
    });
    if (at == events.end()) at = events.begin();
    const std::tuple key(is_consequence(result.rows[at->row]),
                         place_of(findings[rank], levels[rank], *at,
                                  result.groups[findings[rank].group].rank));
    if (!best || key < *best) {
      best = key;
      first = at->row;
    }
  }
  return first;
}

}  // namespace assay
