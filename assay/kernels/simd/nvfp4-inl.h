// NVFP4 blocks of 16: scales, codes, the variants of rounding.
// A part of block_quant.cpp, after block_max-inl.h: no guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct E2m1 {
  // |y| rounded to the grid and its code, as Fp8::magnitude_code has it: adding
  // 2^(e + 22), e the exponent of |y| but at least 0, rounds; the exponent
  // joins by integer addition, with an even offset.
  struct Rounded {
    VF magnitude;
    VU code;  // in the low three bits, others undefined
  };
  static HWY_INLINE Rounded round(VF y) {
    const DF df;
    const DU du;
    constexpr std::uint32_t kOffset = 2;
    const VF units = hn::Set(df, 0x1p22f);
    // As integers, for which NaN is large too.
    const VU magnitude =
        hn::Min(hn::BitCast(du, hn::Abs(y)),
                hn::Set(du, std::bit_cast<std::uint32_t>(6.0f)));
    const VF v = hn::BitCast(df, magnitude);
    const VU power = hn::OrAnd(hn::Set(du, kOffset),
                               hn::Max(magnitude, hn::Set(du, 127u << 23)),
                               hn::Set(du, 0x7f800000));
    const VF addend = hn::BitCast(df, power);
    const VF sum = hn::MulAdd(addend, units, v);
    return {hn::Sub(sum, hn::Mul(addend, units)),
            hn::Add(hn::BitCast(du, sum), hn::ShiftRight<22>(power))};
  }

  // The four-bit code, other bits zero.
  static HWY_INLINE VU with_sign(VF y, VU code) {
    const DU du;
    const VU sign = hn::ShiftRight<28>(hn::BitCast(du, y));
    const VU full =
        hn::OrAnd(hn::And(code, hn::Set(du, 7)), sign, hn::Set(du, 8));
    const auto nan = hn::RebindMask(du, hn::IsNaN(y));
    return hn::IfThenElse(nan, hn::Set(du, 7), full);
  }
  static HWY_INLINE VU nearest(VF y) { return with_sign(y, round(y).code); }

  // e2m1_code_stochastic() with the byte in each lane.
  static HWY_INLINE VU stochastic(VF y, VU byte) {
    const DF df;
    const DU du;
    const VF m = hn::Abs(y);
    const VF coarse = hn::IfThenElse(hn::Lt(m, hn::Set(df, 4.0f)),
                                     hn::Set(df, 1.0f), hn::Set(df, 2.0f));
    const VF step =
        hn::IfThenElse(hn::Lt(m, hn::Set(df, 2.0f)), hn::Set(df, 0.5f), coarse);
    const VF u = hn::Mul(hn::ConvertTo(df, hn::BitCast(DI(), byte)),
                         hn::Set(df, 0x1p-8f));
    const VF z = hn::Min(hn::Add(m, hn::Mul(step, u)), hn::Set(df, 6.0f));
    // From 1 on exponent and first mantissa bit number the grid points.
    const VU number = hn::ShiftRight<22>(hn::BitCast(du, z));
    const VU code =
        hn::Sub(hn::Max(number, hn::Set(du, 253)), hn::Set(du, 252));
    const auto zero = hn::RebindMask(du, hn::Lt(z, hn::Set(df, 0.5f)));
    return with_sign(y, hn::IfThenZeroElse(zero, code));
  }
};

// Two codes a byte, the even one low.
HWY_INLINE void store_nibbles(VU codes, std::uint8_t* out) {
  const hn::Repartition<std::uint64_t, DF> d64;
  const auto pairs = hn::BitCast(d64, codes);
  const auto bytes = hn::Or(pairs, hn::ShiftRight<28>(pairs));
#if HWY_TARGET == HWY_AVX3
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out),
                   _mm512_cvtepi64_epi8(bytes.raw));
#else
  const hn::Rebind<std::uint8_t, decltype(d64)> d8;
  hn::StoreU(hn::TruncateTo(d8, bytes), d8, out);
#endif
}

