// Tier 2 of a chunk: ulps, histograms, shares, bounds, blocks of 32.
// A part of simd_kernels.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

struct LoadF64 {
  using Code = double;
  using Arith = double;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const double* p) {
    return hn::LoadU(d, p);
  }
};
struct LoadF32 {
  using Code = float;
  using Arith = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const float* p) {
    return hn::LoadU(d, p);
  }
};
struct LoadBf16 {
  using Code = std::uint16_t;
  using Arith = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* p) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<std::uint16_t, D> d16;
    return hn::BitCast(d,
                       hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, p))));
  }
};
struct LoadF16 {
  using Code = std::uint16_t;
  using Arith = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* p) {
    return F16::load(d, p);
  }
};

template <class Load>
class Detail {
  using T = typename Load::Arith;
  using Code = typename Load::Code;
  using Constants = DetailConstants<T>;
  // Lanes of a chunk in this arithmetic.
  static constexpr std::int64_t kWidth = 64 / sizeof(T);
  using D = hn::CappedTag<T, kWidth>;
  using DI = hn::RebindToSigned<D>;
  using DU = hn::RebindToUnsigned<D>;
  using DB = hn::Rebind<std::uint8_t, D>;
  using V = hn::Vec<D>;
  using VI = hn::Vec<DI>;
  static constexpr std::int64_t kN = hn::MaxLanes(D());
  static constexpr int kParts = kWidth / kN;  // vectors that hold all lanes

 public:
  static bool run(const Code* x, const Code* y, std::int64_t n,
                  const DetailParams& params, DetailSums& out) {
    const Constants constants(params);
    return params.small_threshold > 0
               ? Pass<true>(constants).run(x, y, n, out)
               : Pass<false>(constants).run(x, y, n, out);
  }

 private:
  // Lane sums in T, all lanes of the chunk.
  struct Lanes {
    V part[kParts];
    HWY_INLINE void clear() {
      for (V& v : part) v = hn::Zero(D());
    }
    HWY_INLINE void flush(double* lane) {
      for (int p = 0; p < kParts; ++p) {
        add_to(part[p], lane + p * kN);
        part[p] = hn::Zero(D());
      }
    }
    static HWY_INLINE void add_to(V v, double* lane) {
      if constexpr (sizeof(T) == 8) {
        hn::StoreU(hn::Add(hn::LoadU(D(), lane), v), D(), lane);
      } else {
        const hn::Repartition<double, D> dd;
        const hn::Half<D> half;
        const auto low = hn::PromoteTo(dd, hn::LowerHalf(v));
        const auto high = hn::PromoteTo(dd, hn::UpperHalf(half, v));
        hn::StoreU(hn::Add(hn::LoadU(dd, lane), low), dd, lane);
        double* upper = lane + kN / 2;
        hn::StoreU(hn::Add(hn::LoadU(dd, upper), high), dd, upper);
      }
    }
  };

  template <bool kLarge>
  class Pass {
   public:
    explicit Pass(const Constants& constants) : c_(constants) {}

    HWY_INLINE bool run(const Code* x, const Code* y, std::int64_t n,
                        DetailSums& out) {
      out = {};
      clear();
      for (std::int64_t i = 0; i < n; i += kFlush) {
        const std::int64_t size = i + kFlush < n ? kFlush : n - i;
        group(x + i, y + i, size, out.block_dd + i / kStep);
        pad(size);
        count_buckets(rel_buckets_, size, out.rel_histogram);
        count_buckets(ulp_buckets_, size, out.ulp_histogram);
        flush(out);
      }
      return finish(out);
    }

   private:
    HWY_INLINE void clear() {
      ulp_.clear();
      large_rel_.clear();
      large_dd_.clear();
      ulp_max_ = excess_ = large_max_ = beyond_ = hn::Zero(D());
    }

    HWY_INLINE void flush(DetailSums& out) {
      ulp_.flush(out.ulp_sum);
      if constexpr (kLarge) {
        large_rel_.flush(out.large_rel_sum);
        large_dd_.flush(out.large_dd_sum);
      }
    }

