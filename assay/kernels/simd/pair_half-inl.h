// Tier 1 of a bf16 or f16 chunk: fp32 arithmetic in short partial sums, see
// PairFn for the error bounds.
// A part of simd_kernels.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

// `Format` is Bf16 or F16 of widen-inl.h.
template <class Format>
class PairHalf {
  using DF = hn::CappedTag<float, kLanes>;
  using DD = hn::Repartition<double, DF>;
  using DH = hn::Half<DF>;
  using DU = hn::Repartition<std::uint16_t, DF>;
  using DI = hn::RebindToSigned<DU>;
  using VF = hn::Vec<DF>;
  static constexpr std::int64_t kN = hn::MaxLanes(DF());
  // Below this largest magnitude a product could underflow in fp32.
  static constexpr double kTiny = 0x1p-57;
  // |d| / kFloor of a golden zero with d != 0 is beyond this.
  static constexpr double kHugeRel = 0x1p16;

 public:
  static ChunkState run(const std::uint16_t* x, const std::uint16_t* y,
                        std::int64_t n, ChunkSums& out) {
    clear(out);
    if (same_start(x, y)) {
      bool equal = true;
      for (std::int64_t s = 0; s < kLanes && equal; s += kN)
        equal = equal_slice(x, y, n, s, out);
      if (equal) return finish(true, out);
      clear(out);
    }
    bool signs = false;
    for (std::int64_t s = 0; s < kLanes; s += kN)
      signs |= slice(x, y, n, s, out);
    if (out.max_rel >= kHugeRel) quotients(x, y, n, out);
    if (!all_finite(out)) return ChunkState::kUntrusted;
    if (signs) count_signs(x, y, n, out);
    if (!derive_target(out)) target_sums(x, y, n, out);
    return finish(false, out);
  }

 private:
  // Largest and smallest of 16-bit sign-magnitude codes without decoding: as
  // unsigned numbers the most negative value is the largest; as signed ones
  // the most positive.
  struct Extremes {
    hn::Vec<DU> top;
    hn::Vec<DI> signed_top;
    HWY_INLINE void clear() {
      top = hn::Zero(DU());
      signed_top = hn::Set(DI(), std::int16_t{-32768});
    }
    HWY_INLINE void add(hn::Vec<DU> v) {
      top = hn::Max(top, v);
      signed_top = hn::Max(signed_top, hn::BitCast(DI(), v));
    }
    // `single`: all values have one sign, so the magnitude nearest to zero,
    // which only a look at the smallest code gives, is missing.
    HWY_INLINE void finish(const std::uint16_t* codes, std::int64_t n,
                           double& min, double& max) const {
      const auto highest = hn::GetLane(hn::MaxOfLanes(DU(), top));
      const auto positive = hn::GetLane(hn::MaxOfLanes(DI(), signed_top));
      const bool has_negative = (highest & 0x8000) != 0;
      const bool has_positive = positive >= 0;
      std::uint16_t nearest = 0;
      if (!has_negative || !has_positive) nearest = smallest_code(codes, n);
      min = smaller(min, Format::value(has_negative ? highest : nearest));
      max = larger(
          max, Format::value(has_positive ? static_cast<std::uint16_t>(positive)
                                          : nearest));
    }
  };

  // Codes of 0 and -0.
  static HWY_INLINE std::int64_t count_zeros(hn::Vec<DU> v) {
    const DU d;
    const auto magnitude = hn::Set(d, std::uint16_t{0x7fff});
#if HWY_TARGET == HWY_AVX3
    return hwy::PopCount(_mm512_testn_epi16_mask(v.raw, magnitude.raw));
#else
    return static_cast<std::int64_t>(
        hn::CountTrue(d, hn::Eq(hn::And(v, magnitude), hn::Zero(d))));
#endif
  }

  static HWY_NOINLINE std::uint16_t smallest_code(const std::uint16_t* codes,
                                                  std::int64_t n) {
    const DU d;
    auto v = hn::Set(d, std::uint16_t{0xffff});
    for (std::int64_t i = 0; i < n; i += 2 * kN)
      v = hn::Min(v, hn::LoadU(d, codes + i));
    return hn::GetLane(hn::MinOfLanes(d, v));
  }

