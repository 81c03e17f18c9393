// The power-of-two scale of an MXFP8 block: from the block's largest magnitude
// to the E8M0 code, to the factor that quantising and the one that decoding
// multiplies by.
//
// Source: OCP Microscaling Formats 1.0 with the round-up exponent of NVIDIA
// TransformerEngine (section MXFP8BlockScaling). Pure and thread-safe.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "assay/numerics/float_format.h"

namespace assay {

inline constexpr int kMxBlock = 32;

// fp32(1 / 448) for E4M3, fp32(1 / 57344) for E5M2.
constexpr float mx_inverse_max(DType format) {
  return static_cast<float>(1.0 / max_finite(format));
}

// E8M0 code of a block with this amax: one fp32 product with 1 / max, rounded
// up to a power of two, so that no finite element saturates by more than the
// rounding at the very top. Zero: 0. Infinity: 0xfe, as TransformerEngine's
// kernel has it (its Python reference: 0xff). NaN: 0xff.
constexpr std::uint8_t mx_scale_code(float amax, DType format) {
  return encode_e8m0(amax * mx_inverse_max(format), ScaleRounding::kUp);
}

// 2^(127 - code): what elements are multiplied by. Code 254 gives 2^-127, a
// subnormal; 255 gives NaN.
constexpr float mx_factor(std::uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  if (code == 254) return std::bit_cast<float>(0x00400000u);
  return std::bit_cast<float>(static_cast<std::uint32_t>(254 - code) << 23);
}

// 2^(code - 127): what codes are multiplied by. Code 0 gives 2^-127, which a
// build that flushes subnormals would lose; 255 gives NaN.
constexpr float mx_scale(std::uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return std::bit_cast<float>(0x00400000u);
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

}  // namespace assay
