// Rows of one dtype to the codes of one 8-bit format and back.
// A part of cast.cpp and block_quant.cpp, after cast_bf16-inl.h: no guard, no
// includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
#if HWY_TARGET == HWY_AVX3
    if constexpr (std::is_same_v<Row, RowBf16>) {
      while (n >= 64 && factor >= 0) {
        std::int64_t done = EncodeBf16<kFormat>::run(x, n, factor, out);
        if (done + 64 <= n) {  // a NaN
          encode_row(x + done, 64, factors, out + done);
          done += 64;
        }
        x += done, out += done, n -= done;
      }
    }
#endif
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
  static void cast_columns(const T* x, std::int64_t stride, std::int64_t rows,
                           std::int64_t columns, const float* factors,
                           std::uint8_t* out, std::int64_t out_stride) {
    std::int64_t c = 0;
#if HWY_TARGET == HWY_AVX3
    if constexpr (std::is_same_v<Row, RowBf16>) {
      for (; c + 64 <= columns; c += 64)
        cast_64_columns(x + c, stride, rows, factors + c, out + c, out_stride);
    }
#endif
    if (c == columns) return;
    for (std::int64_t r = 0; r < rows; ++r)
      cast_each(x + r * stride + c, columns - c, factors + c,
                out + r * out_stride + c);
  }
#if HWY_TARGET == HWY_AVX3
  static void cast_64_columns(const T* x, std::int64_t stride,
                              std::int64_t rows, const float* factors,
                              std::uint8_t* out, std::int64_t out_stride) {
    using Encode = EncodeBf16<kFormat>;
    const auto each = Encode::Factors::each(factors);
    const bool positive =
        std::all_of(factors, factors + 64, [](float f) { return f >= 0; });
    for (std::int64_t r = 0; r < rows; ++r, x += stride, out += out_stride) {
      if (!positive || !Encode::turn(x, each, out))
        cast_each(x, 64, factors, out);
    }
  }
#endif
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
    return {&cast,   &cast_blocks,   &cast_columns,
            &decode, &decode_blocks, &decode_each};
  }
};

template <typename Row, std::size_t... kIndex>
constexpr CastType<typename Row::T> cast_type(std::index_sequence<kIndex...>) {
  return {&Amax<Row>::run,
          &Amax<Row>::blocks,
          &Amax<Row>::columns,
          {Convert<Row, kCastFormats[kIndex]>::table()...}};
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
