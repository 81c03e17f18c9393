// Products and element-wise work on tiles in fp32.
// A part of attention.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

// Four rows by kVectors vectors of C, kept in registers over all of K.
template <int kVectors>
HWY_INLINE void product_block(std::int64_t n, std::int64_t k, const float* a,
                              const float* b, float* c, bool accumulate) {
  const DF d;
  VF sum[4][kVectors];
  for (int r = 0; r < 4; ++r)
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] =
          accumulate ? hn::LoadU(d, c + r * n + v * kWidth) : hn::Zero(d);
  for (std::int64_t i = 0; i < k; ++i) {
    VF row[kVectors];
    for (int v = 0; v < kVectors; ++v)
      row[v] = hn::LoadU(d, b + i * n + v * kWidth);
    for (int r = 0; r < 4; ++r) {
      const auto x = hn::Set(d, a[r * k + i]);
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = hn::MulAdd(x, row[v], sum[r][v]);
    }
  }
  for (int r = 0; r < 4; ++r)
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(sum[r][v], d, c + r * n + v * kWidth);
}

void product_f32(std::int64_t m, std::int64_t n, std::int64_t k,
                 const void* a_void, const void* b_void, float* c,
                 bool accumulate) {
  const auto* a = static_cast<const float*>(a_void);
  const auto* b = static_cast<const float*>(b_void);
  constexpr int kVectors = HWY_TARGET == HWY_AVX2 ? 2 : 4;
  constexpr std::int64_t kStep = kVectors * kWidth;
  std::int64_t j = 0;
  for (; j + kStep <= n; j += kStep)
    for (std::int64_t i = 0; i < m; i += 4)
      product_block<kVectors>(n, k, a + i * k, b + j, c + i * n + j,
                              accumulate);
  for (; j < n; j += kWidth)
    for (std::int64_t i = 0; i < m; i += 4)
      product_block<1>(n, k, a + i * k, b + j, c + i * n + j, accumulate);
}

void scale_columns(float* tile, std::int64_t rows, std::int64_t columns,
                   const float* factor) {
  const DF d;
  for (std::int64_t c = 0; c < columns; c += kWidth) {
    const auto f = hn::LoadU(d, factor + c);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* p = tile + r * columns + c;
      hn::StoreU(hn::Mul(hn::LoadU(d, p), f), d, p);
    }
  }
}

// score * scale + added, finite where the score is above -inf.
HWY_INLINE VF logit_of(VF score, VF scale, VF added) {
  const DF d;
  const auto none = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto x = hn::MulAdd(score, scale, added);
  const auto overflows = hn::And(hn::Eq(x, none), hn::Gt(score, none));
  return hn::IfThenElse(overflows,
                        hn::Set(d, std::numeric_limits<float>::lowest()), x);
}

// The logit of one key for a vector of queries, -inf where it is excluded.
template <typename Tile>
HWY_INLINE VF logits(const Tile& t, std::int64_t key, std::int64_t c,
                     VF scale) {
  const DF d;
  const std::int64_t at = key * t.columns + c;
  const auto s = hn::LoadU(d, t.scores + at);
  auto x = t.added != nullptr ? logit_of(s, scale, hn::LoadU(d, t.added + at))
                              : hn::Mul(s, scale);
  if (t.keep != nullptr)
    x = hn::IfThenElse(mask_of(t.keep[key], c), x,
                       hn::Set(d, -std::numeric_limits<float>::infinity()));
  return x;
}

bool softmax_tile(const SoftmaxTile& t) {
  const DF d;
  const auto scale = hn::Set(d, t.scale);
  const auto factor = hn::Set(d, t.factor);
  const auto zero = hn::Zero(d);
  const auto none = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto* out = static_cast<float*>(t.probabilities);
  bool changed = false;
  for (std::int64_t c = 0; c < t.columns; c += kWidth) {
    const auto before = hn::LoadU(d, t.max + c);
    auto best = before;
    for (std::int64_t key = 0; key < t.keys; ++key)
      best = greater(logits(t, key, c, scale), best);
    // Where every logit so far is -inf, 0 stands for the maximum.
    const auto base = hn::IfThenElse(hn::Eq(best, none), zero, best);
    const auto correction = exp2_of(hn::Mul(hn::Sub(before, base), factor));
    auto sum = hn::Mul(hn::LoadU(d, t.sum + c), correction);
    for (std::int64_t key = 0; key < t.keys; ++key) {
      const auto x = logits(t, key, c, scale);
      auto p = exp2_of(hn::Mul(hn::Sub(x, base), factor));
      sum = hn::Add(sum, p);
      if (t.dropped != nullptr)
        p = hn::IfThenElse(mask_of(t.dropped[key], c), zero, p);
      hn::StoreU(p, d, out + key * t.columns + c);
    }
    hn::StoreU(best, d, t.max + c);
    hn::StoreU(sum, d, t.sum + c);
    hn::StoreU(correction, d, t.correction + c);
    changed |= !hn::AllTrue(d, hn::Eq(correction, hn::Set(d, 1.0f)));
  }
  return changed;
}

void gradient_tile(const GradientTile& t) {
  const DF d;
  const auto scale = hn::Set(d, t.scale);
  const auto log2e = hn::Set(d, static_cast<float>(kLog2E));
  const auto zero = hn::Zero(d);
  const auto keep_scale = hn::Set(d, t.keep_scale);
  auto* p_out = static_cast<float*>(t.p_a);
  auto* ds_a = static_cast<float*>(t.ds_a);
  auto* ds_b = static_cast<float*>(t.ds_b);
  for (std::int64_t c = 0; c < t.columns; c += kWidth) {
    const auto lse = hn::LoadU(d, t.lse + c);
    const auto delta = hn::LoadU(d, t.delta + c);
    for (std::int64_t key = 0; key < t.keys; ++key) {
      const std::int64_t at = key * t.columns + c;
      const auto x = logits(t, key, c, scale);
      const auto p = exp2_of(hn::Mul(hn::Sub(x, lse), log2e));
      auto dp = hn::LoadU(d, t.d_probabilities + at);
      auto kept = p;
      if (t.dropped != nullptr) {
        const auto dropped = mask_of(t.dropped[key], c);
        dp = hn::IfThenElse(dropped, zero, hn::Mul(dp, keep_scale));
        kept = hn::IfThenElse(dropped, zero, hn::Mul(p, keep_scale));
      }
      auto ds = hn::Mul(p, hn::Sub(dp, delta));
      if (t.keep != nullptr)
        ds = hn::IfThenElse(mask_of(t.keep[key], c), ds, zero);
      hn::StoreU(kept, d, p_out + at);
      hn::StoreU(ds, d, ds_a + at);
      hn::StoreU(ds, d, ds_b + at);
      if (t.want_ds) hn::StoreU(ds, d, t.d_probabilities + at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
