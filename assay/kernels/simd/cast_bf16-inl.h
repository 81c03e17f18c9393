// The AVX-512 loop from bf16 to an 8-bit format: 64 elements a turn.
// A part of cast.cpp and block_quant.cpp, after cast_fp8-inl.h: no guard, no
// includes.
//
// The same codes as Fp8::encode with fewer steps: the two bf16 of a 32-bit
// word widen without a shuffle, signs travel as a mask and join at the end,
// and a turn with a NaN among its products is left to the caller.

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <DType kFormat>
struct EncodeBf16 {
  using F = Fp8<kFormat>;

  // The factors of 64 elements, those of a word's halves apart.
  struct Factors {
    VF even[2], odd[2];

    static HWY_INLINE Factors same(float factor) {
      const VF f = hn::Set(DF(), factor);
      return {{f, f}, {f, f}};
    }
    static HWY_INLINE Factors each(const float* f) {
      const DF df;
      Factors out;
      for (int i = 0; i < 2; ++i, f += 32) {
        const VF a = hn::LoadU(df, f), b = hn::LoadU(df, f + 16);
        out.even[i] = hn::ConcatEven(df, b, a);
        out.odd[i] = hn::ConcatOdd(df, b, a);
      }
      return out;
    }
  };

  // Codes of the even elements in bits 0-7, of the odd ones in bits 8-15 of
  // every word of `w`; true in `nan` where a product is NaN.
  static HWY_INLINE VU pair(VU w, VF even_factor, VF odd_factor,
                            __mmask16& nan) {
    const DF df;
    const DU du;
    const VU even = hn::And(hn::ShiftLeft<16>(w), hn::Set(du, 0x7fffffffu));
    const VU odd = hn::And(w, hn::Set(du, 0x7fff0000u));
    const VF a = hn::Mul(hn::BitCast(df, even), even_factor);
    const VF b = hn::Mul(hn::BitCast(df, odd), odd_factor);
    nan = _mm512_cmp_ps_mask(a.raw, b.raw, _CMP_UNORD_Q);
    return hn::IfVecThenElse(hn::Set(du, 0xff), F::magnitude_code(a),
                             hn::ShiftLeft<8>(F::magnitude_code(b)));
  }

  // The low halves of the words of a, then of b.
  static HWY_INLINE __m512i low_halves(VU a, VU b) {
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm512_cvtepi32_epi16(a.raw)),
        _mm512_cvtepi32_epi16(b.raw), 1);
  }

  static HWY_INLINE __m512i with_signs(__m512i codes, __mmask64 negative) {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
    if constexpr (F::kFnuz)  // zero has no sign
      negative &= _mm512_test_epi8_mask(codes, codes);
    return _mm512_mask_add_epi8(codes, negative, codes, sign);
  }

  // 64 codes; false, and nothing written, where a product is a NaN.
  static HWY_INLINE bool turn(const std::uint16_t* x, const Factors& f,
                              std::uint8_t* out) {
    const DU du;
    const auto* words = reinterpret_cast<const std::uint32_t*>(x);
    const VU w0 = hn::LoadU(du, words), w1 = hn::LoadU(du, words + 16);
    __mmask16 nan0, nan1;
    const VU c0 = pair(w0, f.even[0], f.odd[0], nan0);
    const VU c1 = pair(w1, f.even[1], f.odd[1], nan1);
    if (HWY_UNLIKELY((nan0 | nan1) != 0)) return false;
    const __mmask64 negative = _mm512_kunpackd(_mm512_movepi16_mask(w1.raw),
                                               _mm512_movepi16_mask(w0.raw));
    _mm512_storeu_si512(out, with_signs(low_halves(c0, c1), negative));
    return true;
  }

  // Whole turns of x[0 .. n); elements done. `factor` is >= 0 and no NaN.
  // Stops in front of a NaN.
  static HWY_INLINE std::int64_t run(const std::uint16_t* x, std::int64_t n,
                                     float factor, std::uint8_t* out) {
    const Factors factors = Factors::same(factor);
    std::int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
      ask_ahead(x + i, 64);
      ask_ahead(out + i, 64);
      if (!turn(x + i, factors, out + i)) break;
    }
    return i;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#endif