// The bits of `yes` where `mask` has them, else those of `no`. (Highway's
// IfVecThenElse takes lanes before AVX-512.)
HWY_INLINE VU select_bits(std::uint32_t mask, VU yes, VU no) {
  const VU bits = hn::Set(DU(), mask);
#if HWY_TARGET == HWY_AVX3
  return hn::IfVecThenElse(bits, yes, no);
#else
  return hn::OrAnd(hn::AndNot(bits, no), bits, yes);
#endif
}

// Pairs of bf16 elements in 32-bit words, none of them NaN: the byte of their
// two codes in each lane, the bits above undefined.
HWY_INLINE VU e2m1_bytes(VU words, VF factor) {
  const DF df;
  const DU du;
  const VU magnitude = hn::And(words, hn::Set(du, 0x7fff7fff));
  const VF even = hn::BitCast(df, hn::ShiftLeft<16>(magnitude));
  const VF odd = hn::BitCast(df, hn::And(magnitude, hn::Set(du, 0xffff0000)));
  const VU low = E2m1::round(hn::Mul(even, factor)).code;
  const VU high = E2m1::round(hn::Mul(odd, factor)).code;
  const VU codes = select_bits(0x07, low, hn::ShiftLeft<4>(high));
  const VU signs =
      select_bits(0x08, hn::ShiftRight<12>(words), hn::ShiftRight<24>(words));
  return select_bits(0x77, codes, signs);
}

// e4m3_value() of every code that a scale can have.
inline constexpr std::array<float, 127> kE4m3Values = [] {
  std::array<float, 127> values{};
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = e4m3_value(static_cast<std::uint8_t>(i));
  return values;
}();

HWY_INLINE float decode_scale(std::uint8_t code, float amax, float scale_max) {
  return kE4m3Values[code] * amax * (1.0f / (6.0f * scale_max));
}

template <typename Row>
struct Nvfp4 {
  using T = typename Row::T;
  using Bits = typename Row::Bits;
  using Max = BlockMax<Row, kNvfp4Block, true>;
  using Numbers = BlockMax<Row, kNvfp4Block, false>;  // passes over NaN
  using V = typename Max::V;
  static constexpr std::int64_t kMany = 16;  // blocks whose scales are found
                                             // together

  static HWY_INLINE void encode(const T* x, float factor, std::uint8_t* out) {
    const VF f = hn::Set(DF(), factor);
    for (std::int64_t i = 0; i < kNvfp4Block; i += lanes()) {
      const VF y = hn::Mul(Row::load(x + i), f);
      store_nibbles(E2m1::nearest(y), out + i / 2);
    }
  }

  static HWY_INLINE void encode_random(const T* x, float factor,
                                       const std::uint8_t* bytes,
                                       std::uint8_t* out) {
    const VF f = hn::Set(DF(), factor);
    for (std::int64_t i = 0; i < kNvfp4Block; i += lanes()) {
      const VU byte = hn::PromoteTo(DU(), hn::LoadU(D8(), bytes + i));
      const VF y = hn::Mul(Row::load(x + i), f);
      store_nibbles(E2m1::stochastic(y, byte), out + i / 2);
    }
  }

  // ---- Scales of up to 16 blocks side by side; tiles: of 16 rows each.

  template <typename Max>
  static HWY_INLINE V most_of(const T* x, std::int64_t rows,
                              std::int64_t stride) {
    V most = Max::of_block(x);
    for (std::int64_t r = 1; r < rows; ++r)
      most = hn::Max(most, Max::of_block(x + r * stride));
    return most;
  }

  template <typename Max>
  static HWY_INLINE void find_amax(const T* x, std::int64_t n,
                                   std::int64_t rows, std::int64_t stride,
                                   Bits* amax) {
    const typename Max::D d;
    std::int64_t i = 0;
    for (; i + Max::kGroup <= n; i += Max::kGroup) {
      V v[Max::kGroup];
      for (std::int64_t j = 0; j < Max::kGroup; ++j)
        v[j] = most_of<Max>(x + (i + j) * kNvfp4Block, rows, stride);
      Max::reduce(v, amax + i);
    }
    for (; i < n; ++i) {
      alignas(64) Bits lane[kNvfp4Block];
      hn::Store(most_of<Max>(x + i * kNvfp4Block, rows, stride), d, lane);
      amax[i] = *std::max_element(lane, lane + hn::Lanes(d));
    }
  }

