// Sums and products of sizes that come from outside: nullopt where they leave
// 63 bits, instead of a wrapped number that passes the next check.
#pragma once

#include <cstdint>
#include <optional>

namespace assay {

inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

inline std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

}  // namespace assay
