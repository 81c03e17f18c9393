// Optimizer steps and norms in vectors.
// A part of simd_optim.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The constants of a step in every lane.
struct AdamLanes {
  FVec lr, eps, decay, beta1, rest1, beta2, rest2, correction1, correction2;

  explicit AdamLanes(const AdamStep& s) {
    const FTag d;
    lr = hn::Set(d, s.lr);
    eps = hn::Set(d, s.eps);
    decay = hn::Set(d, s.weight_decay);
    beta1 = hn::Set(d, s.beta1);
    rest1 = hn::Set(d, s.beta1_complement);
    beta2 = hn::Set(d, s.beta2);
    rest2 = hn::Set(d, s.beta2_complement);
    correction1 = hn::Set(d, s.correction1);
    correction2 = hn::Set(d, s.correction2);
  }

  template <bool kDecoupled>
  HWY_INLINE void update(FVec g, FVec& p, FVec& m, FVec& v) const {
    if constexpr (!kDecoupled) g = hn::MulAdd(decay, p, g);
    m = hn::MulAdd(rest1, g, hn::Mul(beta1, m));
    v = hn::MulAdd(hn::Mul(rest2, g), g, hn::Mul(beta2, v));
    const auto root = hn::Sqrt(hn::Div(v, correction2));
    auto step = hn::Div(hn::Div(m, correction1), hn::Add(root, eps));
    if constexpr (kDecoupled) step = hn::MulAdd(decay, p, step);
    p = hn::NegMulAdd(lr, step, p);
  }
};

template <bool kDecoupled>
void adam_run(const float* g, float* p, float* m, float* v, std::int64_t n,
              const AdamStep& step) {
  const AdamLanes lanes(step);
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) {
    auto vp = StoredF32::load(p + i), vm = StoredF32::load(m + i),
         vv = StoredF32::load(v + i);
    lanes.update<kDecoupled>(StoredF32::load(g + i), vp, vm, vv);
    StoredF32::store(vp, p + i);
    StoredF32::store(vm, m + i);
    StoredF32::store(vv, v + i);
  }
  if (i == n) return;
  const std::int64_t rest = n - i;
  auto vp = load_some<StoredF32>(p + i, rest, 0),
       vm = load_some<StoredF32>(m + i, rest, 0),
       vv = load_some<StoredF32>(v + i, rest, 0);
  lanes.update<kDecoupled>(load_some<StoredF32>(g + i, rest, 0), vp, vm, vv);
  store_some<StoredF32>(vp, rest, p + i);
  store_some<StoredF32>(vm, rest, m + i);
  store_some<StoredF32>(vv, rest, v + i);
}

inline void adam_vectors(const float* g, float* p, float* m, float* v,
                         std::int64_t n, const AdamStep& step) {
  (step.decoupled ? adam_run<true> : adam_run<false>)(g, p, m, v, n, step);
}

struct SgdLanes {
  FVec lr, momentum, rest, decay;
  bool first, nesterov, after, with_momentum;

  explicit SgdLanes(const SgdStep& s)
      : first(s.first_run),
        nesterov(s.nesterov),
        after(s.decay_after_momentum),
        with_momentum(s.momentum != 0) {
    const FTag d;
    lr = hn::Set(d, s.lr);
    momentum = hn::Set(d, s.momentum);
    rest = hn::Set(d, s.dampening_complement);
    decay = hn::Set(d, s.weight_decay);
  }

  HWY_INLINE void update(FVec g, FVec& p, FVec& buffer) const {
    if (!after) g = hn::MulAdd(decay, p, g);
    if (with_momentum) {
      buffer = first ? g : hn::MulAdd(momentum, buffer, hn::Mul(rest, g));
      g = nesterov ? hn::MulAdd(momentum, buffer, g) : buffer;
    }
    if (after) g = hn::MulAdd(decay, p, g);
    p = hn::NegMulAdd(lr, g, p);
  }
};

inline void sgd_vectors(const float* g, float* p, float* buffer, std::int64_t n,
                        const SgdStep& step) {
  const FTag d;
  const SgdLanes lanes(step);
  const bool keep = lanes.with_momentum;
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) {
    auto vp = StoredF32::load(p + i);
    auto vb = keep ? StoredF32::load(buffer + i) : hn::Zero(d);
    lanes.update(StoredF32::load(g + i), vp, vb);
    StoredF32::store(vp, p + i);
    if (keep) StoredF32::store(vb, buffer + i);
  }
  if (i == n) return;
  const std::int64_t rest = n - i;
  auto vp = load_some<StoredF32>(p + i, rest, 0);
  auto vb = keep ? load_some<StoredF32>(buffer + i, rest, 0) : hn::Zero(d);
  lanes.update(load_some<StoredF32>(g + i, rest, 0), vp, vb);
  store_some<StoredF32>(vp, rest, p + i);
  if (keep) store_some<StoredF32>(vb, rest, buffer + i);
}

