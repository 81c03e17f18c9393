// The 16-point Hadamard transform, a column a lane.
// A part of block_quant.cpp, after cast_row-inl.h: no guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums and differences of elements a distance apart.
template <int kDistance>
HWY_INLINE void butterfly(VF (&y)[16]) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (i & kDistance) continue;
    const VF a = y[i], b = y[i + kDistance];
    y[i] = hn::Add(a, b);
    y[i + kDistance] = hn::Sub(a, b);
  }
}

HWY_INLINE void hadamard_columns(const std::uint16_t* x, std::int64_t stride,
                                 std::uint16_t sign_mask, std::uint16_t* out,
                                 std::int64_t out_stride) {
  const DF df;
  VF y[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const VU sign = hn::Set(DU(), std::uint32_t{sign_mask} >> i << 31);
    y[i] = hn::Xor(RowBf16::load(x + i * stride), hn::BitCast(df, sign));
  }
  butterfly<1>(y);
  butterfly<2>(y);
  butterfly<4>(y);
  butterfly<8>(y);
  const VF nan = hn::BitCast(df, hn::Set(DU(), 0x7fc00000));
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const VF v = hn::Mul(y[i], hn::Set(df, 0.25f));
    RowBf16::store(hn::IfThenElse(hn::IsNaN(v), nan, v), out + i * out_stride);
  }
}

inline void hadamard16_columns(const std::uint16_t* x, std::int64_t stride,
                               std::int64_t columns, std::uint16_t sign_mask,
                               std::uint16_t* out, std::int64_t out_stride) {
  std::int64_t c = 0;
  for (; c + lanes() <= columns; c += lanes())
    hadamard_columns(x + c, stride, sign_mask, out + c, out_stride);
  if (c == columns) return;
  kRefBlockQuant.hadamard16_columns(x + c, stride, columns - c, sign_mask,
                                    out + c, out_stride);
}

// Runs along rows: sixteen of them side by side, transposed.
inline void hadamard16(std::uint16_t* x, std::int64_t vectors,
                       std::uint16_t sign_mask) {
  std::int64_t v = 0;
  for (; v + 16 <= vectors; v += 16, x += 256) {
    std::uint16_t columns[256];
    for (int r = 0; r < 16; ++r)
      for (int c = 0; c < 16; ++c) columns[c * 16 + r] = x[r * 16 + c];
    hadamard16_columns(columns, 16, 16, sign_mask, columns, 16);
    for (int r = 0; r < 16; ++r)
      for (int c = 0; c < 16; ++c) x[r * 16 + c] = columns[c * 16 + r];
  }
  kRefBlockQuant.hadamard16(x, vectors - v, sign_mask);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
