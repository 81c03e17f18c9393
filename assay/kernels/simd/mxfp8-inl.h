// MXFP8 blocks of 32 along rows and down columns.
// A part of block_quant.cpp, after block_max-inl.h: no guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// E8M0 codes of fp32 amaxes: mx_scale_code() lane by lane.
template <DType kFormat>
HWY_INLINE VU mx_codes(VF amax) {
  const DF df;
  const DU du;
  const VF scaled = hn::Mul(amax, hn::Set(df, mx_inverse_max(kFormat)));
  const VU bits = hn::BitCast(du, scaled);
  // Any mantissa bit carries into the exponent; of a subnormal only what is
  // above 2^-127.
  const auto normal = hn::Ge(scaled, hn::Set(df, 0x1p-126f));
  const VU most = hn::IfThenElse(hn::RebindMask(du, normal),
                                 hn::Set(du, 0x7fffff), hn::Set(du, 0x3fffff));
  const VU code =
      hn::Min(hn::ShiftRight<23>(hn::Add(bits, most)), hn::Set(du, 0xfe));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(amax)), hn::Set(du, 0xff),
                        code);
}

// mx_factor() lane by lane.
HWY_INLINE VF mx_factors(VU code) {
  const DF df;
  const DU du;
  const VU field = hn::ShiftLeft<23>(hn::Sub(hn::Set(du, 254), code));
  const VU finite = hn::Max(field, hn::Set(du, 0x00400000));
  const auto nan = hn::Eq(code, hn::Set(du, 0xff));
  return hn::BitCast(df, hn::IfThenElse(nan, hn::Set(du, 0x7fc00000), finite));
}

template <typename Row, DType kFormat>
struct Mxfp8 {
  using T = typename Row::T;
  using Bits = typename Row::Bits;
  using Max = BlockMax<Row, kMxBlock, true>;
  using F = Fp8<kFormat>;
  using Narrow = Bf16Fp8<kFormat>;
  static constexpr bool kNarrow = std::is_same_v<Row, RowBf16>;
  static constexpr std::int64_t kPanel = 128;  // columns worked on at a time
  static constexpr std::int64_t kRows = kMxBlock;

  // Codes and factors of `n` amaxes, n a multiple of 16.
  static HWY_INLINE void scales(const Bits* amax, std::int64_t n,
                                std::uint8_t* codes, float* factors) {
    for (std::int64_t i = 0; i < n; i += lanes()) {
      const VU code = mx_codes<kFormat>(magnitudes_as_f32<Row>(amax + i));
      store_bytes(code, codes + i);
      hn::StoreU(mx_factors(code), DF(), factors + i);
    }
  }

  // One block of 32 under one factor, or a factor for each column; the scale
  // codes that the factors belong to come along.
  template <bool kStream>
  static HWY_INLINE void encode(const T* x, std::uint8_t scale, float factor,
                                std::uint8_t* out) {
    if constexpr (kNarrow) {
      if (Narrow::covers(scale)) {
        const auto offset =
            hn::Set(typename Narrow::D(), Narrow::offset(scale));
        const auto same = [&](std::size_t) { return offset; };
        if (narrow<kStream>(x, same, out)) return;
      }
    }
    const VF f = hn::Set(DF(), factor);
    for (std::int64_t i = 0; i < kMxBlock; i += lanes())
      store_bytes(F::encode(hn::Mul(Row::load(x + i), f)), out + i);
  }
  // `offsets` as Narrow takes them; null: not covered.
  template <bool kStream>
  static HWY_INLINE void encode_each(const T* x, const std::uint16_t* offsets,
                                     const float* factors, std::uint8_t* out) {
    if constexpr (kNarrow) {
      const auto load = [&](std::size_t i) {
        return hn::Load(typename Narrow::D(), offsets + i);
      };
      if (offsets != nullptr && narrow<kStream>(x, load, out)) return;
    }
    for (std::int64_t i = 0; i < kMxBlock; i += lanes()) {
      const VF f = hn::LoadU(DF(), factors + i);
      store_bytes(F::encode(hn::Mul(Row::load(x + i), f)), out + i);
    }
  }
  template <bool kStream, typename Offsets>
  static HWY_INLINE bool narrow(const T* x, const Offsets& offsets,
                                std::uint8_t* out) {
    bool covered = true;
    for (std::size_t i = 0; i < kMxBlock; i += hn::Lanes(typename Narrow::D()))
      covered &= Narrow::template encode<kStream>(x + i, offsets(i), out + i);
    return covered;
  }

  // ---- Row-wise only: every row is a sequence of blocks.

