#include "assay/conform/values_random.h"

#include <unordered_map>

namespace assay::conform {
namespace {

std::int64_t scaled(std::uint64_t bits, std::int64_t count) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(
      Wide{bits} * static_cast<std::uint64_t>(count) >> 64);
}

}  // namespace

double ElementRandom::uniform(int which) const {
  return (static_cast<double>(bits(which) >> 12) + 0.5) * 0x1p-52;
}

std::int64_t ElementRandom::below(std::int64_t count, int which) const {
  return scaled(bits(which), count);
}

std::int64_t OrderedRandom::below(std::int64_t count) {
  const std::uint64_t high = stream_.next();
  return scaled(high << 32 | stream_.next(), count);
}

// Fisher-Yates over a sequence of which only the moved elements are kept.
std::vector<std::int64_t> choose(OrderedRandom& random, std::int64_t count,
                                 std::int64_t wanted) {
  std::unordered_map<std::int64_t, std::int64_t> moved;
  const auto at = [&moved](std::int64_t place) {
    const auto found = moved.find(place);
    return found == moved.end() ? place : found->second;
  };
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < wanted; ++i) {
    const std::int64_t place = i + random.below(count - i);
    chosen.push_back(at(place));
    moved[place] = at(i);
  }
  return chosen;
}

}  // namespace assay::conform
