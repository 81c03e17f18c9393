#include "assay/compare/exchange.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace assay {
namespace {

// Lets every rank walk through its calls; a call that needs data waits until
// all who contribute have arrived at theirs.
class Simulation {
 public:
  Simulation(const std::vector<GroupFindings>& findings,
             const Exchanges& exchanges, const Comparison& result)
      : findings_(findings),
        exchanges_(exchanges),
        result_(result),
        states_(exchanges.all.size()),
        next_(findings.size(), 0),
        arrived_(findings.size(), false),
        level_(findings.size(), 0),
        levels_(findings.size()) {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      for (const CallRef& ref : exchanges.all[i].calls) {
        if (source(ref)) ++states_[i].needed;
      }
    }
  }

  std::vector<std::vector<std::int64_t>> run() {
    for (std::size_t rank = 0; rank < findings_.size(); ++rank) {
      ready_.push_back(rank);
    }
    while (true) {
      while (!ready_.empty()) {
        const std::size_t rank = ready_.back();
        ready_.pop_back();
        advance(rank);
      }
      const std::size_t stuck = first_unfinished();
      if (stuck == findings_.size()) return std::move(levels_);
      pass(stuck);
      ready_.push_back(stuck);
    }
  }

 private:
  struct State {
    std::size_t needed = 0;
    std::size_t arrived = 0;
    std::int64_t level = 0;
    std::vector<std::size_t> waiting;  // ranks
  };

  bool source(const CallRef& ref) const {
    const GroupFindings& rank = findings_[ref.rank];
    return is_source(rank.communications[ref.call],
                     result_.groups[rank.group].rank);
  }

  bool finished(std::size_t rank) const {
    return next_[rank] == findings_[rank].communications.size();
  }

  std::size_t first_unfinished() const {
    std::size_t rank = 0;
    while (rank < findings_.size() && finished(rank)) ++rank;
    return rank;
  }

  void advance(std::size_t rank) {
    while (!finished(rank)) {
      const CallRef ref{rank, next_[rank]};
      State& state = states_[exchanges_.of_call[rank][ref.call]];
      if (!arrived_[rank]) arrive(ref, state);
      const Communication& call = findings_[rank].communications[ref.call];
      const bool only_gives = !call.sources.empty() && source(ref);
      if (state.arrived < state.needed && !only_gives) {
        state.waiting.push_back(rank);
        return;
      }
      pass(rank);
    }
  }

  void arrive(const CallRef& ref, State& state) {
    arrived_[ref.rank] = true;
    if (!source(ref)) return;
    state.level = std::max(state.level, level_[ref.rank]);
    if (++state.arrived < state.needed) return;
    ready_.insert(ready_.end(), state.waiting.begin(), state.waiting.end());
    state.waiting.clear();
  }

  void pass(std::size_t rank) {
    const CallRef ref{rank, next_[rank]};
    const State& state = states_[exchanges_.of_call[rank][ref.call]];
    const Communication& call = findings_[rank].communications[ref.call];
    const bool only_gives = !call.sources.empty() && source(ref);
    if (!only_gives) level_[rank] = std::max(level_[rank], state.level);
    levels_[rank].push_back(++level_[rank]);
    ++next_[rank];
    arrived_[rank] = false;
  }

  const std::vector<GroupFindings>& findings_;
  const Exchanges& exchanges_;
  const Comparison& result_;
  std::vector<State> states_;
  std::vector<std::size_t> next_;
  std::vector<bool> arrived_;  // at its next call
  std::vector<std::int64_t> level_;
  std::vector<std::vector<std::int64_t>> levels_;
  std::vector<std::size_t> ready_;
};

}  // namespace

bool is_source(const Communication& call, std::int64_t rank) {
  return call.sources.empty() ||
         std::find(call.sources.begin(), call.sources.end(), rank) !=
             call.sources.end();
}

Exchanges join_calls(const std::vector<GroupFindings>& findings) {
  Exchanges result;
  result.of_call.resize(findings.size());
  std::map<std::pair<std::string, std::int64_t>, std::size_t> index;
  for (std::size_t rank = 0; rank < findings.size(); ++rank) {
    const auto& calls = findings[rank].communications;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto [at, is_new] = index.try_emplace(
          {calls[i].channel, calls[i].ordinal}, result.all.size());
      if (is_new) result.all.emplace_back();
      result.all[at->second].calls.push_back({rank, i});
      result.of_call[rank].push_back(at->second);
    }
  }
  return result;
}

std::vector<std::vector<std::int64_t>> call_levels(
    const std::vector<GroupFindings>& findings, const Exchanges& exchanges,
    const Comparison& result) {
  return Simulation(findings, exchanges, result).run();
}

}  // namespace assay
