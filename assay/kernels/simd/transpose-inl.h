// Streaming copies, and transposes of tiles of 64 by 64 bytes.
// A part of simd_movement.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::int64_t kLine = 64;

HWY_INLINE bool on_line(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % kLine == 0;
}

// One cache line; `out` aligned where kStream.
template <bool kStream>
HWY_INLINE void copy_line(const std::uint8_t* in, std::uint8_t* out) {
  const hn::ScalableTag<std::uint8_t> d;
  constexpr std::int64_t kN = hn::MaxLanes(d);
  for (std::int64_t i = 0; i < kLine; i += kN) {
    const auto v = hn::LoadU(d, in + i);
    if constexpr (kStream)
      hn::Stream(v, d, out + i);
    else
      hn::StoreU(v, d, out + i);
  }
}

inline void copy_bytes(const std::byte* from, std::int64_t bytes, bool stream,
                       std::byte* to) {
  if (bytes <= 0) return;
  if (!stream || bytes < 2 * kLine) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  const auto head =
      static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(to) % kLine);
  std::memcpy(to, from, static_cast<std::size_t>(head));
  auto in = reinterpret_cast<const std::uint8_t*>(from) + head;
  auto out = reinterpret_cast<std::uint8_t*>(to) + head;
  bytes -= head;
  for (; bytes >= kLine; bytes -= kLine, in += kLine, out += kLine)
    copy_line<true>(in, out);
  std::memcpy(out, in, static_cast<std::size_t>(bytes));
}

// A tile has kSide rows of kSide elements, one line each way. It is gathered
// into a buffer first, so that rows a multiple of 4096 bytes apart, which
// share one set of the first-level cache, are read once; and written line by
// line.
//
// A vector holds one 128-bit block for each of kBlocks groups of rows; in
// every block kRows x kRows elements are transposed by log2(kRows) rounds of
// interleaving.
template <typename T>
class Transpose {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::int64_t kSize = sizeof(T);
  static constexpr std::int64_t kSide = kLine / kSize;
  static constexpr int kRows = 16 / kSize;
  static constexpr int kBlocks = hn::MaxLanes(D()) / kRows;

 public:
  static void run(const std::byte* in_bytes, std::int64_t in_stride,
                  std::int64_t rows, std::int64_t columns, bool stream,
                  std::byte* out_bytes, std::int64_t out_stride) {
    const T* in = reinterpret_cast<const T*>(in_bytes);
    T* out = reinterpret_cast<T*>(out_bytes);
    const bool lines =
        stream && on_line(out) && out_stride * kSize % kLine == 0;
    std::int64_t c = 0;
    for (; c + kSide <= columns; c += kSide) {
      std::int64_t r = 0;
      for (; r + kSide <= rows; r += kSide) {
        const T* from = in + r * in_stride + c;
        T* to = out + c * out_stride + r;
        if (lines)
          tile<true>(from, in_stride, to, out_stride);
        else
          tile<false>(from, in_stride, to, out_stride);
      }
      edge(in, in_stride, r, rows, c, c + kSide, out, out_stride);
    }
    edge(in, in_stride, 0, rows, c, columns, out, out_stride);
  }

 private:
  static void edge(const T* in, std::int64_t in_stride, std::int64_t row_begin,
                   std::int64_t row_end, std::int64_t column_begin,
                   std::int64_t column_end, T* out, std::int64_t out_stride) {
    for (std::int64_t r = row_begin; r < row_end; ++r)
      for (std::int64_t c = column_begin; c < column_end; ++c)
        out[c * out_stride + r] = in[r * in_stride + c];
  }

  // The 128-bit blocks at p, p + step, ... as one vector.
  static HWY_INLINE V load_blocks(const T* p, std::int64_t step) {
    if constexpr (kBlocks == 1) {
      return hn::LoadU(D(), p);
    } else {
      const hn::Half<D> half;
      if constexpr (kBlocks == 2) {
        return hn::Combine(D(), hn::LoadU(half, p + step), hn::LoadU(half, p));
      } else {
        const hn::Half<decltype(half)> quarter;
        return hn::Combine(D(),
                           hn::Combine(half, hn::LoadU(quarter, p + 3 * step),
                                       hn::LoadU(quarter, p + 2 * step)),
                           hn::Combine(half, hn::LoadU(quarter, p + step),
                                       hn::LoadU(quarter, p)));
      }
    }
  }

  // Rounds of interleaving: each doubles the run of elements of one column.
  template <typename U>
  static HWY_INLINE void interleave(V (&v)[kRows]) {
    const hn::ScalableTag<U> d;
    V next[kRows];
    for (int i = 0; i < kRows / 2; ++i) {
      const auto a = hn::BitCast(d, v[i]);
      const auto b = hn::BitCast(d, v[i + kRows / 2]);
      next[2 * i] = hn::BitCast(D(), hn::InterleaveLower(d, a, b));
      next[2 * i + 1] = hn::BitCast(D(), hn::InterleaveUpper(d, a, b));
    }
    for (int i = 0; i < kRows; ++i) v[i] = next[i];
  }

  template <bool kStream>
  static HWY_INLINE void tile(const T* in, std::int64_t in_stride, T* out,
                              std::int64_t out_stride) {
    const D d;
    alignas(64) T buffer[kSide * kSide];
    for (std::int64_t r = 0; r < kSide; ++r)
      copy_line<false>(
          reinterpret_cast<const std::uint8_t*>(in + r * in_stride),
          reinterpret_cast<std::uint8_t*>(buffer + r * kSide));
    constexpr std::int64_t kStep = kRows * kBlocks;  // rows of one vector
    for (std::int64_t c = 0; c < kSide; c += kRows) {
      V v[kSide / kStep][kRows];
      for (std::int64_t s = 0; s < kSide / kStep; ++s) {
        for (int i = 0; i < kRows; ++i)
          v[s][i] =
              load_blocks(buffer + (s * kStep + i) * kSide + c, kRows * kSide);
        for (int round = 1; round < kRows; round *= 2) interleave<T>(v[s]);
      }
      for (int i = 0; i < kRows; ++i) {
        for (std::int64_t s = 0; s < kSide / kStep; ++s) {
          T* to = out + (c + i) * out_stride + s * kStep;
          if constexpr (kStream)
            hn::Stream(v[s][i], d, to);
          else
            hn::StoreU(v[s][i], d, to);
        }
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