  static HWY_INLINE bool any_nan(const Bits* amax) {
    const hn::CappedTag<Bits, Max::kGroup> d;  // see load_pieces()
    const hn::RebindToSigned<decltype(d)> di;
    auto most = hn::Load(d, amax);
    for (std::int64_t i = Max::kGroup; i < kMany; i += Max::kGroup)
      most = hn::Max(most, hn::Load(d, amax + i));
    return !hn::AllFalse(di,
                         hn::Gt(hn::BitCast(di, most),
                                hn::BitCast(di, hn::Set(d, Row::kInfinity))));
  }

  static HWY_INLINE void e4m3_codes(VF scale, float most, std::uint8_t* out) {
    const VF capped = hn::Min(scale, hn::Set(DF(), most));
    store_bytes(Fp8<DType::kE4M3FN>::encode(capped), out);
  }

  static HWY_INLINE void scales(const Bits* amax, const Nvfp4Global& g,
                                std::uint8_t* codes) {
    const DF df;
    for (std::int64_t i = 0; i < kMany; i += lanes()) {
      const VF b = magnitudes_as_f32<Row>(amax + i);
      e4m3_codes(hn::Mul(b, hn::Set(df, g.encode_sixth)), kFloatMax, codes + i);
    }
  }

  static HWY_INLINE void candidates(const Bits* amax, const Nvfp4Global& g,
                                    std::uint8_t* map6, std::uint8_t* map4) {
    const DF df;
    for (std::int64_t i = 0; i < kMany; i += lanes()) {
      const VF b = magnitudes_as_f32<Row>(amax + i);
      const VF base =
          hn::Mul(hn::Div(b, hn::Set(df, 6.0f)), hn::Set(df, g.encode));
      e4m3_codes(base, 448.0f, map6 + i);
      e4m3_codes(hn::Mul(hn::Set(df, 1.5f), base), 448.0f, map4 + i);
    }
  }

  // ---- 4-over-6: the error of a block, or tile, under one scale.

  // Lane by lane, sixteen of them: |d| or d^2 added to `sum`.
  static HWY_INLINE void add_errors(const Nvfp4Run& run, const T* x,
                                    std::uint8_t code, float* sum) {
    const DF df;
    const VF f = hn::Set(df, run.factors[code]);
    const VF scale =
        hn::Set(df, decode_scale(code, run.amax, run.global.scale_max));
    for (std::int64_t i = 0; i < kNvfp4Block; i += lanes()) {
      const VF v = Row::load(x + i);
      const VF y = hn::Mul(v, f);
      const VF rounded = E2m1::round(y).magnitude;
      const VF value = hn::IfThenElse(hn::IsNaN(y), hn::Set(df, 6.0f),
                                      hn::CopySign(rounded, y));
      const VF d = hn::Sub(hn::Mul(value, scale), v);
      const VF error =
          run.four_over_six == FourOverSix::kMse ? hn::Mul(d, d) : hn::Abs(d);
      hn::Store(hn::Add(hn::Load(df, sum + i), error), df, sum + i);
    }
  }

  // Halves are added until one lane is left.
  static HWY_INLINE float tree_sum(float* v) {
    for (int half = kNvfp4Block / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) v[i] += v[i + half];
    return v[0];
  }

  static HWY_INLINE float error_of(const Nvfp4Run& run, const T* x,
                                   std::int64_t rows, std::int64_t stride,
                                   std::uint8_t code) {
    alignas(64) float sum[kNvfp4Block] = {};
    for (std::int64_t r = 0; r < rows; ++r)
      add_errors(run, x + r * stride, code, sum);
    return tree_sum(sum);
  }

  static HWY_INLINE void choose(const Nvfp4Run& run, const T* x, std::int64_t n,
                                std::int64_t rows, std::int64_t stride,
                                const Bits* amax, std::uint8_t* codes) {
    std::uint8_t map4[kMany];
    candidates(amax, run.global, codes, map4);
    for (std::int64_t i = 0; i < n; ++i) {
      const T* at = x + i * kNvfp4Block;
      const float six = error_of(run, at, rows, stride, codes[i]);
      if (error_of(run, at, rows, stride, map4[i]) < six) codes[i] = map4[i];
    }
  }

