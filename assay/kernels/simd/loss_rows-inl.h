// One row of logits: statistics and gradient.
// A part of simd_loss.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Stored>
struct LossRows {
  using T = typename Stored::T;
  static constexpr int kUnroll = 4;
  static constexpr std::int64_t kStep = kUnroll * kFloats;

  static HWY_INLINE FVec add(const FVec (&v)[kUnroll]) {
    return hn::Add(hn::Add(v[0], v[1]), hn::Add(v[2], v[3]));
  }
  static HWY_INLINE float total(FVec v) {
    return hn::GetLane(hn::SumOfLanes(FTag(), v));
  }

  static float max_and_sum(const T* x, std::int64_t n, float* sum) {
    const FTag d;
    const float low = -std::numeric_limits<float>::infinity();
    FVec top[kUnroll], sums[kUnroll];
    for (auto& v : top) v = hn::Set(d, low);
    for (auto& v : sums) v = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + kStep <= n; i += kStep)
      for (int k = 0; k < kUnroll; ++k) {
        const auto v = Stored::load(x + i + k * kFloats);
        top[k] = hn::Max(top[k], v);
        sums[k] = hn::Add(sums[k], v);
      }
    for (; i + kFloats <= n; i += kFloats) {
      const auto v = Stored::load(x + i);
      top[0] = hn::Max(top[0], v);
      sums[0] = hn::Add(sums[0], v);
    }
    if (i < n) {
      top[1] = hn::Max(top[1], load_some<Stored>(x + i, n - i, low));
      sums[1] = hn::Add(sums[1], load_some<Stored>(x + i, n - i, 0));
    }
    *sum = total(add(sums));
    const auto all = hn::Max(hn::Max(top[0], top[1]), hn::Max(top[2], top[3]));
    return hn::GetLane(hn::MaxOfLanes(d, all));
  }

  template <bool kKeep>
  static float sum_exp(const T* x, std::int64_t n, float max, float* exps) {
    const FTag d;
    const auto top = hn::Set(d, max);
    FVec sums[kUnroll];
    for (auto& v : sums) v = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + kStep <= n; i += kStep)
      for (int k = 0; k < kUnroll; ++k) {
        const std::int64_t at = i + k * kFloats;
        const auto e = exp_to_88(hn::Sub(Stored::load(x + at), top));
        if constexpr (kKeep) hn::StoreU(e, d, exps + at);
        sums[k] = hn::Add(sums[k], e);
      }
    for (; i + kFloats <= n; i += kFloats) {
      const auto e = exp_to_88(hn::Sub(Stored::load(x + i), top));
      if constexpr (kKeep) hn::StoreU(e, d, exps + i);
      sums[0] = hn::Add(sums[0], e);
    }
    if (i < n) {
      // The fill makes e^(-inf) = 0, but NaN where the maximum is infinite.
      const auto some = hn::FirstN(d, static_cast<std::size_t>(n - i));
      const auto e =
          exp_to_88(hn::Sub(load_some<Stored>(x + i, n - i, max), top));
      if constexpr (kKeep) store_some<StoredF32>(e, n - i, exps + i);
      sums[1] = hn::Add(sums[1], hn::IfThenElseZero(some, e));
    }
    return total(add(sums));
  }

  static LogitStats stats(const std::byte* logits, std::int64_t n,
                          bool with_sum, float* exps) {
    const T* x = reinterpret_cast<const T*>(logits);
    LogitStats out;
    out.max = max_and_sum(x, n, &out.sum);
    if (!with_sum) out.sum = 0;
    out.sum_exp = exps == nullptr ? sum_exp<false>(x, n, out.max, nullptr)
                                  : sum_exp<true>(x, n, out.max, exps);
    return out;
  }

  static void gradient(const std::byte* logits, std::int64_t n, float max,
                       float factor, float offset, std::byte* bytes) {
    const FTag d;
    const T* x = reinterpret_cast<const T*>(logits);
    T* out = reinterpret_cast<T*>(bytes);
    const auto top = hn::Set(d, max);
    const auto f = hn::Set(d, factor), o = hn::Set(d, offset);
    std::int64_t i = 0;
    for (; i + kFloats <= n; i += kFloats) {
      const auto e = exp_to_88(hn::Sub(Stored::load(x + i), top));
      Stored::store(hn::MulSub(e, f, o), out + i);
    }
    if (i < n) {
      const auto e =
          exp_to_88(hn::Sub(load_some<Stored>(x + i, n - i, max), top));
      store_some<Stored>(hn::MulSub(e, f, o), n - i, out + i);
    }
  }

  static void scaled(const float* exps, std::int64_t n, float factor,
                     float offset, std::byte* bytes) {
    const FTag d;
    T* out = reinterpret_cast<T*>(bytes);
    const auto f = hn::Set(d, factor), o = hn::Set(d, offset);
    std::int64_t i = 0;
    for (; i + kFloats <= n; i += kFloats)
      Stored::store(hn::MulSub(hn::LoadU(d, exps + i), f, o), out + i);
    if (i < n)
      store_some<Stored>(
          hn::MulSub(load_some<StoredF32>(exps + i, n - i, 0), f, o), n - i,
          out + i);
  }

  static constexpr LossRowKernels kTable = {&stats, &gradient, &scaled};
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