  // n <= 16 whole blocks in a row.
  template <bool kStream>
  static HWY_INLINE void run(const T* x, std::int64_t n, std::uint8_t* codes,
                             std::uint8_t* scale_codes) {
    alignas(64) Bits amax[16] = {};
    alignas(64) std::uint8_t some[16];
    alignas(64) float factors[16];
    std::int64_t i = 0;
    for (; i + Max::kGroup <= n; i += Max::kGroup)
      Max::group(x + i * kMxBlock, kMxBlock, amax + i);
    for (; i < n; ++i) amax[i] = single(x + i * kMxBlock);
    scales(amax, 16, some, factors);
    std::memcpy(scale_codes, some, static_cast<std::size_t>(n));
    for (i = 0; i < n; ++i)
      encode<kStream>(x + i * kMxBlock, some[i], factors[i],
                      codes + i * kMxBlock);
  }

  static HWY_NOINLINE Bits single(const T* x) {
    const typename Max::D d;
    alignas(64) Bits lane[kMxBlock];
    hn::Store(Max::of_block(x), d, lane);
    return *std::max_element(lane, lane + hn::Lanes(d));
  }

  template <bool kStream>
  static void row(const T* x, std::int64_t columns, std::uint8_t* codes,
                  std::uint8_t* scale_codes) {
    const std::int64_t blocks = columns / kMxBlock;
    for (std::int64_t b = 0; b < blocks; b += 16) {
      run<kStream>(x + b * kMxBlock, std::min<std::int64_t>(16, blocks - b),
                   codes + b * kMxBlock, scale_codes + b);
    }
    const std::int64_t rest = columns - blocks * kMxBlock;
    if (rest == 0) return;
    T last[kMxBlock] = {};
    std::uint8_t last_codes[kMxBlock];
    std::copy(x + blocks * kMxBlock, x + columns, last);
    run<false>(last, 1, last_codes, scale_codes + blocks);
    std::copy(last_codes, last_codes + rest, codes + blocks * kMxBlock);
  }