    // count_buckets reads 64 at a time.
    HWY_INLINE void pad(std::int64_t n) {
      for (; n % 64 != 0; ++n) rel_buckets_[n] = ulp_buckets_[n] = kNoBucket;
    }

    HWY_INLINE void group(const Code* x, const Code* y, std::int64_t n,
                          double* block_dd) {
      for (std::int64_t i = 0; i < n; i += kStep) {
        V dd[kParts];
        for (int p = 0; p < kParts; ++p) dd[p] = hn::Zero(D());
        for (std::int64_t j = 0; j < kStep; j += kN) {
          const int part = static_cast<int>(j / kN) % kParts;
          prefetch_ahead(x + i + j);
          prefetch_ahead(y + i + j);
          const V d = pair(Load::load(D(), x + i + j),
                           Load::load(D(), y + i + j), i + j, part);
          dd[part] = hn::MulAdd(d, d, dd[part]);
        }
        block_dd[i / kStep] = sum_of(dd);
      }
    }

    // Fixed tree over all lanes: halves, then quarters, ...
    static HWY_INLINE double sum_of(const V (&part)[kParts]) {
      V v[kParts];
      for (int p = 0; p < kParts; ++p) v[p] = part[p];
      for (int half = kParts / 2; half > 0; half /= 2) {
        for (int p = 0; p < half; ++p) v[p] = hn::Add(v[p], v[p + half]);
      }
      return fold(D(), v[0]);
    }
    template <class DT, class VT>
    static HWY_INLINE double fold(DT, VT v) {
      if constexpr (hn::MaxLanes(DT()) * sizeof(T) > 16) {
        const hn::Half<DT> half;
        return fold(half,
                    hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
      } else if constexpr (sizeof(T) == 4) {
        const auto pairs = hn::Add(v, hn::Shuffle1032(v));
        return static_cast<double>(
            hn::GetLane(hn::Add(pairs, hn::Shuffle2301(pairs))));
      } else {
        return hn::GetLane(hn::Add(v, hn::Shuffle01(v)));
      }
    }

    // One vector of pairs at offset `at` of the group; returns d.
    HWY_INLINE V pair(V x, V y, std::int64_t at, int part) {
      const D d;
      const DI di;
      const V diff = hn::Sub(y, x);
      const V a = hn::Abs(diff), ax = hn::Abs(x);
      const auto differ = hn::Ne(a, hn::Zero(d));
      const VI exponent = hn::And(
          hn::BitCast(di, hn::Min(hn::Max(ax, hn::Set(d, c_.min_normal)),
                                  hn::Set(d, c_.max_finite))),
          hn::Set(di, c_.exponent_mask));
      const V inverse =
          hn::BitCast(d, hn::Sub(hn::Set(di, c_.inverse_base), exponent));
      const V ulp =
          hn::BitCast(d, hn::Add(exponent, hn::Set(di, c_.ulp_offset)));
      if (c_.guard > 0) {
        const auto low = hn::Lt(ax, hn::Set(d, c_.guard));
        beyond_ = hn::Or(beyond_, hn::IfThenElseZero(low, a));
      }
      const V u = hn::Mul(a, inverse);
      ulp_.part[part] = hn::Add(ulp_.part[part], u);
      ulp_max_ = hn::Max(ulp_max_, u);
      buckets(a, ax, u, differ, at);
      judge(a, ax, ulp, differ);
      if constexpr (kLarge) large(diff, a, ax, part);
      return diff;
    }

    template <class M>
    HWY_INLINE void buckets(V a, V ax, V u, M differ, std::int64_t at) {
      const DI di;
      const VI none = hn::Set(di, kNoBucket);
      const VI top = hn::Set(di, 63);
      const VI bits = hn::BitCast(di, a);
      const VI octave = hn::ShiftRight<Constants::kMantissa>(
          hn::Sub(bits, hn::BitCast(di, ax)));
      const VI rel = hn::Add(octave, hn::Set(di, 64));
      const VI ulp = hn::ShiftRight<Constants::kMantissa>(
          hn::Sub(hn::BitCast(di, u), hn::Set(di, Constants::kUlpBucket)));
      const auto mask = hn::RebindMask(di, differ);
      store_bucket(mask, rel, top, none, rel_buckets_ + at);
      store_bucket(mask, ulp, top, none, ulp_buckets_ + at);
    }

    template <class M>
    static HWY_INLINE void store_bucket(M differ, VI bucket, VI top, VI none,
                                        std::uint8_t* out) {
      const DI di;
      const VI inside = hn::Min(hn::Max(bucket, hn::Zero(di)), top);
      const VI chosen = hn::IfThenElse(differ, inside, none);
      hn::StoreU(hn::TruncateTo(DB(), hn::BitCast(DU(), chosen)), DB(), out);
    }

    template <class M>
    HWY_INLINE void judge(V a, V ax, V ulp, M differ) {
      const D d;
      const V mille = hn::Mul(ax, hn::Set(d, Constants::kBelow1e3));
      const V mille5 = hn::Mul(ax, hn::Set(d, Constants::kBelow5e3));
      over_1e3_ += hn::CountTrue(d, hn::Gt(a, mille));
      over_5e3_ += hn::CountTrue(d, hn::Gt(a, mille5));
      const V fixed = hn::MulAdd(hn::Set(d, c_.ulps), ulp, hn::Set(d, c_.atol));
      const V bound = hn::MulAdd(hn::Set(d, c_.rtol), ax, fixed);
      over_bound_ += hn::CountTrue(d, hn::Gt(a, bound));
      excess_ = hn::Max(excess_, hn::IfThenElseZero(differ, hn::Div(a, bound)));
    }

    HWY_INLINE void large(V diff, V a, V ax, int part) {
      const D d;
      const auto small = hn::Lt(ax, hn::Set(d, c_.small_threshold));
      const auto wrong = hn::Gt(a, hn::Set(d, c_.small_bound));
      small_count_ += hn::CountTrue(d, small);
      small_errors_ += hn::CountTrue(d, hn::And(small, wrong));
      const V r = hn::IfThenZeroElse(
          small, hn::Div(a, hn::Max(ax, hn::Set(d, T(1e-7)))));
      const V kept = hn::IfThenZeroElse(small, diff);
      large_rel_.part[part] = hn::Add(large_rel_.part[part], r);
      large_dd_.part[part] = hn::MulAdd(kept, kept, large_dd_.part[part]);
      large_max_ = hn::Max(large_max_, r);
    }

    HWY_INLINE bool finish(DetailSums& out) const {
      out.ulp_max = max_of(D(), ulp_max_);
      out.worst_excess = max_of(D(), excess_);
      out.large_rel_max = max_of(D(), large_max_);
      out.rel_over_1e3 = static_cast<std::int64_t>(over_1e3_);
      out.rel_over_5e3 = static_cast<std::int64_t>(over_5e3_);
      out.over_bound = static_cast<std::int64_t>(over_bound_);
      out.small_count = static_cast<std::int64_t>(small_count_);
      out.small_errors = static_cast<std::int64_t>(small_errors_);
      double sum = 0;
      for (int i = 0; i < kLanes; ++i)
        sum += out.ulp_sum[i] + out.large_rel_sum[i] + out.large_dd_sum[i];
      return sum * 0 == 0 && hn::AllTrue(D(), hn::Eq(beyond_, hn::Zero(D())));
    }

    const Constants c_;
    Lanes ulp_, large_rel_, large_dd_;
    V ulp_max_, excess_, large_max_;
    V beyond_;  // |d| of pairs whose ulp is out of range
    std::size_t over_1e3_ = 0, over_5e3_ = 0, over_bound_ = 0;
    std::size_t small_count_ = 0, small_errors_ = 0;
    HWY_ALIGN std::uint8_t rel_buckets_[kFlush];
    HWY_ALIGN std::uint8_t ulp_buckets_[kFlush];
  };
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