  // ---- A run, sixteen blocks (or tiles) at a time.

  static void quantize(const Nvfp4Run& run) {
    const std::int64_t rows = run.square ? kNvfp4Block : 1;
    const std::int64_t across = run.blocks / rows;
    const auto* x = reinterpret_cast<const T*>(run.x);
    for (std::int64_t i = 0; i < run.runs; ++i)
      quantize_one(run, x + i * run.blocks * kNvfp4Block, rows, across,
                   i * run.block_stride);
  }

  static HWY_INLINE void quantize_one(const Nvfp4Run& run, const T* x,
                                      std::int64_t rows, std::int64_t across,
                                      std::int64_t first) {
    const std::int64_t stride = across * kNvfp4Block;
    for (std::int64_t b = 0; b < across; b += kMany) {
      const std::int64_t n = std::min(kMany, across - b);
      const T* at = x + b * kNvfp4Block;
      ask_ahead(at, kMany * kNvfp4Block);
      alignas(64) Bits amax[kMany] = {};
      std::uint8_t codes[kMany];
      find_amax<Max>(at, n, rows, stride, amax);
      const bool nan = any_nan(amax);
      if (nan) find_amax<Numbers>(at, n, rows, stride, amax);
      if (run.four_over_six == FourOverSix::kNone)
        scales(amax, run.global, codes);
      else
        choose(run, at, n, rows, stride, amax, codes);
      for (std::int64_t r = 0; r < rows; ++r)
        encode_row(run, at + r * stride, first + r * across + b, n, codes, nan);
    }
  }

  // The factors of kMany codes; those without a block may be any.
  static HWY_INLINE void look_up(const float* table, const std::uint8_t* codes,
                                 float* factors) {
    const DF df;
    for (std::int64_t i = 0; i < kMany; i += lanes()) {
      const auto code = hn::PromoteTo(DI(), hn::LoadU(D8(), codes + i));
      const auto index = hn::Min(code, hn::Set(DI(), 126));
      hn::Store(hn::GatherIndex(df, table, index), df, factors + i);
    }
  }

  static HWY_INLINE void encode_row(const Nvfp4Run& run, const T* x,
                                    std::int64_t first, std::int64_t n,
                                    const std::uint8_t* codes, bool nan) {
    if (n == kMany)
      std::memcpy(run.scales + first, codes, kMany);
    else
      std::memcpy(run.scales + first, codes, static_cast<std::size_t>(n));
    std::uint8_t* out = run.codes + first * kNvfp4Block / 2;
    alignas(64) float factors[kMany];
    look_up(run.factors, codes, factors);
    if (run.random != nullptr)
      return encode_blocks_random(x, factors, n, *run.random, first, out);
    std::int64_t i = 0;
    if constexpr (std::is_same_v<Row, RowBf16>) {
      if (!nan) i = encode_words(x, factors, n, out);
    }
    for (; i < n; ++i)
      encode(x + i * kNvfp4Block, factors[i], out + i * kNvfp4Block / 2);
  }

  static HWY_INLINE void encode_blocks_random(const T* x, const float* factors,
                                              std::int64_t n,
                                              const RandomStream& random,
                                              std::int64_t first,
                                              std::uint8_t* out) {
    std::uint8_t bytes[kMany * kNvfp4Block];
    random_bytes(random, first, bytes);
    for (std::int64_t i = 0; i < n; ++i) {
      encode_random(x + i * kNvfp4Block, factors[i], bytes + i * kNvfp4Block,
                    out + i * kNvfp4Block / 2);
    }
  }