inline bool scale_vectors(const float* in, float scale, std::int64_t n,
                          float* out) {
  const FTag d;
  const auto factor = hn::Set(d, scale);
  // x - x is 0 for a finite x and NaN else, and NaN stays.
  auto odd = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) {
    const auto x = StoredF32::load(in + i);
    odd = hn::Add(odd, hn::Sub(x, x));
    StoredF32::store(hn::Mul(x, factor), out + i);
  }
  if (i < n) {
    const auto x = load_some<StoredF32>(in + i, n - i, 0);
    odd = hn::Add(odd, hn::Sub(x, x));
    store_some<StoredF32>(hn::Mul(x, factor), n - i, out + i);
  }
  return hn::AllTrue(d, hn::Eq(odd, hn::Zero(d)));
}

inline double sum_squares_vectors(const float* x, float scale, std::int64_t n) {
  const FTag d;
  const hn::Half<FTag> half;
  const hn::Repartition<double, FTag> dd;
  using DoubleVec = hn::Vec<decltype(dd)>;
  constexpr int kSums = 4;
  const auto factor = hn::Set(d, scale);
  DoubleVec sum[kSums];
  for (auto& s : sum) s = hn::Zero(dd);
  const auto add = [&](FVec v, int at) {
    v = hn::Mul(v, factor);
    const auto low = hn::PromoteTo(dd, hn::LowerHalf(half, v));
    const auto high = hn::PromoteTo(dd, hn::UpperHalf(half, v));
    sum[at] = hn::MulAdd(low, low, sum[at]);
    sum[at + 1] = hn::MulAdd(high, high, sum[at + 1]);
  };
  // One core waits for memory rather than computes: asking ahead of the
  // hardware's own prefetcher is worth a quarter.
  constexpr std::int64_t kAhead = 1024;
  std::int64_t i = 0;
  for (; i + 2 * kFloats <= n; i += 2 * kFloats) {
    hwy::Prefetch(x + i + kAhead);
    add(StoredF32::load(x + i), 0);
    add(StoredF32::load(x + i + kFloats), 2);
  }
  for (; i + kFloats <= n; i += kFloats) add(StoredF32::load(x + i), 0);
  if (i < n) add(load_some<StoredF32>(x + i, n - i, 0), 2);
  const auto total = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  return hn::GetLane(hn::SumOfLanes(dd, total));
}

inline float absmax_vectors(const float* x, std::int64_t n) {
  const FTag d;
  auto top = hn::Zero(d);
  const auto add = [&](FVec v) {
    v = hn::Abs(v);
    top = hn::IfThenElse(hn::Gt(v, top), v, top);  // false for NaN
  };
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) add(StoredF32::load(x + i));
  if (i < n) add(load_some<StoredF32>(x + i, n - i, 0));
  return hn::GetLane(hn::MaxOfLanes(d, top));
}

inline void join_vectors(const std::uint16_t* high, const std::int16_t* low,
                         std::int64_t n, float* out) {
  const hn::RebindToSigned<FTag> di;
  const hn::Rebind<std::int16_t, FTag> d16;
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) {
    const auto bits =
        hn::LoadU(d16, reinterpret_cast<const std::int16_t*>(high) + i);
    const auto top = hn::ShiftLeft<16>(hn::PromoteTo(di, bits));
    // Adding the sign-extended low half takes the rounding back by itself.
    const auto rest = hn::PromoteTo(di, hn::LoadU(d16, low + i));
    hn::StoreU(hn::Add(top, rest), di,
               reinterpret_cast<std::int32_t*>(out) + i);
  }
  for (; i < n; ++i) out[i] = join_remainder(high[i], low[i]);
}

inline void split_vectors(const float* in, std::int64_t n, std::uint16_t* high,
                          std::int16_t* low) {
  const hn::RebindToSigned<FTag> di;
  const hn::Rebind<std::int16_t, FTag> d16;
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) {
    const auto bits =
        hn::LoadU(di, reinterpret_cast<const std::int32_t*>(in) + i);
    const auto rest = hn::ShiftRight<16>(hn::ShiftLeft<16>(bits));
    const auto top = hn::ShiftRight<16>(hn::Sub(bits, rest));
    hn::StoreU(hn::DemoteTo(d16, rest), d16, low + i);
    hn::StoreU(hn::DemoteTo(d16, top), d16,
               reinterpret_cast<std::int16_t*>(high) + i);
  }
  for (; i < n; ++i) split_remainder(in[i], high[i], low[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
