// 32 codes at a time to bf16, in AVX-512. For gemm_bf16_pack.cpp, which sets
// the target.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace assay {

// Codes of 8 bits, zero-extended to 16, become bf16. The fields of a normal
// number move up and get the larger bias; the few subnormals come from a
// table.
struct DecodeE4M3 {
  static constexpr int kMinExponent = -9, kMaxExponent = 8;
  static __m512i run(__m512i code) {
    const __m512i magnitude = _mm512_and_si512(code, _mm512_set1_epi16(0x7f));
    __m512i out = _mm512_add_epi16(_mm512_slli_epi16(magnitude, 4),
                                   _mm512_set1_epi16(120 << 7));
    const __mmask32 small =
        _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(8));
    // 0 to 7 times 2^-9.
    const __m512i table = _mm512_castsi128_si512(_mm_setr_epi16(
        0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
    out = _mm512_mask_permutexvar_epi16(out, small, magnitude, table);
    const __mmask32 nan =
        _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(0x7f));
    out = _mm512_mask_mov_epi16(out, nan, _mm512_set1_epi16(0x7fc0));
    return with_sign(out, code);
  }
  static __m512i with_sign(__m512i magnitude, __m512i code) {
    const __m512i sign = _mm512_and_si512(code, _mm512_set1_epi16(0x80));
    return _mm512_or_si512(magnitude, _mm512_slli_epi16(sign, 8));
  }
};

struct DecodeE5M2 {
  static constexpr int kMinExponent = -16, kMaxExponent = 15;
  static __m512i run(__m512i code) {
    const __m512i magnitude = _mm512_and_si512(code, _mm512_set1_epi16(0x7f));
    const __m512i moved = _mm512_slli_epi16(magnitude, 5);
    __m512i out = _mm512_add_epi16(moved, _mm512_set1_epi16(112 << 7));
    const __mmask32 small =
        _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(4));
    // 0 to 3 times 2^-16.
    const __m512i table = _mm512_castsi128_si512(
        _mm_setr_epi16(0, 0x3780, 0x3800, 0x3840, 0, 0, 0, 0));
    out = _mm512_mask_permutexvar_epi16(out, small, magnitude, table);
    const __mmask32 special =
        _mm512_cmpge_epu16_mask(magnitude, _mm512_set1_epi16(0x7c));
    out = with_special(out, special, moved);
    return DecodeE4M3::with_sign(out, code);
  }
  // Infinity and NaN keep their mantissa under an exponent of all ones.
  static __m512i with_special(__m512i out, __mmask32 mask, __m512i moved) {
    return _mm512_mask_mov_epi16(
        out, mask, _mm512_or_si512(moved, _mm512_set1_epi16(0x7f80)));
  }
};

}  // namespace assay
