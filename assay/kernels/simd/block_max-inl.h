// Largest magnitudes of blocks, in the integers of the codes: their order is
// that of the numbers, NaN above infinity.
// A part of block_quant.cpp, after cast_row-inl.h: no guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// kKeepNan: a NaN is the maximum; else it counts as 0.
template <typename Row, std::int64_t kBlock, bool kKeepNan>
struct BlockMax {
  using T = typename Row::T;
  using Bits = typename Row::Bits;
  using D = hn::CappedTag<Bits, kBlock>;
  using V = hn::Vec<D>;
  // Blocks that one step of the reduction takes: the lanes of 128 bits.
  static constexpr std::int64_t kGroup = 16 / sizeof(Bits);

  static HWY_INLINE V magnitude(V bits) {
    const D d;
    const hn::RebindToSigned<D> di;
    const V mask =
        hn::Set(d, static_cast<Bits>(std::numeric_limits<Bits>::max() / 2));
    const V v = hn::And(bits, mask);
    if constexpr (kKeepNan) return v;
    const auto nan =
        hn::Gt(hn::BitCast(di, v), hn::BitCast(di, hn::Set(d, Row::kInfinity)));
    return hn::IfThenZeroElse(hn::RebindMask(d, nan), v);
  }

  // One vector whose largest lane is that of the block at p.
  static HWY_INLINE V of_block(const T* p) {
    const D d;
    const auto* bits = reinterpret_cast<const Bits*>(p);
    V most = magnitude(hn::LoadU(d, bits));
    for (std::size_t i = hn::Lanes(d); i < kBlock; i += hn::Lanes(d))
      most = hn::Max(most, magnitude(hn::LoadU(d, bits + i)));
    return most;
  }

  // Within each 128 bits, one after the other the lanes (of Wide) of a and b,
  // the larger of the lower and the upper half of each.
  template <typename Wide>
  static HWY_INLINE V pair(V a, V b) {
    const D d;
    const hn::Repartition<Wide, D> dw;
    const auto wa = hn::BitCast(dw, a), wb = hn::BitCast(dw, b);
    return hn::Max(hn::BitCast(d, hn::InterleaveLower(dw, wa, wb)),
                   hn::BitCast(d, hn::InterleaveUpper(dw, wa, wb)));
  }

  // Element i of the result: the largest lane of v[i].
  static HWY_INLINE void reduce(const V* v, Bits* out) {
    using U32 = std::uint32_t;
    using U64 = std::uint64_t;
    if constexpr (sizeof(Bits) == 2) {
      V u[4];
      for (int i = 0; i < 4; ++i) u[i] = pair<Bits>(v[2 * i], v[2 * i + 1]);
      fold(D(), pair<U64>(pair<U32>(u[0], u[1]), pair<U32>(u[2], u[3])), out);
    } else {
      fold(D(), pair<U64>(pair<U32>(v[0], v[1]), pair<U32>(v[2], v[3])), out);
    }
  }

  // The larger of the 128-bit parts, lane by lane.
  template <class DV, class VV>
  static HWY_INLINE void fold(DV d, VV v, Bits* out) {
    if constexpr (hn::MaxLanes(DV()) > kGroup) {
      const hn::Half<DV> half;
      fold(half, hn::Max(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), out);
    } else {
      hn::StoreU(v, d, out);
    }
  }

  // out[i], i < kGroup: the maximum of block i; blocks are `stride` elements
  // apart.
  static HWY_INLINE void group(const T* p, std::int64_t stride, Bits* out) {
    V v[kGroup];
    for (std::int64_t i = 0; i < kGroup; ++i) v[i] = of_block(p + i * stride);
    reduce(v, out);
  }
};

// A vector in pieces of 128 bits: as BlockMax::reduce() stored it a moment ago.
// A wider load would wait until all stores before it are in the cache.
template <class D>
HWY_INLINE hn::Vec<D> load_pieces(D d, const hn::TFromD<D>* p) {
  if constexpr (hn::MaxLanes(D()) * sizeof(*p) <= 16) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_pieces(half, p + hn::MaxLanes(half)),
                       load_pieces(half, p));
  }
}

// A vector of magnitudes of Row's dtype as fp32.
template <typename Row>
HWY_INLINE VF magnitudes_as_f32(const typename Row::Bits* bits) {
  const hn::Rebind<typename Row::Bits, DF> d;
  return Row::widen(load_pieces(d, bits));
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
