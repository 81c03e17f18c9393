// Philox4x32-10: random numbers as a pure function of a counter and a key, so
// any element of a stream can be drawn on any thread.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1,
// 2, 3", SC 2011. The same generator as cuRAND's and PyTorch's.
#pragma once

#include <array>
#include <cstdint>

namespace assay {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

namespace detail {

struct WideProduct {
  std::uint32_t high;
  std::uint32_t low;
};

constexpr WideProduct wide_multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product >> 32),
          static_cast<std::uint32_t>(product)};
}

constexpr PhiloxCounter philox_round(const PhiloxCounter& c,
                                     const PhiloxKey& key) {
  const WideProduct p0 = wide_multiply(0xd2511f53, c[0]);
  const WideProduct p1 = wide_multiply(0xcd9e8d57, c[2]);
  return {p1.high ^ c[1] ^ key[0], p1.low, p0.high ^ c[3] ^ key[1], p0.low};
}

}  // namespace detail

// Four independent, uniform 32-bit words. Ten rounds; between two of them the
// key moves on by the golden ratio and by sqrt(3) - 1.
constexpr std::array<std::uint32_t, 4> philox4x32(PhiloxCounter counter,
                                                  PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    counter = detail::philox_round(counter, key);
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
  return counter;
}

// Uniform in [0, 1), one of 2^32 equally spaced values; exact in double.
constexpr double uniform_double(std::uint32_t word) {
  return static_cast<double>(word) * 0x1p-32;
}

// A stream of words for test data and sampling: counter {n, 0, subsequence},
// n = 0, 1, 2 ... under the key `seed`, as cuRAND lays them out. The same
// seed and subsequence give the same words everywhere. Not thread-safe: one
// stream per thread, told apart by the subsequence.
class PhiloxStream {
 public:
  explicit PhiloxStream(std::uint64_t seed, std::uint64_t subsequence = 0);

  std::uint32_t next();
  double next_uniform() { return uniform_double(next()); }  // [0, 1)
  // Standard normal by Box-Muller; consumes two words.
  double next_normal();
  // Goes to the word with this position, so that a draw can be repeated.
  void seek(std::uint64_t position);

 private:
  void refill();
  PhiloxKey key_;
  std::uint64_t subsequence_;
  std::uint64_t block_ = 0;  // the next block of four words
  PhiloxCounter words_{};
  int used_ = 4;
};

}  // namespace assay
