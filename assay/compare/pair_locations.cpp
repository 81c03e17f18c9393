#include "assay/compare/pair_locations.h"

#include <algorithm>
#include <map>
#include <utility>

namespace assay {
namespace {

bool all_numbered(const std::vector<TraceLocation>& list) {
  return std::all_of(list.begin(), list.end(),
                     [](const TraceLocation& l) { return l.numbered; });
}

std::vector<LocationPair> pair_by_position(
    const std::vector<TraceLocation>& golden,
    const std::vector<TraceLocation>& target) {
  std::vector<LocationPair> pairs(std::max(golden.size(), target.size()));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const bool in_golden = i < golden.size();
    if (in_golden) pairs[i].golden = static_cast<std::int32_t>(i);
    if (i < target.size()) pairs[i].target = static_cast<std::int32_t>(i);
    const TraceLocation& location = in_golden ? golden[i] : target[i];
    pairs[i].step = location.step;
    pairs[i].rank = location.rank;
  }
  return pairs;
}

// Two directories may claim one step and rank: they are paired in order.
std::vector<LocationPair> pair_by_number(
    const std::vector<TraceLocation>& golden,
    const std::vector<TraceLocation>& target) {
  using Key = std::pair<std::int64_t, std::int64_t>;
  std::map<Key, std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>>
      groups;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    groups[{golden[i].step, golden[i].rank}].first.push_back(
        static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < target.size(); ++i) {
    groups[{target[i].step, target[i].rank}].second.push_back(
        static_cast<std::int32_t>(i));
  }
  std::vector<LocationPair> pairs;
  for (const auto& [key, sides] : groups) {
    const auto& [g, t] = sides;
    for (std::size_t i = 0; i < std::max(g.size(), t.size()); ++i) {
      pairs.push_back({i < g.size() ? g[i] : -1, i < t.size() ? t[i] : -1,
                       key.first, key.second});
    }
  }
  return pairs;
}

}  // namespace

std::vector<LocationPair> pair_locations(
    const std::vector<TraceLocation>& golden,
    const std::vector<TraceLocation>& target) {
  // One dump on each side: whatever they are numbered, they are meant.
  if (golden.size() == 1 && target.size() == 1) {
    return {{0, 0, golden[0].step, golden[0].rank}};
  }
  std::vector<LocationPair> pairs = all_numbered(golden) && all_numbered(target)
                                        ? pair_by_number(golden, target)
                                        : pair_by_position(golden, target);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const LocationPair& a, const LocationPair& b) {
                     return std::pair(a.step, a.rank) <
                            std::pair(b.step, b.rank);
                   });
  return pairs;
}

}  // namespace assay