  // Whole vectors of pairs; how many blocks that were.
  static HWY_INLINE std::int64_t encode_words(const T* x, const float* factors,
                                              std::int64_t n,
                                              std::uint8_t* out) {
    const DU du;
    const hn::Repartition<std::uint16_t, DU> d16;
    const std::int64_t at_once =
        std::max<std::int64_t>(1, 2 * lanes() / kNvfp4Block);
    std::int64_t i = 0;
    // Unrolled, every turn would make its constants anew.
#pragma GCC unroll 1
    for (; i + at_once <= n; i += at_once) {
      const VF factor = factor_of(factors, i);
      for (std::int64_t j = 0; j < at_once * kNvfp4Block; j += 2 * lanes()) {
        const std::int64_t at = i * kNvfp4Block + j;
        const VU words = hn::BitCast(
            du, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(x) + at));
        store_bytes(e2m1_bytes(words, factor), out + at / 2);
      }
    }
    return i;
  }

  // A lane's factor is that of its block: blocks i and i + 1 in 512 bits.
  static HWY_INLINE VF factor_of(const float* factors, std::int64_t i) {
    const DF df;
    if constexpr (hn::MaxLanes(DF()) == kNvfp4Block) {
      const DI di;
      const auto block = hn::Add(hn::ShiftRight<3>(hn::Iota(di, 0)),
                                 hn::Set(di, static_cast<std::int32_t>(i)));
      return hn::TableLookupLanes(hn::Load(df, factors),
                                  hn::IndicesFromVec(df, block));
    } else {
      return hn::Set(df, factors[i]);
    }
  }

  // ---- Decoding.

  // Sixteen codes in eight bytes, a lane each.
  static HWY_INLINE VU load_nibbles(const std::uint8_t* codes) {
    const hn::Repartition<std::uint64_t, DF> d64;
    const hn::Rebind<std::uint8_t, decltype(d64)> d8;
    const hn::Rebind<std::uint32_t, decltype(d64)> d32;
    const auto bytes =
        hn::PromoteTo(d64, hn::PromoteTo(d32, hn::LoadU(d8, codes)));
    const auto pairs = hn::Or(bytes, hn::ShiftLeft<28>(bytes));
    return hn::And(hn::BitCast(DU(), pairs), hn::Set(DU(), 15));
  }

  static HWY_INLINE VF value(VU code) {
    const DF df;
    const DU du;
#if HWY_TARGET == HWY_AVX3
    alignas(64) static constexpr float kValues[16] = {
        0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return hn::TableLookupLanes(hn::Load(df, kValues),
                                hn::IndicesFromVec(df, code));
#else
    // Below 1 the same with the leading one made explicit and taken off again.
    const VU fields = hn::ShiftLeft<22>(hn::And(code, hn::Set(du, 7)));
    const VF one = hn::BitCast(df, hn::Add(fields, hn::Set(du, 127u << 23)));
    const VF low = hn::Sub(one, hn::Set(df, 1.0f));
    const VF normal = hn::BitCast(df, hn::Add(fields, hn::Set(du, 126u << 23)));
    const VF magnitude =
        hn::IfThenElse(hn::Lt(normal, hn::Set(df, 1.0f)), low, normal);
    const VU sign = hn::ShiftLeft<28>(hn::And(code, hn::Set(du, 8)));
    return hn::Or(magnitude, hn::BitCast(df, sign));
#endif
  }

  static void decode(const Nvfp4Decode& run) {
    const DF df;
    auto* out = reinterpret_cast<T*>(run.out);
    const VF nan = hn::BitCast(df, hn::Set(DU(), 0x7fc00000));
    for (std::int64_t b = 0; b < run.blocks; ++b) {
      const VF scale =
          hn::Set(df, decode_scale(run.scales[b], run.amax, run.scale_max));
      for (std::int64_t i = 0; i < kNvfp4Block; i += lanes()) {
        const std::int64_t at = b * kNvfp4Block + i;
        const VF v = hn::Mul(value(load_nibbles(run.codes + at / 2)), scale);
        Row::store(hn::IfThenElse(hn::IsNaN(v), nan, v), out + at);
      }
    }
  }
};

inline void nvfp4_quantize(const Nvfp4Run& run) {
  if (run.input == DType::kBF16) return Nvfp4<RowBf16>::quantize(run);
  if (run.input == DType::kF16) return Nvfp4<RowF16>::quantize(run);
  Nvfp4<RowF32>::quantize(run);
}

inline void nvfp4_decode(const Nvfp4Decode& run) {
  if (run.output == DType::kBF16) return Nvfp4<RowBf16>::decode(run);
  if (run.output == DType::kF16) return Nvfp4<RowF16>::decode(run);
  Nvfp4<RowF32>::decode(run);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
