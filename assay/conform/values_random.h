// Random numbers for inputs: by element, or as a stream for what has to be
// drawn in order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/conform/values.h"
#include "assay/core/philox.h"
#include "assay/numerics/element.h"

namespace assay::conform {

// The two 64-bit draws of one element.
class ElementRandom {
 public:
  ElementRandom(std::uint64_t key, std::int64_t index)
      : words_(philox4x32({low(index), high(index), 0, 0},
                          {low(static_cast<std::int64_t>(key)),
                           high(static_cast<std::int64_t>(key))})) {}

  std::uint64_t bits(int which) const {
    return std::uint64_t{words_[2 * which]} << 32 | words_[2 * which + 1];
  }
  // In (0, 1), never an end: one of 2^52 centres of equal intervals.
  double uniform(int which = 0) const;
  // In [0, count), count > 0; the bias is below count / 2^64.
  std::int64_t below(std::int64_t count, int which = 0) const;

 private:
  static std::uint32_t low(std::int64_t x) {
    return static_cast<std::uint32_t>(x);
  }
  static std::uint32_t high(std::int64_t x) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(x) >> 32);
  }
  std::array<std::uint32_t, 4> words_;
};

// Independent of ElementRandom under the same key.
class OrderedRandom {
 public:
  explicit OrderedRandom(const Draw& draw) : stream_(draw.key, 1) {}
  std::int64_t below(std::int64_t count);  // in [0, count), count > 0

 private:
  PhiloxStream stream_;
};

// `wanted` different integers of [0, count) in random order, wanted <= count;
// memory for those alone.
std::vector<std::int64_t> choose(OrderedRandom& random, std::int64_t count,
                                 std::int64_t wanted);

// Stores value(ElementRandom) in every element, on all threads.
template <typename F>
void fill_elements(const Draw& draw, F value) {
  constexpr std::int64_t kBlock = 1 << 14;  // even: two e2m1 share a byte
  // Components of complex dtypes are drawn one by one.
  const std::int64_t count = draw.numel * (is_complex(draw.dtype) ? 2 : 1);
  parallel_for((count + kBlock - 1) / kBlock, [&](std::int64_t block) {
    const std::int64_t end = std::min(count, (block + 1) * kBlock);
    for (std::int64_t i = block * kBlock; i < end; ++i)
      store_from_double(draw.dtype, value(ElementRandom(draw.key, i)),
                        draw.data, i);
  });
}

}  // namespace assay::conform
