// Tier 1 of an f32 chunk: fp64 sums, fp32 extrema and quotients.
// A part of simd_kernels.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

class PairF32 {
  using DF = hn::CappedTag<float, kLanes>;
  using DU = hn::RebindToUnsigned<DF>;
  using DI = hn::RebindToSigned<DF>;
  using DD = hn::Repartition<double, DF>;
  using DH = hn::Half<DF>;
  using VF = hn::Vec<DF>;
  using VD = hn::Vec<DD>;
  static constexpr std::int64_t kN = hn::MaxLanes(DF());
  static constexpr std::int64_t kHalf = kN / 2;

 public:
  static ChunkState run(const float* x, const float* y, std::int64_t n,
                        ChunkSums& out) {
    clear(out);
    if (same_start(bits(x), bits(y)) && equal(x, y, n, out))
      return all_finite(out) ? finish_equal(out) : ChunkState::kUntrusted;
    clear(out);
    Flags flags;
    for (std::int64_t s = 0; s < kLanes; s += kN)
      slice(x + s, y + s, n, s, flags, out);
    if (!all_finite(out)) return ChunkState::kUntrusted;
    if (flags.zero_hit && hits_zero(x, y, n))
      out.max_rel = std::numeric_limits<double>::infinity();
    if (flags.signs) count_signs(bits(x), bits(y), n, out);
    if (!derive_target(out)) target_sums(x, y, n, out);
    return ChunkState::kDone;
  }

 private:
  struct Flags {
    bool signs = false;     // some signs differ
    bool zero_hit = false;  // some golden zero is not the same bits
  };

  static const std::uint32_t* bits(const float* p) {
    return reinterpret_cast<const std::uint32_t*>(p);
  }
  static HWY_INLINE auto widen(const float* p) {
    return hn::PromoteTo(DD(), hn::LoadU(DH(), p));
  }
  static HWY_INLINE std::uint64_t mask_bits(hn::Mask<DF> mask) {
    std::uint64_t value = 0;
    hn::StoreMaskBits(DF(), mask, reinterpret_cast<std::uint8_t*>(&value));
    return value;
  }

  // fp32 side of a step.
  struct Narrow {
    VF rel, abs, rel_max, abs_max, x_min, x_max, y_min, y_max, signs;
    std::uint64_t zero_hit = 0;
    std::size_t mismatches = 0, zeros = 0;

    HWY_INLINE void clear() {
      const DF d;
      rel = abs = rel_max = abs_max = signs = hn::Zero(d);
      x_min = y_min = hn::Inf(d);
      x_max = y_max = hn::Neg(hn::Inf(d));
    }
    HWY_INLINE void add(VF x, VF y) {
      const DF d;
      const DU du;
      const auto nonzero = hn::Ne(x, hn::Zero(d));
      const auto differ = hn::Ne(hn::BitCast(du, x), hn::BitCast(du, y));
      const std::uint64_t zero_bits = mask_bits(hn::Not(nonzero));
      const std::uint64_t differ_bits = mask_bits(hn::RebindMask(d, differ));
      zeros += hwy::PopCount(zero_bits);
      mismatches += hwy::PopCount(differ_bits);
      zero_hit |= zero_bits & differ_bits;
      signs = hn::Or(signs, hn::Xor(x, y));
      const VF a = hn::Abs(hn::Sub(y, x));
      const VF r = hn::Abs(hn::IfThenElseZero(nonzero, hn::Div(a, x)));
      abs = hn::Add(abs, a);
      abs_max = hn::Max(abs_max, a);
      rel = hn::Add(rel, r);
      rel_max = hn::Max(rel_max, r);
      x_min = hn::Min(x_min, x);
      x_max = hn::Max(x_max, x);
      y_min = hn::Min(y_min, y);
      y_max = hn::Max(y_max, y);
    }
    HWY_INLINE void finish(Flags& flags, ChunkSums& out) const {
      const DF d;
      out.x_min = smaller(out.x_min, min_of(d, x_min));
      out.x_max = larger(out.x_max, max_of(d, x_max));
      out.y_min = smaller(out.y_min, min_of(d, y_min));
      out.y_max = larger(out.y_max, max_of(d, y_max));
      out.max_abs = larger(out.max_abs, max_of(d, abs_max));
      out.max_rel = larger(out.max_rel, max_of(d, rel_max));
      out.mismatches += static_cast<std::int64_t>(mismatches);
      out.golden_zeros += static_cast<std::int64_t>(zeros);
      flags.signs |= any_sign(hn::BitCast(DI(), signs));
      flags.zero_hit |= zero_hit != 0;
    }
  };

  // fp64 side of a step: half of its lanes.
  struct Wide {
    VD x, xx, d, xd, dd;

    HWY_INLINE void clear() { x = xx = d = xd = dd = hn::Zero(DD()); }
    HWY_INLINE void add(VD vx, VD vy) {
      const VD vd = hn::Sub(vy, vx);
      x = hn::Add(x, vx);
      xx = hn::MulAdd(vx, vx, xx);
      d = hn::Add(d, vd);
      xd = hn::MulAdd(vx, vd, xd);
      dd = hn::MulAdd(vd, vd, dd);
    }
    HWY_INLINE void store(ChunkSums& out, std::int64_t lane) const {
      hn::StoreU(x, DD(), out.lane[kSumX] + lane);
      hn::StoreU(xx, DD(), out.lane[kSumXX] + lane);
      hn::StoreU(d, DD(), out.lane[kSumD] + lane);
      hn::StoreU(xd, DD(), out.lane[kSumXD] + lane);
      hn::StoreU(dd, DD(), out.lane[kSumDD] + lane);
    }
  };

