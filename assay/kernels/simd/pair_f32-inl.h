// Tier 1 of an f32 chunk: fp64 sums, fp32 extrema and quotients.
// A part of simd_kernels.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

class PairF32 {
  using DF = hn::CappedTag<float, kLanes>;
  using DU = hn::RebindToUnsigned<DF>;
  using DD = hn::Repartition<double, DF>;
  using DH = hn::Half<DF>;
  using VF = hn::Vec<DF>;
  static constexpr std::int64_t kN = hn::MaxLanes(DF());
  static constexpr std::int64_t kHalf = kN / 2;

 public:
  static ChunkState run(const float* x, const float* y, std::int64_t n,
                        ChunkSums& out) {
    clear(out);
    if (same_start(bits(x), bits(y)) && equal(x, y, n, out))
      return all_finite(out) ? finish_equal(out) : ChunkState::kUntrusted;
    clear(out);
    bool signs = false;
    for (std::int64_t s = 0; s < kLanes; s += kN)
      signs |= slice(x + s, y + s, n, s, out);
    if (!all_finite(out)) return ChunkState::kUntrusted;
    if (signs) count_signs(bits(x), bits(y), n, out);
    return ChunkState::kDone;
  }

 private:
  static const std::uint32_t* bits(const float* p) {
    return reinterpret_cast<const std::uint32_t*>(p);
  }
  static HWY_INLINE auto widen(const float* p) {
    return hn::PromoteTo(DD(), hn::LoadU(DH(), p));
  }

  // fp32 side of a step.
  struct Narrow {
    VF rel, rel_max, x_min, x_max, y_min, y_max, zero_hit, signs;
    std::int64_t mismatches = 0, zeros = 0;

    HWY_INLINE void clear() {
      const DF d;
      rel = rel_max = zero_hit = signs = hn::Zero(d);
      x_min = y_min = hn::Inf(d);
      x_max = y_max = hn::Neg(hn::Inf(d));
    }
    HWY_INLINE void add(VF x, VF y) {
      const DF d;
      const DU du;
      const VF diff = hn::Xor(x, y);
      signs = hn::Or(signs, diff);
      const auto zero = hn::Eq(x, hn::Zero(d));
      zeros += static_cast<std::int64_t>(hn::CountTrue(d, zero));
      mismatches += static_cast<std::int64_t>(
          hn::CountTrue(du, hn::Ne(hn::BitCast(du, diff), hn::Zero(du))));
      const VF q = hn::Abs(hn::Div(hn::Sub(y, x), x));
      const VF r = hn::IfThenZeroElse(zero, q);
      zero_hit = hn::Or(zero_hit, hn::IfThenElseZero(zero, y));
      rel = hn::Add(rel, r);
      rel_max = hn::Max(rel_max, r);
      x_min = hn::Min(x_min, x);
      x_max = hn::Max(x_max, x);
      y_min = hn::Min(y_min, y);
      y_max = hn::Max(y_max, y);
    }
    HWY_INLINE void flush(ChunkSums& out, std::int64_t lane) {
      const DF d;
      const DD dd;
      double* sum = out.lane[kSumRel] + lane;
      const auto low = hn::PromoteTo(dd, hn::LowerHalf(rel));
      const auto high = hn::PromoteTo(dd, hn::UpperHalf(DH(), rel));
      hn::StoreU(hn::Add(hn::LoadU(dd, sum), low), dd, sum);
      hn::StoreU(hn::Add(hn::LoadU(dd, sum + kHalf), high), dd, sum + kHalf);
      rel = hn::Zero(d);
    }
    // True when some pair has x = 0 and y other than +-0.
    HWY_INLINE bool hit_zero() const {
      const DF d;
      return !hn::AllTrue(d, hn::Eq(zero_hit, hn::Zero(d)));
    }
    HWY_INLINE void finish(ChunkSums& out) const {
      const DF d;
      out.x_min = smaller(out.x_min, min_of(d, x_min));
      out.x_max = larger(out.x_max, max_of(d, x_max));
      out.y_min = smaller(out.y_min, min_of(d, y_min));
      out.y_max = larger(out.y_max, max_of(d, y_max));
      out.max_rel = larger(out.max_rel, max_of(d, rel_max));
      if (hit_zero()) out.max_rel = std::numeric_limits<double>::infinity();
      out.mismatches += mismatches;
      out.golden_zeros += zeros;
    }
  };

  // Lanes [lane, lane + kN) of the chunk; x and y start there. True when some
  // signs differ.
  static HWY_NOINLINE bool slice(const float* x, const float* y, std::int64_t n,
                                 std::int64_t lane, ChunkSums& out) {
    LaneSums<DD> low, high;
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
      narrow.flush(out, lane);
    }
    low.store(out, static_cast<std::size_t>(lane));
    high.store(out, static_cast<std::size_t>(lane + kHalf));
    out.max_abs = larger(out.max_abs, max_of(DD(), hn::Max(low.max, high.max)));
    narrow.finish(out);
    return any_sign(hn::BitCast(hn::RebindToSigned<DF>(), narrow.signs));
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
