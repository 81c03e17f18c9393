// fp32 to the codes of one 8-bit float format and back, lane by lane.
// A part of cast.cpp, after cast_row-inl.h: no guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <DType kFormat>
struct Fp8 {
  static constexpr const DTypeTraits& kTraits = traits(kFormat);
  static constexpr bool kFnuz = kTraits.specials == Specials::kFnuz;
  static constexpr int kMantissa = kTraits.mantissa_bits;
  // Exponent field of fp32 for the smallest normal value of the format.
  static constexpr std::uint32_t kMinField =
      static_cast<std::uint32_t>(128 - kTraits.bias);
  static constexpr std::uint32_t kLargest = std::bit_cast<std::uint32_t>(
      static_cast<float>(decode_float(kFormat, max_finite_code(kFormat))));
  static constexpr std::uint32_t kNan =
      static_cast<std::uint32_t>(nan_code(kFormat));

  // The code in the low byte of each lane; the bytes above are undefined.
  //
  // Adding 2^(e + 23 - mantissa), e the exponent of |v| but at least the
  // smallest of the format, leaves |v| in units of its last place, rounded to
  // nearest even by the addition, in the low bits of the sum. The exponent
  // joins by integer addition. Its offset rides in the low bits of the addend:
  // it is even, so ties stay where they are.
  static HWY_INLINE VU encode(VF v) {
    const DF df;
    const DU du;
    constexpr int kShift = 23 - kMantissa;
    constexpr std::uint32_t kOffset =
        (256 - (kMinField << kMantissa) % 256) % 256;
    constexpr std::uint32_t kAddend =
        (static_cast<std::uint32_t>(kShift) << 23) + kOffset;
    static_assert(kOffset % 2 == 0);
    const VU bits = hn::BitCast(du, v);
    const VU magnitude =
        hn::Min(hn::And(bits, hn::Set(du, 0x7fffffff)), hn::Set(du, kLargest));
    const VU field = hn::Max(hn::And(magnitude, hn::Set(du, 0x7f800000)),
                             hn::Set(du, kMinField << 23));
    const VF addend = hn::BitCast(df, hn::Add(field, hn::Set(du, kAddend)));
    const VU sum = hn::BitCast(du, hn::Add(hn::BitCast(df, magnitude), addend));
    const VU code = hn::Add(sum, hn::ShiftRight<kShift>(field));
    return finish(v, code, hn::ShiftRight<24>(bits));
  }

  static HWY_INLINE VU finish(VF v, VU code, VU sign) {
    const DU du;
    VU full = hn::OrAnd(code, sign, hn::Set(du, 0x80));
    if constexpr (kFnuz) {  // zero has no sign
      const VU seven = hn::And(code, hn::Set(du, 0x7f));
      full = hn::IfThenElse(hn::Eq(seven, hn::Zero(du)), seven, full);
    }
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    return hn::IfThenElse(nan, hn::Set(du, kNan), full);
  }

  // The values of codes (one a lane, upper bytes zero), exact; a NaN of any
  // payload for a NaN code.
  static HWY_INLINE VF decode(VU code) {
    const DF df;
    const DU du;
    constexpr int kShift = 23 - kMantissa;
    constexpr std::uint32_t kBase = (kMinField - 1) << 23;
    const VU magnitude = hn::And(code, hn::Set(du, 0x7f));
    const VU fields = hn::ShiftLeft<kShift>(magnitude);
    const VU normal = hn::Add(fields, hn::Set(du, kBase));
    // Below the smallest normal value: the same with the leading one made
    // explicit and taken off again, which is exact.
    const VF one = hn::BitCast(df, hn::Set(du, kMinField << 23));
    const VU shifted = hn::Add(fields, hn::Set(du, kMinField << 23));
    const VU low = hn::BitCast(du, hn::Sub(hn::BitCast(df, shifted), one));
    const auto is_low =
        hn::Lt(hn::BitCast(DI(), magnitude), hn::Set(DI(), 1 << kMantissa));
    VU value = hn::IfThenElse(hn::RebindMask(du, is_low), low, normal);
    value = with_specials(code, magnitude, value);
    const VU sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(du, 0x80)));
    return hn::BitCast(df, hn::Or(value, sign));
  }

  static HWY_INLINE VU with_specials(VU code, VU magnitude, VU value) {
    const DU du;
    const VU nan = hn::Set(du, 0x7fc00000);
    if constexpr (kFnuz) {
      const VU only = hn::Set(du, kNan);
      return hn::IfThenElse(hn::Eq(code, only), nan, value);
    } else if constexpr (kTraits.specials == Specials::kFn) {
      const VU only = hn::Set(du, kNan);
      return hn::IfThenElse(hn::Eq(magnitude, only), nan, value);
    } else {
      // All-ones exponent there becomes all-ones here; the mantissa stays.
      constexpr int kFirst = static_cast<int>(max_finite_code(kFormat)) + 1;
      const auto special =
          hn::Gt(hn::BitCast(DI(), magnitude), hn::Set(DI(), kFirst - 1));
      const VU ones = hn::Or(value, hn::Set(du, 0x7f800000));
      return hn::IfThenElse(hn::RebindMask(du, special), ones, value);
    }
  }
};

// The kernels of one pair of dtypes.
template <typename Row, DType kFormat>
struct Convert {
  using T = typename Row::T;
  using F = Fp8<kFormat>;

