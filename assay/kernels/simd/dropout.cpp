// Compiles dropout once for every instruction set and hands out its tables.
#include "assay/kernels/dropout.h"

#include "assay/kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/dropout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "assay/kernels/ref/ref_dropout.h"
#include "assay/kernels/simd/simd_dropout.h"

#if ASSAY_VECTOR_TARGET
#include "assay/kernels/simd/philox_wide-inl.h"
#include "assay/kernels/simd/stored-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET
namespace {

// Bit 7 of each low byte: byte < threshold; the other bits are 0.
HWY_INLINE WVec bytes_below(WVec word, std::uint32_t threshold) {
  const std::uint64_t all = threshold * 0x01010101u;
  const auto t = wide(all), high = wide(0x80808080u);
  // Compares the low seven bits: the high bit of a byte survives where they
  // are not less.
  const auto rest = hn::Sub(hn::Or(word, high), wide(all & 0x7f7f7f7fu));
  const auto differ = hn::Xor(word, t);
  const auto below =
      hn::Or(hn::And(differ, t), hn::AndNot(hn::Or(differ, rest), high));
  return hn::And(below, high);
}

// Sixteen bits a lane: 1 is kept.
HWY_INLINE WVec mask_of(const Words& words, std::uint32_t threshold) {
  auto dropped = bytes_below(words.v[0], threshold);
  for (int k = 1; k < 4; ++k)
    dropped =
        hn::Or(hn::ShiftRight<2>(dropped), bytes_below(words.v[k], threshold));
  // Bits 1, 3 .. 31 hold the bytes; the upper ones go between the lower.
  dropped = hn::Or(dropped, hn::ShiftRight<17>(dropped));
  return hn::AndNot(dropped, wide(0xffff));
}

// Words 4 block .. 4 block + 3 of the streams of the chunks.
HWY_INLINE Words words_of(std::uint64_t block, const Keys& keys, WVec chunks) {
  return philox({{wide(block & 0xffffffffu), wide(block >> 32), chunks,
                  hn::ShiftRight<32>(chunks)}},
                keys);
}

// The same from word 4 block + kPhase on.
template <int kPhase>
HWY_INLINE Words words_from(std::uint64_t block, const Keys& keys,
                            WVec chunks) {
  const Words first = words_of(block, keys, chunks);
  if constexpr (kPhase == 0) return first;
  const Words next = words_of(block + 1, keys, chunks);
  Words words;
  for (int k = 0; k < 4; ++k)
    words.v[k] =
        k + kPhase < 4 ? first.v[(k + kPhase) % 4] : next.v[(k + kPhase) % 4];
  return words;
}

template <int kPhase>
void draw_from(const DropoutDraw& draw, std::int64_t begin, std::int64_t count,
               std::uint16_t* mask) {
  const WTag d;
  const hn::Rebind<std::uint16_t, WTag> d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Keys keys = keys_of(draw.seed);
  const std::uint64_t block = draw.offset / 4;
  const std::uint32_t threshold = draw.threshold;
  auto chunks = hn::Iota(d, static_cast<std::uint64_t>(begin));
  std::int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    const auto bits =
        mask_of(words_from<kPhase>(block, keys, chunks), threshold);
    hn::StoreU(hn::TruncateTo(d16, bits), d16, mask + c);
    chunks = hn::Add(chunks, wide(static_cast<std::uint64_t>(lanes)));
  }
  for (; c < count; ++c)
    mask[c] = dropout_mask(draw, static_cast<std::uint64_t>(begin + c));
}

void draw_masks(const DropoutDraw& draw, std::int64_t begin, std::int64_t count,
                std::uint16_t* mask) {
  switch (draw.offset % 4) {
    case 1:
      return draw_from<1>(draw, begin, count, mask);
    case 2:
      return draw_from<2>(draw, begin, count, mask);
    case 3:
      return draw_from<3>(draw, begin, count, mask);
    default:
      return draw_from<0>(draw, begin, count, mask);
  }
}

inline constexpr std::int64_t kApplyStep =
    2 * static_cast<std::int64_t>(hn::MaxLanes(FTag()));

template <class D>
HWY_INLINE auto mask_from(D d, std::uint64_t bits) {
  std::uint8_t bytes[8];
  std::memcpy(bytes, &bits, 8);
  return hn::LoadMaskBits(d, bytes);
}

HWY_INLINE FVec keep(FVec v, std::uint64_t bits, FVec scale) {
  return hn::IfThenElseZero(mask_from(FTag(), bits), hn::Mul(v, scale));
}

// 2 * lanes elements with the low bits of `bits`.
template <class Stored>
struct Apply {
  static HWY_INLINE void run(const typename Stored::T* x, std::uint64_t bits,
                             FVec scale, typename Stored::T* y) {
    const TwoVecs v = Stored::load2(x);
    Stored::store2(
        {keep(v.a, bits, scale), keep(v.b, bits >> float_lanes(), scale)}, y);
  }
};

// The 16-bit results are masked as such: no need to tell even from odd.
template <>
struct Apply<StoredBf16> {
  static HWY_INLINE void run(const std::uint16_t* x, std::uint64_t bits,
                             FVec scale, std::uint16_t* y) {
    const hn::Repartition<std::uint16_t, FTag> d16;
    TwoVecs v = StoredBf16Pairs::load2(x);
    v.a = hn::Mul(v.a, scale);
    v.b = hn::Mul(v.b, scale);
    const auto all = StoredBf16Pairs::pack(v);
    hn::StoreU(hn::IfThenElseZero(mask_from(d16, bits), all), d16, y);
  }
};

template <class Stored>
void apply_as(const void* x_data, const std::uint8_t* mask, std::int64_t n,
              float factor, void* y_data) {
  using T = typename Stored::T;
  const T* x = static_cast<const T*>(x_data);
  T* y = static_cast<T*>(y_data);
  const auto scale = constant(factor);
  std::int64_t i = 0;
  for (; i + kApplyStep <= n; i += kApplyStep) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, mask + i / 8, kApplyStep / 8);
    fetch_ahead(x + i, kApplyStep);
    fetch_ahead(y + i, kApplyStep);
    Apply<Stored>::run(x + i, bits, scale, y + i);
  }
  if (i == n) return;
  alignas(64) T in[32] = {}, out[32];
  const auto rest = static_cast<std::size_t>(n - i);
  std::uint64_t bits = 0;
  std::memcpy(&bits, mask + i / 8, (rest + 7) / 8);
  std::memcpy(in, x + i, rest * sizeof(T));
  Apply<Stored>::run(in, bits, scale, out);
  std::memcpy(y + i, out, rest * sizeof(T));
}

void apply(DType dtype, const void* x, const std::uint8_t* mask, std::int64_t n,
           float scale, void* y) {
  if (dtype == DType::kBF16) return apply_as<StoredBf16>(x, mask, n, scale, y);
  if (dtype == DType::kF16) return apply_as<StoredF16>(x, mask, n, scale, y);
  return apply_as<StoredF32>(x, mask, n, scale, y);
}

}  // namespace

const DropoutKernels* dropout_table() {
  static constexpr DropoutKernels kTable = {ASSAY_ISA_NAME, &draw_masks,
                                            &apply};
  return &kTable;
}

#else

const DropoutKernels* dropout_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(dropout_table);

std::vector<const DropoutKernels*> simd_dropout_tables() {
  ASSAY_COLLECT_TABLES(DropoutKernels, dropout_table);
}

}  // namespace assay
#endif