  // Lanes [lane, lane + kN) of the chunk; x and y start there.
  static HWY_NOINLINE void slice(const float* x, const float* y, std::int64_t n,
                                 std::int64_t lane, Flags& flags,
                                 ChunkSums& out) {
    Wide low, high;
    Narrow narrow;
    low.clear();
    high.clear();
    narrow.clear();
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t end = i + kFlush < n ? i + kFlush : n;
      for (; i < end; i += kLanes) {
        prefetch_ahead(x + i);
        prefetch_ahead(y + i);
        narrow.add(hn::LoadU(DF(), x + i), hn::LoadU(DF(), y + i));
        low.add(widen(x + i), widen(y + i));
        high.add(widen(x + i + kHalf), widen(y + i + kHalf));
      }
      flush(narrow.abs, out.lane[kSumAbsD] + lane);
      flush(narrow.rel, out.lane[kSumRel] + lane);
    }
    low.store(out, lane);
    high.store(out, lane + kHalf);
    narrow.finish(flags, out);
  }

  // True when some pair has x = 0 and y other than +-0.
  static HWY_NOINLINE bool hits_zero(const float* x, const float* y,
                                     std::int64_t n) {
    const DF d;
    auto hit = hn::Zero(d);
    for (std::int64_t i = 0; i < n; i += kN) {
      const auto zero = hn::Eq(hn::LoadU(d, x + i), hn::Zero(d));
      hit =
          hn::Max(hit, hn::IfThenElseZero(zero, hn::Abs(hn::LoadU(d, y + i))));
    }
    return max_of(d, hit) > 0;
  }

  struct TargetSums {
    VD y, yy, xy;
    HWY_INLINE void add(VD vx, VD vy) {
      y = hn::Add(y, vy);
      yy = hn::MulAdd(vy, vy, yy);
      xy = hn::MulAdd(vx, vy, xy);
    }
    HWY_INLINE void store(ChunkSums& out, std::int64_t lane) const {
      hn::StoreU(y, DD(), out.lane[kSumY] + lane);
      hn::StoreU(yy, DD(), out.lane[kSumYY] + lane);
      hn::StoreU(xy, DD(), out.lane[kSumXY] + lane);
    }
  };

  static HWY_NOINLINE void target_sums(const float* x, const float* y,
                                       std::int64_t n, ChunkSums& out) {
    for (std::int64_t lane = 0; lane < kLanes; lane += kHalf) {
      TargetSums sums{hn::Zero(DD()), hn::Zero(DD()), hn::Zero(DD())};
      for (std::int64_t i = lane; i < n; i += kLanes)
        sums.add(widen(x + i), widen(y + i));
      sums.store(out, lane);
    }
  }

  // Golden sums as long as both sides are the same bits; false at the first
  // group that differs.
  static HWY_NOINLINE bool equal(const float* x, const float* y, std::int64_t n,
                                 ChunkSums& out) {
    for (std::int64_t s = 0; s < kLanes; s += kN) {
      if (!equal_slice(x + s, y + s, n, s, out)) return false;
    }
    return true;
  }

  static HWY_INLINE bool equal_slice(const float* x, const float* y,
                                     std::int64_t n, std::int64_t lane,
                                     ChunkSums& out) {
    const DF d;
    const DU du;
    const DD dd;
    auto x0 = hn::Zero(dd), x1 = x0, xx0 = x0, xx1 = x0;
    auto diff = hn::Zero(du);
    VF x_min = hn::Inf(d), x_max = hn::Neg(x_min);
    std::int64_t zeros = 0;
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t end = i + kFlush < n ? i + kFlush : n;
      for (; i < end; i += kLanes) {
        prefetch_ahead(x + i);
        prefetch_ahead(y + i);
        const VF v = hn::LoadU(d, x + i);
        diff = hn::Or(diff,
                      hn::Xor(hn::BitCast(du, v), hn::LoadU(du, bits(y + i))));
        zeros +=
            static_cast<std::int64_t>(hn::CountTrue(d, hn::Eq(v, hn::Zero(d))));
        x_min = hn::Min(x_min, v);
        x_max = hn::Max(x_max, v);
        const auto low = widen(x + i), high = widen(x + i + kHalf);
        x0 = hn::Add(x0, low);
        x1 = hn::Add(x1, high);
        xx0 = hn::MulAdd(low, low, xx0);
        xx1 = hn::MulAdd(high, high, xx1);
      }
      if (!hn::AllTrue(du, hn::Eq(diff, hn::Zero(du)))) return false;
    }
    hn::StoreU(x0, dd, out.lane[kSumX] + lane);
    hn::StoreU(x1, dd, out.lane[kSumX] + lane + kHalf);
    hn::StoreU(xx0, dd, out.lane[kSumXX] + lane);
    hn::StoreU(xx1, dd, out.lane[kSumXX] + lane + kHalf);
    out.x_min = smaller(out.x_min, min_of(d, x_min));
    out.x_max = larger(out.x_max, max_of(d, x_max));
    out.golden_zeros += zeros;
    return true;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