  struct Partials {
    VF x, xx, d, xd, dd, abs, rel, max_abs, max_rel;
    HWY_INLINE void clear() {
      x = xx = d = xd = dd = abs = rel = max_abs = max_rel = hn::Zero(DF());
    }
    HWY_INLINE void add(VF vx, VF vy) {
      const VF vd = hn::Sub(vy, vx);
      const VF va = hn::Abs(vd);
      const VF floor = hn::Set(DF(), Format::floor());
      const VF r = hn::Div(va, hn::Max(hn::Abs(vx), floor));
      x = hn::Add(x, vx);
      xx = hn::MulAdd(vx, vx, xx);
      d = hn::Add(d, vd);
      xd = hn::MulAdd(vx, vd, xd);
      dd = hn::MulAdd(vd, vd, dd);
      abs = hn::Add(abs, va);
      rel = hn::Add(rel, r);
      max_abs = hn::Max(max_abs, va);
      max_rel = hn::Max(max_rel, r);
    }
    HWY_INLINE void flush_all(ChunkSums& out, std::int64_t lane) {
      flush(x, out.lane[kSumX] + lane);
      flush(xx, out.lane[kSumXX] + lane);
      flush(d, out.lane[kSumD] + lane);
      flush(xd, out.lane[kSumXD] + lane);
      flush(dd, out.lane[kSumDD] + lane);
      flush(abs, out.lane[kSumAbsD] + lane);
      flush(rel, out.lane[kSumRel] + lane);
    }
  };

  // What the 16-bit codes alone tell.
  struct Codes {
    Extremes x, y;
    hn::Vec<DU> signs;
    std::int64_t mismatches = 0, zeros = 0;
    HWY_INLINE void clear() {
      x.clear();
      y.clear();
      signs = hn::Zero(DU());
    }
    HWY_INLINE void add(hn::Vec<DU> vx, hn::Vec<DU> vy) {
      const DU d;
      zeros += count_zeros(vx);
      mismatches += static_cast<std::int64_t>(hn::CountTrue(d, hn::Ne(vx, vy)));
      signs = hn::Or(signs, hn::Xor(vx, vy));
      x.add(vx);
      y.add(vy);
    }
  };

