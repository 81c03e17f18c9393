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
  static constexpr int kUnroll = 4;

  static HWY_INLINE const T* row(const std::byte* p) {
    return reinterpret_cast<const T*>(p);
  }

  // kVectors vectors from element h on.
  template <int kVectors>
  static HWY_INLINE void sum_at(const std::byte* const* rows,
                                const float* weights, std::int64_t count,
                                std::int64_t h, FVec (&sum)[kVectors]) {
    const FTag d;
    for (auto& v : sum) v = hn::Zero(d);
    for (std::int64_t s = 0; s < count; ++s) {
      const auto weight = hn::Set(d, weights ? weights[s] : 1.0f);
      const T* from = row(rows[s]) + h;
      for (int v = 0; v < kVectors; ++v)
        sum[v] = hn::MulAdd(weight, Stored::load(from + v * kFloats), sum[v]);
    }
  }

  static void combine(const std::byte* const* rows, const float* weights,
                      std::int64_t count, std::int64_t n, bool,
                      std::byte* bytes) {
    const FTag d;
    T* out = reinterpret_cast<T*>(bytes);
    std::int64_t h = 0;
    for (; h + kUnroll * kFloats <= n; h += kUnroll * kFloats) {
      FVec sum[kUnroll];
      sum_at(rows, weights, count, h, sum);
      for (int v = 0; v < kUnroll; ++v)
        Stored::store(sum[v], out + h + v * kFloats);
    }
    for (; h + kFloats <= n; h += kFloats) {
      FVec sum[1];
      sum_at(rows, weights, count, h, sum);
      Stored::store(sum[0], out + h);
    }
    if (h == n) return;
    auto sum = hn::Zero(d);
    for (std::int64_t s = 0; s < count; ++s)
      sum = hn::MulAdd(hn::Set(d, weights ? weights[s] : 1.0f),
                       load_some<Stored>(row(rows[s]) + h, n - h, 0), sum);
    store_some<Stored>(sum, n - h, out + h);
  }

  static void scale(const std::byte* in, float weight, std::int64_t n, bool,
                    std::byte* bytes) {
    const auto w = hn::Set(FTag(), weight);
    T* out = reinterpret_cast<T*>(bytes);
    std::int64_t h = 0;
    for (; h + kFloats <= n; h += kFloats)
      Stored::store(hn::Mul(w, Stored::load(row(in) + h)), out + h);
    if (h < n)
      store_some<Stored>(hn::Mul(w, load_some<Stored>(row(in) + h, n - h, 0)),
                         n - h, out + h);
  }

  static float dot(const std::byte* a, const std::byte* b, std::int64_t n) {
    const FTag d;
    FVec sum[kUnroll];
    for (auto& v : sum) v = hn::Zero(d);
    std::int64_t h = 0;
    for (; h + kUnroll * kFloats <= n; h += kUnroll * kFloats)
      for (int v = 0; v < kUnroll; ++v)
        sum[v] = hn::MulAdd(Stored::load(row(a) + h + v * kFloats),
                            Stored::load(row(b) + h + v * kFloats), sum[v]);
    for (; h + kFloats <= n; h += kFloats)
      sum[0] = hn::MulAdd(Stored::load(row(a) + h), Stored::load(row(b) + h),
                          sum[0]);
    if (h < n)
      sum[1] = hn::MulAdd(load_some<Stored>(row(a) + h, n - h, 0),
                          load_some<Stored>(row(b) + h, n - h, 0), sum[1]);
    const auto total =
        hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
    return hn::GetLane(hn::SumOfLanes(d, total));
  }

  static constexpr MoeRowKernels kTable = {&combine, &scale, &dot};
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
