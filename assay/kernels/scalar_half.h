// One bf16 or f16 code as a number, inline and without a table: for the ends
// of vector loops and the plain kernels.
#pragma once

#include <bit>
#include <cstdint>

namespace assay {

inline float bf16_value(std::uint16_t code) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16);
}

// Moving the fields to fp32 leaves the exponent 112 too small; the product
// with 2^112 rights it, for subnormals too, and is exact.
inline float f16_value(std::uint16_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x8000) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(code & 0x7fff)
                                  << 13;
  if (magnitude >= 0x7c00u << 13)
    return std::bit_cast<float>(sign | magnitude | 0x7f800000u);
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

}  // namespace assay
