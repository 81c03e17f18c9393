// One fp32 as a bf16 and the low half of its bits.
#pragma once

#include <bit>
#include <cstdint>

namespace assay {

// The remainder is the low half as a signed integer; where it is negative the
// bf16 was rounded up, and joining takes that back.
inline float join_remainder(std::uint16_t high, std::int16_t low) {
  const auto kept = static_cast<std::uint16_t>(high - (low < 0));
  return std::bit_cast<float>(static_cast<std::uint32_t>(kept) << 16 |
                              static_cast<std::uint16_t>(low));
}

inline void split_remainder(float x, std::uint16_t& high, std::int16_t& low) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  low = static_cast<std::int16_t>(bits & 0xffff);
  high = static_cast<std::uint16_t>((bits >> 16) + (low < 0));
}

}  // namespace assay
