// The two levels of NVFP4 scales: a global one from the tensor's amax, and an
// E4M3 one for each block of 16; and its stochastic rounding.
//
// Source: NVIDIA TransformerEngine, section NVFP4BlockScaling; where its
// kernel and its host reference disagree this is the kernel. All arithmetic is
// fp32, every operation rounded by itself. Pure and thread-safe.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "assay/numerics/float_format.h"

namespace assay {

inline constexpr int kNvfp4Block = 16;
inline constexpr float kFloatMax = std::numeric_limits<float>::max();

// fmin and fmax of C: the other operand where one is NaN.
constexpr float min_number(float a, float b) {
  if (is_nan(a)) return b;
  return b < a ? b : a;
}
constexpr float max_number(float a, float b) {
  if (is_nan(a)) return b;
  return b > a ? b : a;
}

// What a tensor's amax A fixes. scale_max is the largest block scale that the
// global scale was made for: 448, or 256 under some 4-over-6 recipes.
struct Nvfp4Global {
  float scale_max = 448.0f;
  float encode = 1.0f;        // S_enc = min(rn(6 scale_max / A), FLT_MAX)
  float encode_sixth = 1.0f;  // S_enc * fp32(1/6)
  float decode = 1.0f;        // S_dec = rn(1 / S_enc)
};

// S_enc is 1 where A is 0 or infinite, FLT_MAX where A is NaN.
constexpr Nvfp4Global nvfp4_global(float amax, float scale_max = 448.0f) {
  Nvfp4Global g{.scale_max = scale_max};
  const float quotient =
      amax == 0 ? 0.0f : min_number(6.0f * scale_max / amax, kFloatMax);
  g.encode = quotient == 0 ? 1.0f : quotient;
  g.encode_sixth = g.encode * (1.0f / 6.0f);
  g.decode = 1.0f / g.encode;
  return g;
}

constexpr std::uint8_t e4m3_code(float x) {
  return static_cast<std::uint8_t>(encode_float(DType::kE4M3FN, x));
}
constexpr float e4m3_value(std::uint8_t code) {
  return static_cast<float>(decode_float(DType::kE4M3FN, code));
}

// E4M3 code of the decode scale of a block with this amax:
// rn_sat(min(b * (S_enc * 1/6), FLT_MAX)). It underflows to 0 where the block
// is some 2^-19 of the tensor's amax or less.
constexpr std::uint8_t nvfp4_scale_code(float block_amax,
                                        const Nvfp4Global& g) {
  return e4m3_code(min_number(block_amax * g.encode_sixth, kFloatMax));
}

// What a block's elements are multiplied by: min(rn(1 / (sd * S_dec)),
// FLT_MAX). FLT_MAX for scale 0: a block whose scale underflowed saturates to
// +-6, which decodes to 0 (the host reference writes codes of 0 there).
constexpr float nvfp4_factor(std::uint8_t scale_code, const Nvfp4Global& g) {
  const float product = e4m3_value(scale_code) * g.decode;
  if (product == 0) return kFloatMax;
  return min_number(1.0f / product, kFloatMax);
}

// Scales of the two candidates of 4-over-6: the block's amax to become 6, or 4.
// It divides by 6 first, unlike nvfp4_scale_code.
struct FourOverSixScales {
  std::uint8_t map6, map4;
};
constexpr FourOverSixScales four_over_six_scales(float block_amax,
                                                 const Nvfp4Global& g) {
  const float base = block_amax / 6.0f * g.encode;
  return {e4m3_code(min_number(base, 448.0f)),
          e4m3_code(min_number(1.5f * base, 448.0f))};
}

// What a block's codes are multiplied by: (sd * A) * fp32(1 / (6 scale_max)).
// Infinite for A above FLT_MAX / 448, in TransformerEngine too.
constexpr float nvfp4_decode_scale(std::uint8_t scale_code, float amax,
                                   float scale_max = 448.0f) {
  return e4m3_value(scale_code) * amax * (1.0f / (6.0f * scale_max));
}

// Nearest, ties to even, saturating; -0 is 8, NaN is 7 (+6).
constexpr std::uint8_t e2m1_code(float x) {
  return static_cast<std::uint8_t>(encode_float(DType::kE2M1, x));
}

// Stochastic rounding to E2M1 with one random byte: with step the distance of
// grid points at |x| (0.5 below 2, 1 below 4, 2 below 6) the largest grid
// point not above |x| + step * byte / 256. Saturates at 6; NaN is 7 (+6).
constexpr std::uint8_t e2m1_code_stochastic(float x, std::uint8_t byte) {
  if (is_nan(x)) return 7;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
  const float step = magnitude < 2 ? 0.5f : magnitude < 4 ? 1.0f : 2.0f;
  const float z = magnitude + step * (static_cast<float>(byte) / 256.0f);
  constexpr float kGrid[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  int code = 0;
  while (code < 7 && z >= kGrid[code + 1]) ++code;
  return static_cast<std::uint8_t>(code | (bits >> 28 & 8));
}

}  // namespace assay