  template <bool kStream>
  static void rows(const Mxfp8Strip& s) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      row<kStream>(reinterpret_cast<const T*>(s.x) + r * s.stride, s.columns,
                   s.row_codes + r * s.code_stride,
                   s.row_scales + r * s.row_scale_stride);
    }
  }

  // ---- Columns, and rows with them: panels of 32 x 128, copied so that every
  // line is read from memory once, wherever its address would conflict.

  struct Panel {
    alignas(64) T x[kRows * kPanel];
    alignas(64) float row_factors[kPanel / kMxBlock][kRows];
    alignas(64) float column_factors[kPanel];
    alignas(64) std::uint8_t row_scales[kPanel / kMxBlock][kRows];
    alignas(64) std::uint8_t column_scales[kPanel];
    alignas(64) std::uint16_t offsets[kPanel];
    bool covered[kPanel / kMxBlock];  // by offsets
    // Where a panel is not whole.
    alignas(64) std::uint8_t codes[kRows * kPanel];
  };

  static HWY_INLINE void copy_row(const T* x, T* out) {
    const hn::CappedTag<Bits, 64 / sizeof(Bits)> d;
    for (std::size_t i = 0; i < kPanel; i += hn::Lanes(d)) {
      hn::Store(hn::LoadU(d, reinterpret_cast<const Bits*>(x) + i), d,
                reinterpret_cast<Bits*>(out) + i);
    }
  }

  static void load(const Mxfp8Strip& s, std::int64_t c, Panel& p) {
    const auto* x = reinterpret_cast<const T*>(s.x) + c;
    const std::int64_t width = std::min(kPanel, s.columns - c);
    if (width == kPanel && s.rows == kRows) {
      for (std::int64_t r = 0; r < kRows; ++r)
        copy_row(x + r * s.stride, p.x + r * kPanel);
      return;
    }
    std::fill(p.x, p.x + kRows * kPanel, T{});
    for (std::int64_t r = 0; r < s.rows; ++r)
      std::copy(x + r * s.stride, x + r * s.stride + width, p.x + r * kPanel);
  }

  static void column_amax(const Panel& p, Bits* amax) {
    const typename Max::D d;
    for (std::size_t c = 0; c < kPanel; c += hn::Lanes(d)) {
      auto most = hn::Zero(d);
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto* at = reinterpret_cast<const Bits*>(p.x) + r * kPanel + c;
        most = hn::Max(most, Max::magnitude(hn::Load(d, at)));
      }
      hn::Store(most, d, amax + c);
    }
  }

  static void find_scales(const Mxfp8Strip& s, Panel& p) {
    alignas(64) Bits amax[kPanel];
    if (s.column_codes != nullptr || s.square) {
      column_amax(p, amax);
      if (s.square) spread_tiles(amax);
      scales(amax, kPanel, p.column_scales, p.column_factors);
      find_offsets(p);
    }
    if (s.row_codes == nullptr) return;
    for (std::int64_t b = 0; b < kPanel / kMxBlock; ++b) {
      if (s.square) {
        std::fill(amax, amax + kRows, amax[b * kMxBlock]);
      } else {
        for (std::int64_t r = 0; r < kRows; r += Max::kGroup)
          Max::group(p.x + r * kPanel + b * kMxBlock, kPanel, amax + r);
      }
      scales(amax, kRows, p.row_scales[b], p.row_factors[b]);
    }
  }

  static void find_offsets(Panel& p) {
    for (std::int64_t b = 0; b < kPanel / kMxBlock; ++b) {
      bool all = true;
      for (std::int64_t c = b * kMxBlock; c < (b + 1) * kMxBlock; ++c) {
        all &= Narrow::covers(p.column_scales[c]);
        p.offsets[c] = Narrow::offset(p.column_scales[c]);
      }
      p.covered[b] = all;
    }
  }

  // Each column's amax becomes that of its tile.
  static void spread_tiles(Bits* amax) {
    for (std::int64_t b = 0; b < kPanel; b += kMxBlock) {
      const Bits most = *std::max_element(amax + b, amax + b + kMxBlock);
      std::fill(amax + b, amax + b + kMxBlock, most);
    }
  }

  template <bool kStream>
  static void encode_rows(const Panel& p, std::uint8_t* out,
                          std::int64_t stride) {
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t b = 0; b < kPanel / kMxBlock; ++b) {
        const std::int64_t c = b * kMxBlock;
        encode<kStream>(p.x + r * kPanel + c, p.row_scales[b][r],
                        p.row_factors[b][r], out + r * stride + c);
      }
    }
  }
  template <bool kStream>
  static void encode_columns(const Panel& p, std::uint8_t* out,
                             std::int64_t stride) {
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t c = 0; c < kPanel; c += kMxBlock) {
        encode_each<kStream>(p.x + r * kPanel + c,
                             p.covered[c / kMxBlock] ? p.offsets + c : nullptr,
                             p.column_factors + c, out + r * stride + c);
      }
    }
  }

  using EncodePanel = void (*)(const Panel&, std::uint8_t*, std::int64_t);

  // Codes of panel column c on, through the panel's own where it is not whole.
  static void store_codes(const Mxfp8Strip& s, std::int64_t c, Panel& p,
                          std::uint8_t* codes, EncodePanel plain,
                          EncodePanel streamed) {
    const std::int64_t width = std::min(kPanel, s.columns - c);
    if (width == kPanel && s.rows == kRows)
      return (streams(s, codes) ? streamed : plain)(p, codes + c,
                                                    s.code_stride);
    plain(p, p.codes, kPanel);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const std::uint8_t* from = p.codes + r * kPanel;
      std::copy(from, from + width, codes + r * s.code_stride + c);
    }
  }

  // Blocks of codes start where a streaming store may.
  static bool streams(const Mxfp8Strip& s, const std::uint8_t* codes) {
    return s.stream && s.code_stride % kMxBlock == 0 &&
           reinterpret_cast<std::uintptr_t>(codes) % kMxBlock == 0;
  }

  static void store_scales(const Mxfp8Strip& s, std::int64_t c,
                           const Panel& p) {
    const std::int64_t width = std::min(kPanel, s.columns - c);
    if (s.column_codes != nullptr)
      std::copy(p.column_scales, p.column_scales + width, s.column_scales + c);
    if (s.row_codes == nullptr) return;
    const std::int64_t blocks = (width + kMxBlock - 1) / kMxBlock;
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t b = 0; b < blocks; ++b)
        s.row_scales[r * s.row_scale_stride + c / kMxBlock + b] =
            p.row_scales[b][r];
  }

  static void panels(const Mxfp8Strip& s) {
    Panel p;
    for (std::int64_t c = 0; c < s.columns; c += kPanel) {
      load(s, c, p);
      find_scales(s, p);
      store_scales(s, c, p);
      if (s.row_codes != nullptr)
        store_codes(s, c, p, s.row_codes, &encode_rows<false>,
                    &encode_rows<true>);
      if (s.column_codes != nullptr)
        store_codes(s, c, p, s.column_codes, &encode_columns<false>,
                    &encode_columns<true>);
    }
  }

  static void quantize(const Mxfp8Strip& s) {
    if (s.column_codes == nullptr && !s.square) {
      if (s.row_codes == nullptr) return;
      streams(s, s.row_codes) ? rows<true>(s) : rows<false>(s);
    } else {
      panels(s);
    }
    if (s.stream) hwy::FlushStream();
  }
};

