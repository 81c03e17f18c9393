// Floats as integers in the order in which experts are preferred.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace assay {

// Below every key: a score that is taken, or none.
inline constexpr std::int32_t kNoScore =
    std::numeric_limits<std::int32_t>::min();
inline constexpr std::int32_t kNanScore = kNoScore + 1;  // below -inf

// Ascending with x; -0 as +0.
inline std::int32_t score_key(float x) {
  if (x != x) return kNanScore;
  const auto bits = std::bit_cast<std::int32_t>(x + 0.0f);
  return bits < 0 ? bits ^ std::numeric_limits<std::int32_t>::max() : bits;
}

}  // namespace assay
