// Zeros and ones: how many, where, and whether they come again.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "assay/metrics/distribution.h"
#include "assay/precheck/random/tests.h"

namespace assay::precheck {
namespace {

// With at least 50 of the rarer kind expected in each, chi-square's tail holds.
constexpr double kPerBlock = 50;
constexpr std::int64_t kMostBlocks = 256;
// Two equal windows have chance 2^-34 among all pairs of them.
constexpr double kWindowBits = 34;

using Codes = std::vector<std::uint64_t>;

void test_blocks(Findings& findings, const std::vector<std::uint8_t>& coins,
                 double p) {
  const auto n = static_cast<std::int64_t>(coins.size());
  const auto fitting = static_cast<std::int64_t>(
      static_cast<double>(n) * std::min(p, 1 - p) / kPerBlock);
  const std::int64_t blocks = std::min(kMostBlocks, fitting);
  if (blocks < 2) return;
  double sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t begin = n * b / blocks, end = n * (b + 1) / blocks;
    std::int64_t ones = 0;
    for (std::int64_t i = begin; i < end; ++i)
      ones += coins[static_cast<std::size_t>(i)];
    const auto size = static_cast<double>(end - begin);
    const double off = static_cast<double>(ones) - size * p;
    sum += off * off / (size * p * (1 - p));
  }
  findings.test(
      chi_square_p(sum, static_cast<double>(blocks)), "blocks",
      fmt::format("chi-square {:.5g} of {} equal blocks", sum, blocks));
}

// A polynomial hash of the last `window` codes, which rolls.
class Rolling {
 public:
  explicit Rolling(std::int64_t window) {
    for (std::int64_t i = 0; i < window; ++i) leaving_ *= kBase;
  }
  void push(std::uint64_t code) { hash_ = hash_ * kBase + mixed(code); }
  void drop(std::uint64_t code) { hash_ -= leaving_ * mixed(code); }
  std::uint64_t hash() const { return hash_; }

 private:
  static constexpr std::uint64_t kBase = 0x9e3779b97f4a7c15;
  static std::uint64_t mixed(std::uint64_t code) {
    code = (code + 1) * 0xbf58476d1ce4e5b9;
    return code ^ code >> 29;
  }
  std::uint64_t hash_ = 0, leaving_ = 1;
};

struct Repeat {
  std::int64_t first = -1, second = -1;
};

// The first window that equals one of those that begin at multiples of the
// window's length before it.
Repeat find_repeat(const Codes& codes, std::int64_t window) {
  const auto n = static_cast<std::int64_t>(codes.size());
  const auto begin = codes.begin();
  std::unordered_map<std::uint64_t, std::int64_t> anchors;
  // Which hashes may be there: one in sixteen slots at most is taken.
  std::vector<bool> maybe(
      std::bit_ceil(static_cast<std::size_t>(n / window + 1) * 16));
  Rolling rolling(window);
  for (std::int64_t i = 0; i < n; ++i) {
    rolling.push(codes[static_cast<std::size_t>(i)]);
    if (i >= window) rolling.drop(codes[static_cast<std::size_t>(i - window)]);
    const std::int64_t from = i + 1 - window;
    if (from < 0) continue;
    const std::size_t slot = (rolling.hash() >> 40) % maybe.size();
    if (maybe[slot]) {
      const auto found = anchors.find(rolling.hash());
      // Windows that overlap are equal more often than the chance says.
      if (found != anchors.end() && found->second + window <= from &&
          std::equal(begin + from, begin + i + 1, begin + found->second))
        return {found->second, from};
    }
    if (from % window) continue;
    anchors.emplace(rolling.hash(), from);
    maybe[slot] = true;
  }
  return {};
}

}  // namespace

double collision_chance(const Codes& codes) {
  constexpr std::size_t kSample = 1 << 16;
  Codes some(codes.begin(),
             codes.begin() +
                 static_cast<std::ptrdiff_t>(std::min(kSample, codes.size())));
  std::sort(some.begin(), some.end());
  double pairs = 1;  // none seen: no more than about one
  for (std::size_t i = 0, run = 0; i < some.size(); ++i) {
    run = i > 0 && some[i] == some[i - 1] ? run + 1 : 0;
    pairs += static_cast<double>(run);
  }
  const auto n = static_cast<double>(some.size());
  return std::min(1.0, pairs / std::max(1.0, n * (n - 1) / 2));
}

void test_repeats(Findings& findings, const Codes& codes, double collision) {
  const auto n = static_cast<double>(codes.size());
  const double bits = -std::log2(collision);
  if (bits < 0.01 || n < 2) return;  // as good as constant
  const double needed = std::ceil((2 * std::log2(n) + kWindowBits) / bits);
  if (needed > n / 2) return;
  const auto window = static_cast<std::int64_t>(needed);
  const Repeat found = find_repeat(codes, window);
  findings.require(found.first < 0, "repeats",
                   fmt::format("the {} draws from {} come again from {}",
                               window, found.first, found.second),
                   found.second);
}

void test_coins(Findings& findings, const std::vector<std::uint8_t>& coins,
                double p, const std::string& what) {
  if (coins.empty()) return;
  const auto n = static_cast<std::int64_t>(coins.size());
  std::int64_t ones = 0;
  for (const std::uint8_t coin : coins) ones += coin;
  findings.test(binomial_p(ones, n, p), "share",
                fmt::format("{} of {} {}, expected {:.1f}", ones, n, what,
                            static_cast<double>(n) * p));
  test_blocks(findings, coins, p);
  test_repeats(findings, Codes(coins.begin(), coins.end()),
               p * p + (1 - p) * (1 - p));
}

}  // namespace assay::precheck
