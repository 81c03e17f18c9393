// The bits that elements of a random array own: what random_fill.h lays down,
// part by part.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "assay/base/parallel.h"
#include "assay/kernels/random_fill.h"
#include "assay/kernels/random_kernels.h"

namespace assay::random_bits {

inline constexpr std::int64_t kPart = kRandomPart;

using Bits = std::array<std::uint64_t, kPart>;

// The 64 bits of elements [begin, begin + kPart); begin is even.
void draw(const RandomKey& key, std::int64_t begin, Bits& bits);

// Of numbers below 2^63, where the signed conversion is the cheap one.
constexpr double as_double(std::uint64_t x) {
  return static_cast<double>(static_cast<std::int64_t>(x));
}

// In [0, 1): one of 2^53 equally spaced values.
constexpr double unit(std::uint64_t bits) {
  return as_double(bits >> 11) * 0x1p-53;
}

// In (0, 1): the centre of one of 2^52 equal intervals.
constexpr double centre(std::uint64_t bits) {
  return (as_double(bits >> 12) + 0.5) * 0x1p-52;
}

// body(begin, count, bits) for parts of [0, n) of at most kPart elements, on
// all threads.
template <typename F>
void for_parts(const RandomKey& key, std::int64_t n, F body) {
  constexpr std::int64_t kBlock = 64 * kPart;  // enough work for a thread
  parallel_for((n + kBlock - 1) / kBlock, [&](std::int64_t block) {
    Bits bits;
    const std::int64_t end = std::min(n, (block + 1) * kBlock);
    for (std::int64_t i = block * kBlock; i < end; i += kPart) {
      draw(key, i, bits);
      body(i, std::min(kPart, end - i), bits);
    }
  });
}

// floor((2^64 high + low) count / 2^128), count = 0 standing for 2^64. `high`
// and `low` are a whole block: the bits of elements 2 i and 2 i + 1.
std::uint64_t below(std::uint64_t high, std::uint64_t low, std::uint64_t count);

}  // namespace assay::random_bits