// ---- Decoding.

// mx_scale() of every code.
inline constexpr std::array<float, 256> kMxScales = [] {
  std::array<float, 256> values{};
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = mx_scale(static_cast<std::uint8_t>(i));
  return values;
}();

template <typename Row, DType kFormat>
struct Mxfp8Decode {
  using T = typename Row::T;
  using Wide = Convert<Row, kFormat>;
  using Narrow = Bf16Fp8<kFormat>;
  static constexpr bool kNarrow = std::is_same_v<Row, RowBf16>;

  static void rowwise(const Mxfp8Row& row) {
    auto* out = reinterpret_cast<T*>(row.out);
    for (std::int64_t c = 0; c < row.columns; c += kMxBlock) {
      const std::int64_t n = std::min<std::int64_t>(kMxBlock, row.columns - c);
      const std::uint8_t scale = row.scales[c / kMxBlock];
      if constexpr (kNarrow) {
        if (n == kMxBlock && narrow(row.codes + c, scale, out + c)) continue;
      }
      Wide::decode(row.codes + c, n, kMxScales[scale], out + c);
    }
  }
  static HWY_INLINE bool narrow(const std::uint8_t* codes, std::uint8_t scale,
                                T* out) {
    const typename Narrow::D d;
    if (!Narrow::covers(scale)) return false;
    const auto offset = hn::Set(d, Narrow::offset(scale));
    bool covered = true;
    for (std::size_t i = 0; i < kMxBlock; i += hn::Lanes(d))
      covered &= Narrow::decode(codes + i, offset, out + i);
    return covered;
  }

  // Chunks of columns: their scales are looked at once for all rows.
  static constexpr std::int64_t kChunk = 512;

  static void columnwise(const Mxfp8Row& row) {
    for (std::int64_t c = 0; c < row.columns; c += kChunk) {
      const std::int64_t n = std::min(kChunk, row.columns - c);
      alignas(64) float factors[kChunk];
      alignas(64) std::uint16_t offsets[kChunk];
      bool covered = kNarrow;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::uint8_t scale = row.scales[c + i];
        factors[i] = kMxScales[scale];
        offsets[i] = Narrow::offset(scale);
        covered &= Narrow::covers(scale);
      }
      for (std::int64_t r = 0; r < row.rows; ++r)
        chunk(row, r, c, n, factors, covered ? offsets : nullptr);
    }
  }
  static HWY_INLINE void chunk(const Mxfp8Row& row, std::int64_t r,
                               std::int64_t c, std::int64_t n,
                               const float* factors,
                               const std::uint16_t* offsets) {
    const std::uint8_t* codes = row.codes + r * row.columns + c;
    T* out = reinterpret_cast<T*>(row.out) + r * row.columns + c;
    std::int64_t i = 0;
    if constexpr (kNarrow) {
      const typename Narrow::D d;
      const auto step = static_cast<std::int64_t>(hn::Lanes(d));
      for (; offsets != nullptr && i + step <= n; i += step) {
        if (!Narrow::decode(codes + i, hn::Load(d, offsets + i), out + i))
          Wide::decode_each(codes + i, step, factors + i, out + i);
      }
    }
    if (i < n) Wide::decode_each(codes + i, n - i, factors + i, out + i);
  }

  static void run(const Mxfp8Row& row) {
    if (row.columnwise) return columnwise(row);
    rowwise(row);
  }
};

template <typename Row>
void mxfp8_of_input(const Mxfp8Strip& s) {
  if (s.format == DType::kE5M2) return Mxfp8<Row, DType::kE5M2>::quantize(s);
  Mxfp8<Row, DType::kE4M3FN>::quantize(s);
}

inline void mxfp8_quantize(const Mxfp8Strip& s) {
  if (s.input == DType::kBF16) return mxfp8_of_input<RowBf16>(s);
  if (s.input == DType::kF16) return mxfp8_of_input<RowF16>(s);
  mxfp8_of_input<RowF32>(s);
}

template <typename Row>
void mxfp8_to_output(const Mxfp8Row& row) {
  if (row.format == DType::kE5M2)
    return Mxfp8Decode<Row, DType::kE5M2>::run(row);
  Mxfp8Decode<Row, DType::kE4M3FN>::run(row);
}

inline void mxfp8_decode(const Mxfp8Row& row) {
  if (row.output == DType::kBF16) return mxfp8_to_output<RowBf16>(row);
  if (row.output == DType::kF16) return mxfp8_to_output<RowF16>(row);
  mxfp8_to_output<RowF32>(row);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
