// Tiles of 16-bit or 32-bit elements, transposed.
// A part of block_quant.cpp: no guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 128-bit blocks of kRows x kRows elements, one vector's worth of blocks side
// by side: log2(kRows) rounds of interleaving rows i and i + kRows / 2.
template <typename T>
struct TileTranspose {
  using D = hn::CappedTag<T, 64 / sizeof(T)>;
  using V = hn::Vec<D>;
  static constexpr std::int64_t kRows = 16 / sizeof(T);
  static constexpr std::int64_t kColumns = hn::MaxLanes(D());

  static HWY_INLINE void round(V* v) {
    const D d;
    V next[kRows];
    for (std::int64_t i = 0; i < kRows / 2; ++i) {
      next[2 * i] = hn::InterleaveLower(d, v[i], v[i + kRows / 2]);
      next[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + kRows / 2]);
    }
    for (std::int64_t i = 0; i < kRows; ++i) v[i] = next[i];
  }

  // kRows rows of kColumns elements.
  static HWY_INLINE void block(const T* in, std::int64_t in_stride, T* out,
                               std::int64_t out_stride) {
    const D d;
    V v[kRows];
    for (std::int64_t r = 0; r < kRows; ++r)
      v[r] = hn::LoadU(d, in + r * in_stride);
    for (std::int64_t n = 1; n < kRows; n *= 2) round(v);
    // Block b of vector i is column b * kRows + i.
    alignas(64) T columns[kRows * kColumns];
    for (std::int64_t i = 0; i < kRows; ++i)
      hn::Store(v[i], d, columns + i * kColumns);
    for (std::int64_t b = 0; b < kColumns / kRows; ++b) {
      for (std::int64_t i = 0; i < kRows; ++i) {
        std::memcpy(out + (b * kRows + i) * out_stride,
                    columns + i * kColumns + b * kRows, 16);
      }
    }
  }

  static void rest(const TransposeTile& t, std::int64_t r0, std::int64_t r1,
                   std::int64_t c0, std::int64_t c1) {
    const auto* in = reinterpret_cast<const T*>(t.in);
    auto* out = reinterpret_cast<T*>(t.out);
    for (std::int64_t r = r0; r < r1; ++r)
      for (std::int64_t c = c0; c < c1; ++c)
        out[c * t.out_stride + r] = in[r * t.in_stride + c];
  }

  static void run(const TransposeTile& t) {
    const auto* in = reinterpret_cast<const T*>(t.in);
    auto* out = reinterpret_cast<T*>(t.out);
    const std::int64_t rows = t.rows / kRows * kRows;
    const std::int64_t columns = t.columns / kColumns * kColumns;
    for (std::int64_t r = 0; r < rows; r += kRows)
      for (std::int64_t c = 0; c < columns; c += kColumns)
        block(in + r * t.in_stride + c, t.in_stride, out + c * t.out_stride + r,
              t.out_stride);
    rest(t, rows, t.rows, 0, t.columns);
    rest(t, 0, rows, columns, t.columns);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
