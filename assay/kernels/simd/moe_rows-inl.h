// Weighted sums of rows.
// A part of simd_moe.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Stored>
struct MoeRows {
  using T = typename Stored::T;
  using Pairs = typename Paired<Stored, Stored>::Load;
  static constexpr std::int64_t kStep = 2 * kFloats;
  static constexpr int kUnroll = 2;

  static HWY_INLINE const T* row(const std::byte* p) {
    return reinterpret_cast<const T*>(p);
  }

  // kSteps steps of two vectors from element h on.
  template <int kSteps>
  static HWY_INLINE void sum_at(const std::byte* const* rows,
                                const float* weights, std::int64_t count,
                                std::int64_t h, TwoVecs (&sum)[kSteps]) {
    for (auto& v : sum) v = {constant(0), constant(0)};
    for (std::int64_t s = 0; s < count; ++s) {
      const auto weight = constant(weights ? weights[s] : 1.0f);
      const T* from = row(rows[s]) + h;
      for (int k = 0; k < kSteps; ++k) {
        const TwoVecs x = Pairs::load2(from + k * kStep);
        sum[k] = {hn::MulAdd(weight, x.a, sum[k].a),
                  hn::MulAdd(weight, x.b, sum[k].b)};
      }
    }
  }

  // One step, past the caches where kStream: `out` is then on a vector.
  template <bool kStream>
  static HWY_INLINE void put(TwoVecs v, T* out) {
    if constexpr (!kStream) {
      Pairs::store2(v, out);
    } else {
      const hn::CappedTag<T, kFloats * sizeof(float) / sizeof(T)> d;
      constexpr std::int64_t kN = hn::MaxLanes(d);
      alignas(64) T line[kStep];
      Pairs::store2(v, line);
      for (std::int64_t i = 0; i < kStep; i += kN)
        hn::Stream(hn::Load(d, line + i), d, out + i);
    }
  }

  static bool can_stream(bool wanted, const void* out) {
    return wanted && reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
  }

  template <bool kStream>
  static void combine_run(const std::byte* const* rows, const float* weights,
                          std::int64_t count, std::int64_t n, T* out) {
    std::int64_t h = 0;
    for (; h + kUnroll * kStep <= n; h += kUnroll * kStep) {
      TwoVecs sum[kUnroll];
      sum_at(rows, weights, count, h, sum);
      for (int k = 0; k < kUnroll; ++k)
        put<kStream>(sum[k], out + h + k * kStep);
    }
    for (; h < n; h += kFloats) {
      const std::int64_t some = n - h < kFloats ? n - h : kFloats;
      auto sum = constant(0);
      for (std::int64_t s = 0; s < count; ++s)
        sum = hn::MulAdd(constant(weights ? weights[s] : 1.0f),
                         load_some<Stored>(row(rows[s]) + h, some, 0), sum);
      store_some<Stored>(sum, some, out + h);
    }
  }

  static void combine(const std::byte* const* rows, const float* weights,
                      std::int64_t count, std::int64_t n, bool stream,
                      std::byte* bytes) {
    T* out = reinterpret_cast<T*>(bytes);
    (can_stream(stream, out)
         ? combine_run<true>
         : combine_run<false>)(rows, weights, count, n, out);
  }

  template <bool kStream>
  static void scale_run(const T* in, float weight, std::int64_t n, T* out) {
    const auto w = constant(weight);
    std::int64_t h = 0;
    for (; h + kStep <= n; h += kStep) {
      const TwoVecs x = Pairs::load2(in + h);
      put<kStream>({hn::Mul(w, x.a), hn::Mul(w, x.b)}, out + h);
    }
    for (; h < n; h += kFloats) {
      const std::int64_t some = n - h < kFloats ? n - h : kFloats;
      store_some<Stored>(hn::Mul(w, load_some<Stored>(in + h, some, 0)), some,
                         out + h);
    }
  }

  static void scale(const std::byte* in, float weight, std::int64_t n,
                    bool stream, std::byte* bytes) {
    T* out = reinterpret_cast<T*>(bytes);
    (can_stream(stream, out) ? scale_run<true>
                             : scale_run<false>)(row(in), weight, n, out);
  }

  static float dot(const std::byte* a, const std::byte* b, std::int64_t n) {
    TwoVecs sum[kUnroll];
    for (auto& v : sum) v = {constant(0), constant(0)};
    const auto add = [&](std::int64_t h, int k) {
      const TwoVecs x = Pairs::load2(row(a) + h), y = Pairs::load2(row(b) + h);
      sum[k] = {hn::MulAdd(x.a, y.a, sum[k].a), hn::MulAdd(x.b, y.b, sum[k].b)};
    };
    std::int64_t h = 0;
    for (; h + kUnroll * kStep <= n; h += kUnroll * kStep)
      for (int k = 0; k < kUnroll; ++k) add(h + k * kStep, k);
    for (; h < n; h += kFloats) {
      const std::int64_t some = n - h < kFloats ? n - h : kFloats;
      sum[0].a = hn::MulAdd(load_some<Stored>(row(a) + h, some, 0),
                            load_some<Stored>(row(b) + h, some, 0), sum[0].a);
    }
    const auto total =
        hn::Add(hn::Add(sum[0].a, sum[0].b), hn::Add(sum[1].a, sum[1].b));
    return hn::GetLane(hn::SumOfLanes(FTag(), total));
  }

  static constexpr MoeRowKernels kTable = {&combine, &scale, &dot};
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
