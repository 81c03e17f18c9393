// Packing operands, transposing and storing results.
// A part of attention.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

HWY_INLINE VF load_bf16(const std::uint16_t* p) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<std::uint16_t, DF> d16;
  return hn::BitCast(d,
                     hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, p))));
}

HWY_INLINE VF load_f16(const std::uint16_t* p) {
  const DF d;
  const hn::Rebind<hwy::float16_t, DF> d16;
  return hn::PromoteTo(
      d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}

inline void widen_row(DType dtype, const std::byte* from, std::int64_t n,
                      float* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * 4);
    return;
  }
  const auto* codes = reinterpret_cast<const std::uint16_t*>(from);
  const bool bf16 = dtype == DType::kBF16;
  std::int64_t i = 0;
  if (bf16) {
    for (; i + kWidth <= n; i += kWidth)
      hn::StoreU(load_bf16(codes + i), DF(), to + i);
  } else {
    for (; i + kWidth <= n; i += kWidth)
      hn::StoreU(load_f16(codes + i), DF(), to + i);
  }
  for (; i < n; ++i) to[i] = bf16 ? bf16_value(codes[i]) : f16_value(codes[i]);
}

inline const std::byte* row_of(DType dtype, const std::byte* data,
                               std::int64_t stride, std::int64_t row) {
  return data + row * stride * (traits(dtype).bits / 8);
}

// to[c * ld + r] = from[r * from_ld + c], in blocks that stay in the cache.
inline void transpose_block(const float* from, std::int64_t from_ld,
                            std::int64_t rows, std::int64_t columns, float* to,
                            std::int64_t to_ld) {
  constexpr std::int64_t kSide = 16;
  for (std::int64_t r0 = 0; r0 < rows; r0 += kSide) {
    const std::int64_t r1 = r0 + kSide < rows ? r0 + kSide : rows;
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t r = r0; r < r1; ++r)
        to[c * to_ld + r] = from[r * from_ld + c];
  }
}

void transpose_f32(const float* from, std::int64_t rows, std::int64_t columns,
                   float* to) {
  transpose_block(from, columns, rows, columns, to, rows);
}

inline bool all_finite(const float* row, std::int64_t n) {
  std::uint32_t special = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(row[i]);
    special |= (bits & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
  }
  return special == 0;
}

// With fp32 elements A and B have one layout.
bool pack_f32(const PackSource& s, const PackTargets& t) {
  float* plain = static_cast<float*>(t.a != nullptr ? t.a : t.b);
  float* turned = static_cast<float*>(
      t.a_transposed != nullptr ? t.a_transposed : t.b_transposed);
  // Sixteen rows at a time: enough for whole lines of the transposed ones.
  constexpr std::int64_t kRows = 16, kMost = 1024;
  alignas(64) float rows[kRows * kMost];
  bool finite = true;
  for (std::int64_t r0 = 0; r0 < s.padded_rows; r0 += kRows) {
    for (std::int64_t c0 = 0; c0 < s.padded_columns; c0 += kMost) {
      const std::int64_t n = std::min(kMost, s.padded_columns - c0);
      const std::int64_t valid =
          std::max<std::int64_t>(0, std::min(n, s.columns - c0));
      for (std::int64_t r = 0; r < kRows; ++r) {
        float* row = rows + r * n;
        const std::int64_t used = r0 + r < s.rows ? valid : 0;
        if (used > 0)
          widen_row(s.dtype,
                    row_of(s.dtype, s.data, s.stride, r0 + r) +
                        c0 * (traits(s.dtype).bits / 8),
                    used, row);
        std::fill(row + used, row + n, 0.0f);
        finite &= all_finite(row, used);
        if (plain != nullptr)
          std::memcpy(plain + (r0 + r) * s.padded_columns + c0, row,
                      static_cast<std::size_t>(n) * 4);
      }
      if (turned != nullptr)
        transpose_block(rows, n, kRows, n, turned + c0 * s.padded_rows + r0,
                        s.padded_rows);
    }
  }
  const std::size_t bytes =
      static_cast<std::size_t>(s.padded_rows * s.padded_columns) * 4;
  if (t.a != nullptr && t.b != nullptr) std::memcpy(t.b, t.a, bytes);
  if (t.a_transposed != nullptr && t.b_transposed != nullptr)
    std::memcpy(t.b_transposed, t.a_transposed, bytes);
  return finite;
}

HWY_INLINE void store_as_bf16(VF v, std::uint16_t* to) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<std::uint16_t, DF> d16;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
  const auto nan = hn::RebindMask(du, hn::Ne(v, v));
  const auto code = hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, code)), d16, to);
}

inline void round_row(DType dtype, const float* from, std::int64_t n,
                      float factor, std::byte* to) {
  const DF d;
  const auto f = hn::Set(d, factor);
  std::int64_t i = 0;
  auto* codes = reinterpret_cast<std::uint16_t*>(to);
  for (; i + kWidth <= n; i += kWidth) {
    const auto v = hn::Mul(hn::LoadU(d, from + i), f);
    if (dtype == DType::kF32) {
      hn::StoreU(v, d, reinterpret_cast<float*>(to) + i);
    } else if (dtype == DType::kBF16) {
      store_as_bf16(v, codes + i);
    } else {
      const hn::Rebind<hwy::float16_t, DF> d16;
      hn::StoreU(hn::DemoteTo(d16, v), d16,
                 reinterpret_cast<hwy::float16_t*>(codes + i));
    }
  }
  for (; i < n; ++i) {
    const float v = from[i] * factor;
    if (dtype == DType::kF32)
      reinterpret_cast<float*>(to)[i] = v;
    else
      codes[i] = static_cast<std::uint16_t>(
          encode_float(dtype, static_cast<double>(v)));
  }
}

void store_rows(const StoreRows& s) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const float factor =
        s.row_factor != nullptr ? s.factor * s.row_factor[r] : s.factor;
    round_row(s.dtype, s.from + r * s.from_stride, s.columns, factor,
              s.to + r * s.to_stride * (traits(s.dtype).bits / 8));
  }
}

void row_dots(DType dtype, const std::byte* a, std::int64_t a_stride,
              const std::byte* b, std::int64_t b_stride, std::int64_t rows,
              std::int64_t columns, float* out) {
  const DF d;
  constexpr std::int64_t kMost = 256;
  alignas(64) float x[kMost], y[kMost];
  for (std::int64_t r = 0; r < rows; ++r) {
    auto sum = hn::Zero(d);
    for (std::int64_t c0 = 0; c0 < columns; c0 += kMost) {
      const std::int64_t n = std::min(kMost, columns - c0);
      const std::int64_t padded = (n + kWidth - 1) / kWidth * kWidth;
      const std::int64_t at = c0 * (traits(dtype).bits / 8);
      widen_row(dtype, row_of(dtype, a, a_stride, r) + at, n, x);
      widen_row(dtype, row_of(dtype, b, b_stride, r) + at, n, y);
      std::fill(x + n, x + padded, 0.0f);
      std::fill(y + n, y + padded, 0.0f);
      for (std::int64_t i = 0; i < padded; i += kWidth)
        sum = hn::MulAdd(hn::Load(d, x + i), hn::Load(d, y + i), sum);
    }
    out[r] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
