// Transposing a matrix of bytes, 16 columns at a time.
// A part of cast.cpp: no guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DBytes = hn::CappedTag<std::uint8_t, 64>;

// 16 bytes of each of rows 0, 16, 32 ... in the 128-bit blocks of one vector.
template <class D>
HWY_INLINE hn::Vec<D> load_rows(D d, const std::uint8_t* in,
                                std::int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 16) {
    return hn::LoadU(d, in);
  } else {
    const hn::Half<D> half;
    constexpr std::int64_t kRows = hn::MaxLanes(D()) / 2;
    return hn::Combine(d, load_rows(half, in + kRows * stride, stride),
                       load_rows(half, in, stride));
  }
}

// Rows of a large matrix lie far apart: a column of tiles writes one line in
// each page and would first have to read it. Such lines go past the cache
// where they are whole (measured: twice as fast for 4096 x 4096).
inline constexpr std::int64_t kFarApart = 2048;
HWY_INLINE bool goes_past_cache(const std::uint8_t* out,
                                std::int64_t out_stride) {
  constexpr std::int64_t kLine = 64;
  return out_stride >= kFarApart && out_stride % kLine == 0 &&
         reinterpret_cast<std::uintptr_t>(out) % kLine == 0 &&
         hn::Lanes(DBytes()) == kLine;
}

// As many rows as a vector has bytes, 16 columns. Interleaving the registers i
// and i + 8 rotates the bits of (register, byte) by one; after four times the
// two have changed places.
template <bool kStream>
HWY_INLINE void transpose_tile(const std::uint8_t* in, std::int64_t in_stride,
                               std::uint8_t* out, std::int64_t out_stride) {
  const DBytes d;
  hn::Vec<DBytes> a[16], b[16];
  for (int i = 0; i < 16; ++i)
    a[i] = load_rows(d, in + i * in_stride, in_stride);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = hn::InterleaveLower(d, a[i], a[i + 8]);
      b[2 * i + 1] = hn::InterleaveUpper(d, a[i], a[i + 8]);
    }
    for (int i = 0; i < 8; ++i) {
      a[2 * i] = hn::InterleaveLower(d, b[i], b[i + 8]);
      a[2 * i + 1] = hn::InterleaveUpper(d, b[i], b[i + 8]);
    }
  }
  for (int i = 0; i < 16; ++i) {
    if constexpr (kStream)
      hn::Stream(a[i], d, out + i * out_stride);
    else
      hn::StoreU(a[i], d, out + i * out_stride);
  }
}

// What is left over at the edges.
HWY_INLINE void transpose_edge(const std::uint8_t* in, std::int64_t in_stride,
                               std::int64_t rows, std::int64_t columns,
                               std::uint8_t* out, std::int64_t out_stride) {
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r)
      out[c * out_stride + r] = in[r * in_stride + c];
}

// Strips of 256 columns keep the lines of the input that a strip touches in
// the cache until they are used up.
template <bool kStream>
void transpose_strips(const std::uint8_t* in, std::int64_t in_stride,
                      std::int64_t rows, std::int64_t columns,
                      std::uint8_t* out, std::int64_t out_stride) {
  constexpr std::int64_t kStrip = 256;
  const auto tall = static_cast<std::int64_t>(hn::Lanes(DBytes()));
  const std::int64_t whole = rows / tall * tall;
  for (std::int64_t begin = 0; begin < columns; begin += kStrip) {
    const std::int64_t end = std::min(begin + kStrip, columns);
    const std::int64_t wide = begin + (end - begin) / 16 * 16;
    for (std::int64_t r = 0; r < whole; r += tall) {
      const std::uint8_t* from = in + r * in_stride;
      for (std::int64_t c = begin; c < wide; c += 16)
        transpose_tile<kStream>(from + c, in_stride, out + c * out_stride + r,
                                out_stride);
      transpose_edge(from + wide, in_stride, tall, end - wide,
                     out + wide * out_stride + r, out_stride);
    }
    transpose_edge(in + whole * in_stride + begin, in_stride, rows - whole,
                   end - begin, out + begin * out_stride + whole, out_stride);
  }
}

inline void transpose_bytes(const std::uint8_t* in, std::int64_t in_stride,
                            std::int64_t rows, std::int64_t columns,
                            std::uint8_t* out, std::int64_t out_stride) {
  if (!goes_past_cache(out, out_stride))
    return transpose_strips<false>(in, in_stride, rows, columns, out,
                                   out_stride);
  transpose_strips<true>(in, in_stride, rows, columns, out, out_stride);
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