  // Lanes [lane, lane + kN). True when some signs differ.
  static HWY_NOINLINE bool slice(const std::uint16_t* x, const std::uint16_t* y,
                                 std::int64_t n, std::int64_t lane,
                                 ChunkSums& out) {
    Partials partials;
    Codes codes;
    partials.clear();
    codes.clear();
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t end = i + kFlush < n ? i + kFlush : n;
      for (; i < end; i += kStep) {
        prefetch_ahead(x + i);
        prefetch_ahead(y + i);
        codes.add(hn::LoadU(DU(), x + i + 2 * lane),
                  hn::LoadU(DU(), y + i + 2 * lane));
        partials.add(Format::first(DF(), x + i, lane),
                     Format::first(DF(), y + i, lane));
        partials.add(Format::second(DF(), x + i, lane),
                     Format::second(DF(), y + i, lane));
      }
      partials.flush_all(out, lane);
    }
    out.max_abs = larger(out.max_abs, max_of(DF(), partials.max_abs));
    out.max_rel = larger(out.max_rel, max_of(DF(), partials.max_rel));
    out.mismatches += codes.mismatches;
    out.golden_zeros += codes.zeros;
    codes.x.finish(x, n, out.x_min, out.x_max);
    codes.y.finish(y, n, out.y_min, out.y_max);
    return any_sign(hn::BitCast(DI(), codes.signs));
  }

  static HWY_NOINLINE bool equal_slice(const std::uint16_t* x,
                                       const std::uint16_t* y, std::int64_t n,
                                       std::int64_t lane, ChunkSums& out) {
    const DU d;
    const DF df;
    Extremes extremes;
    extremes.clear();
    auto diff = hn::Zero(d);
    std::int64_t zeros = 0;
    for (std::int64_t i = 0; i < n;) {
      VF sx = hn::Zero(df), sxx = sx;
      const std::int64_t end = i + kFlush < n ? i + kFlush : n;
      for (; i < end; i += kStep) {
        prefetch_ahead(x + i);
        prefetch_ahead(y + i);
        const auto v = hn::LoadU(d, x + i + 2 * lane);
        diff = hn::Or(diff, hn::Xor(v, hn::LoadU(d, y + i + 2 * lane)));
        extremes.add(v);
        zeros += count_zeros(v);
        const VF a = Format::first(df, x + i, lane);
        const VF b = Format::second(df, x + i, lane);
        sx = hn::Add(hn::Add(sx, a), b);
        sxx = hn::MulAdd(b, b, hn::MulAdd(a, a, sxx));
      }
      if (!hn::AllTrue(d, hn::Eq(diff, hn::Zero(d)))) return false;
      flush(sx, out.lane[kSumX] + lane);
      flush(sxx, out.lane[kSumXX] + lane);
    }
    out.golden_zeros += zeros;
    extremes.finish(x, n, out.x_min, out.x_max);
    return true;
  }

  // Sum and maximum of |d| / |x| anew, without the golden zeros. Only where a
  // huge quotient hints at one with d != 0.
  static HWY_NOINLINE void quotients(const std::uint16_t* x,
                                     const std::uint16_t* y, std::int64_t n,
                                     ChunkSums& out) {
    for (double& lane : out.lane[kSumRel]) lane = 0;
    out.max_rel = 0;
    for (std::int64_t s = 0; s < kLanes; s += kN)
      quotient_slice(x, y, n, s, out);
  }

  struct Quotients {
    VF rel, max, zero_hit;
    HWY_INLINE void add(VF vx, VF vy) {
      const DF d;
      const auto zero = hn::Eq(vx, hn::Zero(d));
      const VF va = hn::Abs(hn::Sub(vy, vx));
      const VF r = hn::IfThenZeroElse(zero, hn::Div(va, hn::Abs(vx)));
      zero_hit = hn::Max(zero_hit, hn::IfThenElseZero(zero, va));
      rel = hn::Add(rel, r);
      max = hn::Max(max, r);
    }
  };

  static void quotient_slice(const std::uint16_t* x, const std::uint16_t* y,
                             std::int64_t n, std::int64_t lane,
                             ChunkSums& out) {
    const DF d;
    Quotients q{hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t end = i + kFlush < n ? i + kFlush : n;
      for (; i < end; i += kStep) {
        q.add(Format::first(d, x + i, lane), Format::first(d, y + i, lane));
        q.add(Format::second(d, x + i, lane), Format::second(d, y + i, lane));
      }
      flush(q.rel, out.lane[kSumRel] + lane);
    }
    out.max_rel = larger(out.max_rel, max_of(d, q.max));
    if (max_of(d, q.zero_hit) > 0)
      out.max_rel = std::numeric_limits<double>::infinity();
  }

  static HWY_NOINLINE void target_sums(const std::uint16_t* x,
                                       const std::uint16_t* y, std::int64_t n,
                                       ChunkSums& out) {
    for (std::int64_t s = 0; s < kLanes; s += kN) target_slice(x, y, n, s, out);
  }

  struct TargetSums {
    VF y, yy, xy;
    HWY_INLINE void add(VF vx, VF vy) {
      y = hn::Add(y, vy);
      yy = hn::MulAdd(vy, vy, yy);
      xy = hn::MulAdd(vx, vy, xy);
    }
  };

  static void target_slice(const std::uint16_t* x, const std::uint16_t* y,
                           std::int64_t n, std::int64_t lane, ChunkSums& out) {
    const DF d;
    TargetSums sums{hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (const int sum : {kSumY, kSumYY, kSumXY}) {
      for (std::int64_t i = 0; i < kN; ++i) out.lane[sum][lane + i] = 0;
    }
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t end = i + kFlush < n ? i + kFlush : n;
      for (; i < end; i += kStep) {
        sums.add(Format::first(d, x + i, lane), Format::first(d, y + i, lane));
        sums.add(Format::second(d, x + i, lane),
                 Format::second(d, y + i, lane));
      }
      flush(sums.y, out.lane[kSumY] + lane);
      flush(sums.yy, out.lane[kSumYY] + lane);
      flush(sums.xy, out.lane[kSumXY] + lane);
    }
  }

  static HWY_INLINE bool tiny(double magnitude) {
    return magnitude != 0 && magnitude < kTiny;
  }

  // The range check, then the state.
  static HWY_INLINE ChunkState finish(bool equal, ChunkSums& out) {
    bool bad = tiny(larger(-out.x_min, out.x_max)) || !all_finite(out);
    if (!equal) {
      bad |= tiny(larger(-out.y_min, out.y_max)) || tiny(out.max_abs);
    }
    if (bad) return ChunkState::kUntrusted;
    return equal ? finish_equal(out) : ChunkState::kDone;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
