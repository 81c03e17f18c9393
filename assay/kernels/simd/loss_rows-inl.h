// One row of logits: statistics and gradient.
// A part of simd_loss.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// bf16 is read and written as even and odd elements, which needs no shuffles;
// kept exponentials are in that order.
template <class Stored>
struct LossRows {
  using T = typename Stored::T;
  using Pairs = typename Paired<Stored, Stored>::Load;
  static constexpr std::int64_t kStep = 2 * kFloats;

  // Two vectors of elements from i on; those beyond n are `fill`.
  static HWY_INLINE TwoVecs load_at(const T* x, std::int64_t i, std::int64_t n,
                                    const T* fill) {
    if (i + kStep <= n) return Pairs::load2(x + i);
    alignas(64) T padded[kStep];
    std::memcpy(padded, fill, sizeof(padded));
    std::memcpy(padded, x + i, static_cast<std::size_t>(n - i) * sizeof(T));
    return Pairs::load2(padded);
  }
  static HWY_INLINE void store_at(TwoVecs v, std::int64_t i, std::int64_t n,
                                  T* out) {
    if (i + kStep <= n) return Pairs::store2(v, out + i);
    alignas(64) T padded[kStep];
    Pairs::store2(v, padded);
    std::memcpy(out + i, padded, static_cast<std::size_t>(n - i) * sizeof(T));
  }

  struct Fill {
    alignas(64) T values[kStep];
    explicit Fill(float x) {
      Stored::store(constant(x), values);
      Stored::store(constant(x), values + kFloats);
    }
  };

  template <bool kSum>
  static float max_and_sum(const T* x, std::int64_t n, float* sum) {
    const FTag d;
    const float low = -std::numeric_limits<float>::infinity();
    const Fill least(low), none(0);
    TwoVecs top[2] = {{constant(low), constant(low)},
                      {constant(low), constant(low)}};
    TwoVecs sums = {hn::Zero(d), hn::Zero(d)};
    int turn = 0;
    for (std::int64_t i = 0; i < n; i += kStep, turn ^= 1) {
      const TwoVecs v = load_at(x, i, n, least.values);
      top[turn] = {hn::Max(top[turn].a, v.a), hn::Max(top[turn].b, v.b)};
      if constexpr (kSum) {
        const TwoVecs s = i + kStep <= n ? v : load_at(x, i, n, none.values);
        sums = {hn::Add(sums.a, s.a), hn::Add(sums.b, s.b)};
      }
    }
    *sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sums.a, sums.b)));
    const auto all =
        hn::Max(hn::Max(top[0].a, top[0].b), hn::Max(top[1].a, top[1].b));
    return hn::GetLane(hn::MaxOfLanes(d, all));
  }

  template <bool kKeep>
  static float sum_exp(const T* x, std::int64_t n, float max, float* exps) {
    const FTag d;
    const auto top = constant(max);
    // e^(-inf - max) = 0: nothing is added. Where max is infinite the row has
    // made NaN already.
    const Fill least(-std::numeric_limits<float>::infinity());
    TwoVecs sums = {hn::Zero(d), hn::Zero(d)};
    for (std::int64_t i = 0; i < n; i += kStep) {
      // The exponentials keep the core busy while memory has nothing to do:
      // fetch the row that follows in a matrix. Past the end it is ignored.
      hwy::Prefetch(x + i + n);
      if constexpr (sizeof(T) == 4) hwy::Prefetch(x + i + n + kFloats);
      const TwoVecs v = load_at(x, i, n, least.values);
      const auto a = exp_to_88(hn::Sub(v.a, top));
      const auto b = exp_to_88(hn::Sub(v.b, top));
      if constexpr (kKeep) {
        hn::StoreU(a, d, exps + i);
        hn::StoreU(b, d, exps + i + kFloats);
      }
      sums = {hn::Add(sums.a, a), hn::Add(sums.b, b)};
    }
    return hn::GetLane(hn::SumOfLanes(d, hn::Add(sums.a, sums.b)));
  }

  static LogitStats stats(const std::byte* logits, std::int64_t n,
                          bool with_sum, float* exps) {
    const T* x = reinterpret_cast<const T*>(logits);
    LogitStats out;
    out.max = with_sum ? max_and_sum<true>(x, n, &out.sum)
                       : max_and_sum<false>(x, n, &out.sum);
    out.sum_exp = exps == nullptr ? sum_exp<false>(x, n, out.max, nullptr)
                                  : sum_exp<true>(x, n, out.max, exps);
    return out;
  }

  static void gradient(const std::byte* logits, std::int64_t n, float max,
                       float factor, float offset, std::byte* bytes) {
    const T* x = reinterpret_cast<const T*>(logits);
    T* out = reinterpret_cast<T*>(bytes);
    const auto top = constant(max), f = constant(factor), o = constant(offset);
    const Fill zeros(0);
    for (std::int64_t i = 0; i < n; i += kStep) {
      const TwoVecs v = load_at(x, i, n, zeros.values);
      store_at({hn::MulSub(exp_to_88(hn::Sub(v.a, top)), f, o),
                hn::MulSub(exp_to_88(hn::Sub(v.b, top)), f, o)},
               i, n, out);
    }
  }

  static void scaled(const float* exps, std::int64_t n, float factor,
                     float offset, std::byte* bytes) {
    const FTag d;
    T* out = reinterpret_cast<T*>(bytes);
    const auto f = constant(factor), o = constant(offset);
    for (std::int64_t i = 0; i < n; i += kStep)
      store_at({hn::MulSub(hn::LoadU(d, exps + i), f, o),
                hn::MulSub(hn::LoadU(d, exps + i + kFloats), f, o)},
               i, n, out);
  }

  static constexpr LossRowKernels kTable = {&stats, &gradient, &scaled};
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
