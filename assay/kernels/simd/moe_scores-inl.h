// Score functions of a router, and the k largest.
// A part of simd_moe.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Fills the room behind n scores so that whole vectors can be worked on.
HWY_INLINE void pad_scores(float* x, std::int64_t n, float fill) {
  hn::StoreU(hn::Set(FTag(), fill), FTag(), x + n);
}

inline void softmax_scores(float* x, std::int64_t n) {
  const FTag d;
  pad_scores(x, n, -std::numeric_limits<float>::infinity());
  auto top = hn::LoadU(d, x);
  for (std::int64_t i = kFloats; i < n; i += kFloats)
    top = hn::Max(top, hn::LoadU(d, x + i));
  top = hn::MaxOfLanes(d, top);
  auto sum = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += kFloats) {
    const auto e = exp_to_88(hn::Sub(hn::LoadU(d, x + i), top));
    hn::StoreU(e, d, x + i);
    sum = hn::Add(sum, e);
  }
  sum = hn::SumOfLanes(d, sum);
  for (std::int64_t i = 0; i < n; i += kFloats)
    hn::StoreU(hn::Div(hn::LoadU(d, x + i), sum), d, x + i);
}

inline void sigmoid_scores(float* x, std::int64_t n) {
  const FTag d;
  const auto one = hn::Set(d, 1.0f);
  pad_scores(x, n, 0);
  for (std::int64_t i = 0; i < n; i += kFloats) {
    const auto v = hn::LoadU(d, x + i);
    const auto e = exp_to_88(hn::Neg(hn::Abs(v)));
    const auto top = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), e, one);
    hn::StoreU(hn::Div(top, hn::Add(one, e)), d, x + i);
  }
}

inline void softplus_root_scores(float* x, std::int64_t n) {
  const FTag d;
  pad_scores(x, n, 0);
  for (std::int64_t i = 0; i < n; i += kFloats) {
    const auto v = hn::LoadU(d, x + i);
    const auto e = exp_to_88(hn::Neg(hn::Abs(v)));
    // log1p of a NaN need not be one: the sum with v is.
    const auto positive =
        hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v);
    hn::StoreU(hn::Sqrt(hn::Add(positive, hn::Log1p(d, e))), d, x + i);
  }
}

inline void top_k_scores(const float* x, std::int64_t n, std::int64_t k,
                         std::int32_t* keys, std::int32_t* indices) {
  const FTag d;
  const hn::RebindToSigned<FTag> di;
  const auto fold = hn::Set(di, std::numeric_limits<std::int32_t>::max());
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) {
    const auto v = hn::LoadU(d, x + i);
    const auto bits = hn::BitCast(di, hn::Add(v, hn::Zero(d)));
    const auto folded =
        hn::IfThenElse(hn::Lt(bits, hn::Zero(di)), hn::Xor(bits, fold), bits);
    const auto nan = hn::RebindMask(di, hn::IsNaN(v));
    hn::StoreU(hn::IfThenElse(nan, hn::Set(di, kNanScore), folded), di,
               keys + i);
  }
  for (; i < n; ++i) keys[i] = score_key(x[i]);
  hn::StoreU(hn::Set(di, kNoScore), di, keys + n);
  for (std::int64_t j = 0; j < k; ++j) {
    auto best = hn::LoadU(di, keys);
    for (i = kFloats; i < n; i += kFloats)
      best = hn::Max(best, hn::LoadU(di, keys + i));
    best = hn::MaxOfLanes(di, best);
    for (i = 0; i < n; i += kFloats) {
      const auto lane =
          hn::FindFirstTrue(di, hn::Eq(hn::LoadU(di, keys + i), best));
      if (lane < 0) continue;
      indices[j] = static_cast<std::int32_t>(i + lane);
      keys[i + lane] = kNoScore;
      break;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
