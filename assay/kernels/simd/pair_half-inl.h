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
  using DU = hn::Repartition<std::uint16_t, DF>;
  using DI = hn::RebindToSigned<DU>;
  using VF = hn::Vec<DF>;
  static constexpr std::int64_t kN = hn::MaxLanes(DF());
  // Below this largest magnitude a product could underflow in fp32.
  static constexpr double kTiny = 0x1p-57;

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
    if (!all_finite(out)) return ChunkState::kUntrusted;
    // Values of two signs are at least |x| apart.
    if (signs || out.max_rel >= 1) count_signs(x, y, n, out);
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
    VF x, xx, d, xd, dd, abs, max;
    HWY_INLINE void clear() {
      x = xx = d = xd = dd = abs = max = hn::Zero(DF());
    }
    HWY_INLINE VF add(VF vx, VF vy) {
      const VF vd = hn::Sub(vy, vx);
      const VF va = hn::Abs(vd);
      x = hn::Add(x, vx);
      xx = hn::MulAdd(vx, vx, xx);
      d = hn::Add(d, vd);
      xd = hn::MulAdd(vx, vd, xd);
      dd = hn::MulAdd(vd, vd, dd);
      abs = hn::Add(abs, va);
      max = hn::Max(max, va);
      return va;
    }
    HWY_INLINE void flush_all(ChunkSums& out, std::int64_t lane) {
      flush(x, out.lane[kSumX] + lane);
      flush(xx, out.lane[kSumXX] + lane);
      flush(d, out.lane[kSumD] + lane);
      flush(xd, out.lane[kSumXD] + lane);
      flush(dd, out.lane[kSumDD] + lane);
      flush(abs, out.lane[kSumAbsD] + lane);
    }
  };

  // |d| / |x|. A golden zero makes the plain sum inf or NaN: then the group is
  // done again, masked. Where zeros are rare that is cheaper than masks.
  struct Quotients {
    VF sum, max, zero_hit;
    HWY_INLINE void clear() { sum = max = zero_hit = hn::Zero(DF()); }
    HWY_INLINE void add_plain(VF va, VF vx) { add(hn::Div(va, vx)); }
    HWY_INLINE void add_masked(VF va, VF vx) {
      const auto nonzero = hn::Ne(vx, hn::Zero(DF()));
      add(hn::IfThenElseZero(nonzero, hn::Div(va, vx)));
      zero_hit = hn::Max(zero_hit, hn::IfThenZeroElse(nonzero, va));
    }
    HWY_INLINE void add(VF quotient) {
      const VF r = hn::Abs(quotient);
      sum = hn::Add(sum, r);
      max = hn::Max(max, r);
    }
    HWY_INLINE bool finite() const {
      const VF zero = hn::Zero(DF());
      return hn::AllTrue(DF(), hn::Eq(hn::Mul(sum, zero), zero));
    }
    HWY_INLINE void finish(ChunkSums& out) const {
      out.max_rel = larger(out.max_rel, max_of(DF(), max));
      if (max_of(DF(), zero_hit) > 0)
        out.max_rel = std::numeric_limits<double>::infinity();
    }
  };

  // Of groups with golden zeros: their number, and whether signs differ.
  struct Zeros {
    hn::Vec<DU> signs;
    std::int64_t count = 0;
    HWY_INLINE void clear() { signs = hn::Zero(DU()); }
    HWY_INLINE void add(hn::Vec<DU> vx, hn::Vec<DU> vy) {
      count += count_zeros(vx);
      signs = hn::Or(signs, hn::Xor(vx, vy));
    }
  };

  // Ranges and mismatches, from the 16-bit codes alone.
  struct Codes {
    Extremes x, y;
    std::int64_t mismatches = 0;
    HWY_INLINE void clear() {
      x.clear();
      y.clear();
    }
    HWY_INLINE void add(hn::Vec<DU> vx, hn::Vec<DU> vy) {
      mismatches +=
          static_cast<std::int64_t>(hn::CountTrue(DU(), hn::Ne(vx, vy)));
      x.add(vx);
      y.add(vy);
    }
  };

  // Lanes [lane, lane + kN) of a chunk.
  class Slice {
   public:
    HWY_INLINE Slice(const std::uint16_t* x, const std::uint16_t* y,
                     std::int64_t lane)
        : x_(x), y_(y), lane_(lane) {
      partials_.clear();
      quotients_.clear();
      zeros_.clear();
      codes_.clear();
    }

    HWY_INLINE void run(std::int64_t n, ChunkSums& out) {
      bool masked = false;
      for (std::int64_t i = 0; i < n; i += kFlush) {
        const std::int64_t end = i + kFlush < n ? i + kFlush : n;
        const std::int64_t zeros = zeros_.count;
        if (masked) {
          group<true>(i, end);
        } else {
          const VF max = quotients_.max;
          group<false>(i, end);
          if (!quotients_.finite()) quotients_again(i, end, max);
        }
        masked = zeros_.count > zeros;
        partials_.flush_all(out, lane_);
        flush(quotients_.sum, out.lane[kSumRel] + lane_);
      }
    }

    // True when some signs differ where there are golden zeros.
    HWY_INLINE bool finish(std::int64_t n, ChunkSums& out) {
      out.max_abs = larger(out.max_abs, max_of(DF(), partials_.max));
      out.mismatches += codes_.mismatches;
      out.golden_zeros += zeros_.count;
      quotients_.finish(out);
      codes_.x.finish(x_, n, out.x_min, out.x_max);
      codes_.y.finish(y_, n, out.y_min, out.y_max);
      return any_sign(hn::BitCast(DI(), zeros_.signs));
    }

   private:
    HWY_INLINE hn::Vec<DU> load(const std::uint16_t* p) const {
      return hn::LoadU(DU(), p + 2 * lane_);
    }

    template <bool kMasked>
    HWY_INLINE void group(std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += kStep) {
        prefetch_ahead(x_ + i);
        prefetch_ahead(y_ + i);
        codes_.add(load(x_ + i), load(y_ + i));
        if constexpr (kMasked) zeros_.add(load(x_ + i), load(y_ + i));
        add<kMasked>(Format::first(DF(), x_ + i, lane_),
                     Format::first(DF(), y_ + i, lane_));
        add<kMasked>(Format::second(DF(), x_ + i, lane_),
                     Format::second(DF(), y_ + i, lane_));
      }
    }

    template <bool kMasked>
    HWY_INLINE void add(VF vx, VF vy) {
      const VF va = partials_.add(vx, vy);
      if constexpr (kMasked)
        quotients_.add_masked(va, vx);
      else
        quotients_.add_plain(va, vx);
    }

    HWY_INLINE void quotients_again(std::int64_t begin, std::int64_t end,
                                    VF max) {
      quotients_.sum = hn::Zero(DF());
      quotients_.max = max;
      for (std::int64_t i = begin; i < end; i += kStep) {
        zeros_.add(load(x_ + i), load(y_ + i));
        add_again(Format::first(DF(), x_ + i, lane_),
                  Format::first(DF(), y_ + i, lane_));
        add_again(Format::second(DF(), x_ + i, lane_),
                  Format::second(DF(), y_ + i, lane_));
      }
    }
    HWY_INLINE void add_again(VF vx, VF vy) {
      quotients_.add_masked(hn::Abs(hn::Sub(vy, vx)), vx);
    }

    const std::uint16_t* x_;
    const std::uint16_t* y_;
    const std::int64_t lane_;
    Partials partials_;
    Quotients quotients_;
    Zeros zeros_;
    Codes codes_;
  };

  static HWY_NOINLINE bool slice(const std::uint16_t* x, const std::uint16_t* y,
                                 std::int64_t n, std::int64_t lane,
                                 ChunkSums& out) {
    Slice slice(x, y, lane);
    slice.run(n, out);
    return slice.finish(n, out);
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
