// Tier 1 of an f64 chunk: also what every dtype without a kernel of its own is
// widened to.
// A part of simd_kernels.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

// One vector of lanes of the nine sums.
template <class D, class V = hn::Vec<D>>
struct LaneSums {
  V x, xx, y, yy, xy, d, xd, dd, abs, max;

  HWY_INLINE void clear() {
    const D tag;
    x = xx = y = yy = xy = d = xd = dd = abs = max = hn::Zero(tag);
  }
  HWY_INLINE V add(V vx, V vy) {
    const V vd = hn::Sub(vy, vx);
    const V va = hn::Abs(vd);
    x = hn::Add(x, vx);
    xx = hn::MulAdd(vx, vx, xx);
    y = hn::Add(y, vy);
    yy = hn::MulAdd(vy, vy, yy);
    xy = hn::MulAdd(vx, vy, xy);
    d = hn::Add(d, vd);
    xd = hn::MulAdd(vx, vd, xd);
    dd = hn::MulAdd(vd, vd, dd);
    abs = hn::Add(abs, va);
    max = hn::Max(max, va);
    return va;
  }
  HWY_INLINE void store(ChunkSums& out, std::size_t lane) const {
    const D tag;
    hn::StoreU(x, tag, out.lane[kSumX] + lane);
    hn::StoreU(xx, tag, out.lane[kSumXX] + lane);
    hn::StoreU(y, tag, out.lane[kSumY] + lane);
    hn::StoreU(yy, tag, out.lane[kSumYY] + lane);
    hn::StoreU(xy, tag, out.lane[kSumXY] + lane);
    hn::StoreU(d, tag, out.lane[kSumD] + lane);
    hn::StoreU(xd, tag, out.lane[kSumXD] + lane);
    hn::StoreU(dd, tag, out.lane[kSumDD] + lane);
    hn::StoreU(abs, tag, out.lane[kSumAbsD] + lane);
  }
};

class PairF64 {
  static constexpr std::int64_t kF64Lanes = 8;
  using D = hn::CappedTag<double, kF64Lanes>;
  using DU = hn::RebindToUnsigned<D>;
  using V = hn::Vec<D>;
  static constexpr std::int64_t kN = hn::MaxLanes(D());

 public:
  static ChunkState run(const double* x, const double* y, std::int64_t n,
                        ChunkSums& out) {
    clear(out);
    if (same_start(bits(x), bits(y))) {
      bool equal = true;
      for (std::int64_t s = 0; s < kF64Lanes && equal; s += kN)
        equal = equal_slice(x + s, y + s, n, s, out);
      if (equal)
        return all_finite(out) ? finish_equal(out) : ChunkState::kUntrusted;
      clear(out);
    }
    bool signs = false;
    for (std::int64_t s = 0; s < kF64Lanes; s += kN)
      signs |= slice(x + s, y + s, n, s, out);
    if (!all_finite(out)) return ChunkState::kUntrusted;
    if (signs) count_signs(bits(x), bits(y), n, out);
    return ChunkState::kDone;
  }

 private:
  static const std::uint64_t* bits(const double* p) {
    return reinterpret_cast<const std::uint64_t*>(p);
  }

  // What comes on top of LaneSums.
  struct Extra {
    V rel, rel_max, x_min, x_max, y_min, y_max, zero_hit, signs;
    std::int64_t mismatches = 0, zeros = 0;

    HWY_INLINE void clear() {
      rel = rel_max = zero_hit = signs = hn::Zero(D());
      x_min = y_min = hn::Inf(D());
      x_max = y_max = hn::Neg(hn::Inf(D()));
    }
    HWY_INLINE void add(V x, V y, V abs) {
      const D d;
      const DU du;
      const V diff = hn::Xor(x, y);
      signs = hn::Or(signs, diff);
      const auto zero = hn::Eq(x, hn::Zero(d));
      zeros += static_cast<std::int64_t>(hn::CountTrue(d, zero));
      mismatches += static_cast<std::int64_t>(
          hn::CountTrue(du, hn::Ne(hn::BitCast(du, diff), hn::Zero(du))));
      const V r = hn::IfThenZeroElse(zero, hn::Div(abs, hn::Abs(x)));
      zero_hit = hn::Max(zero_hit, hn::IfThenElseZero(zero, abs));
      rel = hn::Add(rel, r);
      rel_max = hn::Max(rel_max, r);
      x_min = hn::Min(x_min, x);
      x_max = hn::Max(x_max, x);
      y_min = hn::Min(y_min, y);
      y_max = hn::Max(y_max, y);
    }
    HWY_INLINE void finish(ChunkSums& out, std::int64_t lane) const {
      const D d;
      hn::StoreU(rel, d, out.lane[kSumRel] + lane);
      out.x_min = smaller(out.x_min, min_of(d, x_min));
      out.x_max = larger(out.x_max, max_of(d, x_max));
      out.y_min = smaller(out.y_min, min_of(d, y_min));
      out.y_max = larger(out.y_max, max_of(d, y_max));
      out.max_rel = larger(out.max_rel, max_of(d, rel_max));
      if (max_of(d, zero_hit) > 0)
        out.max_rel = std::numeric_limits<double>::infinity();
      out.mismatches += mismatches;
      out.golden_zeros += zeros;
    }
  };

  static HWY_NOINLINE bool slice(const double* x, const double* y,
                                 std::int64_t n, std::int64_t lane,
                                 ChunkSums& out) {
    LaneSums<D> sums;
    Extra extra;
    sums.clear();
    extra.clear();
    for (std::int64_t i = 0; i < n; i += kF64Lanes) {
      prefetch_ahead(x + i);
      prefetch_ahead(y + i);
      const V vx = hn::LoadU(D(), x + i), vy = hn::LoadU(D(), y + i);
      extra.add(vx, vy, sums.add(vx, vy));
    }
    sums.store(out, static_cast<std::size_t>(lane));
    out.max_abs = larger(out.max_abs, max_of(D(), sums.max));
    extra.finish(out, lane);
    return any_sign(hn::BitCast(hn::RebindToSigned<D>(), extra.signs));
  }

  static HWY_NOINLINE bool equal_slice(const double* x, const double* y,
                                       std::int64_t n, std::int64_t lane,
                                       ChunkSums& out) {
    const D d;
    V sx = hn::Zero(d), sxx = sx, diff = sx;
    V x_min = hn::Inf(d), x_max = hn::Neg(x_min);
    std::int64_t zeros = 0;
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t end = i + kFlush < n ? i + kFlush : n;
      for (; i < end; i += kF64Lanes) {
        prefetch_ahead(x + i);
        prefetch_ahead(y + i);
        const V v = hn::LoadU(d, x + i);
        diff = hn::Or(diff, hn::Xor(v, hn::LoadU(d, y + i)));
        zeros +=
            static_cast<std::int64_t>(hn::CountTrue(d, hn::Eq(v, hn::Zero(d))));
        sx = hn::Add(sx, v);
        sxx = hn::MulAdd(v, v, sxx);
        x_min = hn::Min(x_min, v);
        x_max = hn::Max(x_max, v);
      }
      const DU du;
      if (!hn::AllTrue(du, hn::Eq(hn::BitCast(du, diff), hn::Zero(du))))
        return false;
    }
    hn::StoreU(sx, d, out.lane[kSumX] + lane);
    hn::StoreU(sxx, d, out.lane[kSumXX] + lane);
    out.x_min = smaller(out.x_min, min_of(d, x_min));
    out.x_max = larger(out.x_max, max_of(d, x_max));
    out.golden_zeros += zeros;
    return true;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