  // Factors: `at(i)` is the vector of factors of the elements from i on.
  // kLong: rows with one factor may be long and are read from memory; those
  // with a factor for each element are pieces of tiles, already in a cache.
  struct One {
    static constexpr bool kLong = true;
    VF factor;
    HWY_INLINE VF at(std::int64_t) const { return factor; }
  };
  struct Each {
    static constexpr bool kLong = false;
    const float* factors;
    HWY_INLINE VF at(std::int64_t i) const {
      return hn::LoadU(DF(), factors + i);
    }
  };

  template <typename Factors>
  static HWY_INLINE void encode_step(const T* x, Factors factors,
                                     std::int64_t i, std::uint8_t* out) {
    store_bytes(F::encode(hn::Mul(Row::load(x), factors.at(i))), out);
  }
  template <typename Factors>
  static HWY_INLINE void decode_step(const std::uint8_t* codes, Factors factors,
                                     std::int64_t i, T* out) {
    const VU wide = hn::PromoteTo(DU(), hn::LoadU(D8(), codes));
    Row::store(quiet(hn::Mul(F::decode(wide), factors.at(i))), out);
  }

  template <typename Factors>
  static HWY_INLINE std::int64_t encode_row(const T* x, std::int64_t n,
                                            Factors factors,
                                            std::uint8_t* out) {
    std::int64_t i = 0;
    const std::int64_t step = lanes();
    for (; i + 4 * step <= n; i += 4 * step) {
      if constexpr (Factors::kLong) {
        ask_ahead(x + i, 4 * step);
        ask_ahead(out + i, 4 * step);
      }
      encode_step(x + i, factors, i, out + i);
      encode_step(x + i + step, factors, i + step, out + i + step);
      encode_step(x + i + 2 * step, factors, i + 2 * step, out + i + 2 * step);
      encode_step(x + i + 3 * step, factors, i + 3 * step, out + i + 3 * step);
    }
    for (; i + step <= n; i += step) encode_step(x + i, factors, i, out + i);
    return i;
  }
  template <typename Factors>
  static HWY_INLINE std::int64_t decode_row(const std::uint8_t* codes,
                                            std::int64_t n, Factors factors,
                                            T* out) {
    std::int64_t i = 0;
    const std::int64_t step = lanes();
    for (; i + 4 * step <= n; i += 4 * step) {
      ask_ahead(codes + i, 4 * step);
      ask_ahead(out + i, 4 * step);
      for (std::int64_t j = i; j < i + 4 * step; j += step)
        decode_step(codes + j, factors, j, out + j);
    }
    for (; i + step <= n; i += step)
      decode_step(codes + i, factors, i, out + i);
    return i;
  }

  // The ends of rows: through full vectors of their own.
  template <typename Factors>
  static HWY_INLINE void encode_rest(const T* x, std::int64_t count,
                                     Factors factors, std::uint8_t* out) {
    T rest[16] = {};
    std::uint8_t codes[16];
    std::copy(x, x + count, rest);
    encode_step(rest, factors, 0, codes);
    std::copy(codes, codes + count, out);
  }
  template <typename Factors>
  static HWY_INLINE void decode_rest(const std::uint8_t* codes,
                                     std::int64_t count, Factors factors,
                                     T* out) {
    std::uint8_t rest[16] = {};
    T values[16];
    std::copy(codes, codes + count, rest);
    decode_step(rest, factors, 0, values);
    std::copy(values, values + count, out);
  }

  static void cast(const T* x, std::int64_t n, float factor,
                   std::uint8_t* out) {
    const One factors{hn::Set(DF(), factor)};
    const std::int64_t i = encode_row(x, n, factors, out);
    if (i < n) encode_rest(x + i, n - i, factors, out + i);
  }
  static void cast_blocks(const T* x, std::int64_t n, std::int64_t block,
                          const float* factors, std::uint8_t* out) {
    for (std::int64_t i = 0; i < n; i += block)
      cast(x + i, std::min(block, n - i), *factors++, out + i);
  }
  static void cast_each(const T* x, std::int64_t n, const float* factors,
                        std::uint8_t* out) {
    const std::int64_t i = encode_row(x, n, Each{factors}, out);
    if (i == n) return;
    float rest[16] = {};
    std::copy(factors + i, factors + n, rest);
    encode_rest(x + i, n - i, Each{rest}, out + i);
  }
  static void decode(const std::uint8_t* codes, std::int64_t n, float factor,
                     T* out) {
    const One factors{hn::Set(DF(), factor)};
    const std::int64_t i = decode_row(codes, n, factors, out);
    if (i < n) decode_rest(codes + i, n - i, factors, out + i);
  }
  static void decode_blocks(const std::uint8_t* codes, std::int64_t n,
                            std::int64_t block, const float* factors, T* out) {
    for (std::int64_t i = 0; i < n; i += block)
      decode(codes + i, std::min(block, n - i), *factors++, out + i);
  }
  static void decode_each(const std::uint8_t* codes, std::int64_t n,
                          const float* factors, T* out) {
    const std::int64_t i = decode_row(codes, n, Each{factors}, out);
    if (i == n) return;
    float rest[16] = {};
    std::copy(factors + i, factors + n, rest);
    decode_rest(codes + i, n - i, Each{rest}, out + i);
  }

  static constexpr CastFormat<T> table() {
    return {&cast,   &cast_blocks,   &cast_each,
            &decode, &decode_blocks, &decode_each};
  }
};

template <typename Row, std::size_t... kIndex>
constexpr CastType<typename Row::T> cast_type(std::index_sequence<kIndex...>) {
  return {&Amax<Row>::run,
          &Amax<Row>::blocks,
          &Amax<Row>::each,
          {Convert<Row, kCastFormats[kIndex]>::table()...}};
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
