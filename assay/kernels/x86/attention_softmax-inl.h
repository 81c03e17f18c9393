// Element-wise work on tiles: exponentials, masks, rounding to bf16.
// A part of attention.cpp: no guard, no includes.

inline __m512 exp2_of(__m512 x) {
  // The second operand of max is what a NaN gives.
  x = _mm512_max_ps(_mm512_set1_ps(kExp2Least), x);
  const __m512 whole = _mm512_roundscale_ps(x, 8);
  const __m512 r = _mm512_sub_ps(x, whole);
  __m512 p =
      _mm512_fmadd_ps(_mm512_set1_ps(kExp2C5), r, _mm512_set1_ps(kExp2C4));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExp2C3));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExp2C2));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExp2C1));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, whole);
}

// Two rows of fp32 as woven bf16 pairs.
inline __m512i pairs_of(__m512 even, __m512 odd) {
  const __m512i codes = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11,
                                         26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, codes);
}

inline __mmask16 bits_of(const std::uint64_t* words, std::int64_t key,
                         std::int64_t column) {
  return static_cast<__mmask16>(words[key] >> column);
}

const float kNone = -std::numeric_limits<float>::infinity();

// score * scale + added, finite where the score is above -inf.
inline __m512 logit_of(__m512 score, __m512 scale, __m512 added) {
  const __m512 x = _mm512_fmadd_ps(score, scale, added);
  const __mmask16 some =
      _mm512_cmp_ps_mask(score, _mm512_set1_ps(kNone), _CMP_NEQ_UQ);
  // The second operand of max is what a NaN gives.
  return _mm512_mask_max_ps(
      x, some, _mm512_set1_ps(std::numeric_limits<float>::lowest()), x);
}

// Applies scale, additions and masks in place: afterwards scores are logits.
inline void finish_logits(const SoftmaxTile& t) {
  const __m512 scale = _mm512_set1_ps(t.scale);
  for (std::int64_t key = 0; key < t.keys; ++key)
    for (std::int64_t c = 0; c < t.columns; c += 16) {
      float* at = t.scores + key * t.columns + c;
      __m512 x = _mm512_mul_ps(_mm512_loadu_ps(at), scale);
      if (t.added != nullptr)
        x = logit_of(_mm512_loadu_ps(at), scale,
                     _mm512_loadu_ps(t.added + key * t.columns + c));
      if (t.keep != nullptr)
        x = _mm512_mask_mov_ps(_mm512_set1_ps(kNone), bits_of(t.keep, key, c),
                               x);
      _mm512_storeu_ps(at, x);
    }
}

// Greatest of a column group; four chains, since max has a latency.
inline __m512 column_max(const float* scores, std::int64_t keys,
                         std::int64_t columns) {
  __m512 best[4];
  for (int i = 0; i < 4; ++i) best[i] = _mm512_set1_ps(kNone);
  for (std::int64_t key = 0; key < keys; key += 4)
    for (int i = 0; i < 4; ++i)
      best[i] =
          _mm512_max_ps(_mm512_loadu_ps(scores + (key + i) * columns), best[i]);
  return _mm512_max_ps(_mm512_max_ps(best[0], best[1]),
                       _mm512_max_ps(best[2], best[3]));
}

template <bool kDrop>
bool softmax_columns(const SoftmaxTile& t) {
  const __m512 factor = _mm512_set1_ps(t.factor);
  auto* out = static_cast<std::uint32_t*>(t.probabilities);
  bool changed = false;
  for (std::int64_t c = 0; c < t.columns; c += 16) {
    const float* scores = t.scores + c;
    const __m512 before = _mm512_loadu_ps(t.max + c);
    const __m512 here = column_max(scores, t.keys, t.columns);
    const __m512 best = _mm512_max_ps(here, before);
    const __mmask16 some =
        _mm512_cmp_ps_mask(best, _mm512_set1_ps(kNone), _CMP_NEQ_UQ);
    const __m512 base = _mm512_maskz_mov_ps(some, best);
    const auto weight = [&](__m512 x) {
      return exp2_of(_mm512_mul_ps(_mm512_sub_ps(x, base), factor));
    };
    const __m512 correction = weight(before);
    __m512 sum0 = _mm512_mul_ps(_mm512_loadu_ps(t.sum + c), correction);
    __m512 sum1 = _mm512_setzero_ps();
    for (std::int64_t key = 0; key < t.keys; key += 2) {
      const float* at = scores + key * t.columns;
      __m512 p0 = weight(_mm512_loadu_ps(at));
      __m512 p1 = weight(_mm512_loadu_ps(at + t.columns));
      sum0 = _mm512_add_ps(sum0, p0);
      sum1 = _mm512_add_ps(sum1, p1);
      if constexpr (kDrop) {
        const __mmask16 d0 = bits_of(t.dropped, key, c);
        const __mmask16 d1 = bits_of(t.dropped, key + 1, c);
        p0 = _mm512_mask_mov_ps(p0, d0, _mm512_setzero_ps());
        p1 = _mm512_mask_mov_ps(p1, d1, _mm512_setzero_ps());
      }
      _mm512_storeu_si512(out + key / 2 * t.columns + c, pairs_of(p0, p1));
    }
    _mm512_storeu_ps(t.max + c, best);
    _mm512_storeu_ps(t.sum + c, _mm512_add_ps(sum0, sum1));
    _mm512_storeu_ps(t.correction + c, correction);
    changed |=
        _mm512_cmp_ps_mask(correction, _mm512_set1_ps(1.0f), _CMP_NEQ_UQ) != 0;
  }
  return changed;
}

bool softmax_bf16(const SoftmaxTile& t) {
  if (t.added != nullptr || t.keep != nullptr || t.scale != 1) finish_logits(t);
  return t.dropped != nullptr ? softmax_columns<true>(t)
                              : softmax_columns<false>(t);
}

struct GradientPair {
  __m512 p, ds;
};

template <bool kPlain>
inline GradientPair gradient_of(const GradientTile& t, std::int64_t key,
                                std::int64_t c, __m512 scale, __m512 lse,
                                __m512 delta) {
  const std::int64_t at = key * t.columns + c;
  const __m512 score = _mm512_loadu_ps(t.scores + at);
  // Rounded as forward rounds it: the greatest logit has to meet its own lse.
  __m512 x = _mm512_mul_ps(score, scale);
  if constexpr (!kPlain)
    if (t.added != nullptr)
      x = logit_of(score, scale, _mm512_loadu_ps(t.added + at));
  __m512 p = exp2_of(_mm512_mul_ps(_mm512_sub_ps(x, lse),
                                   _mm512_set1_ps(static_cast<float>(kLog2E))));
  __m512 dp = _mm512_loadu_ps(t.d_probabilities + at);
  if constexpr (kPlain) return {p, _mm512_mul_ps(p, _mm512_sub_ps(dp, delta))};
  if (t.keep != nullptr) p = _mm512_maskz_mov_ps(bits_of(t.keep, key, c), p);
  __m512 kept = p;
  if (t.dropped != nullptr) {
    const __mmask16 keep = static_cast<__mmask16>(~bits_of(t.dropped, key, c));
    const __m512 keep_scale = _mm512_set1_ps(t.keep_scale);
    dp = _mm512_maskz_mul_ps(keep, dp, keep_scale);
    kept = _mm512_maskz_mul_ps(keep, p, keep_scale);
  }
  __m512 ds = _mm512_mul_ps(p, _mm512_sub_ps(dp, delta));
  if (t.keep != nullptr) ds = _mm512_maskz_mov_ps(bits_of(t.keep, key, c), ds);
  if (t.want_ds) _mm512_storeu_ps(t.d_probabilities + at, ds);
  return {kept, ds};
}

inline void store_codes(void* to, std::int64_t at, __m512 v) {
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(static_cast<std::uint16_t*>(to) + at),
      (__m256i)_mm512_cvtneps_pbh(v));
}

template <bool kPlain>
void gradient_columns(const GradientTile& t) {
  const __m512 scale = _mm512_set1_ps(t.scale);
  auto* woven = static_cast<std::uint32_t*>(t.ds_b);
  for (std::int64_t c = 0; c < t.columns; c += 16) {
    const __m512 lse = _mm512_loadu_ps(t.lse + c);
    const __m512 delta = _mm512_loadu_ps(t.delta + c);
    for (std::int64_t key = 0; key < t.keys; key += 2) {
      const GradientPair even =
          gradient_of<kPlain>(t, key, c, scale, lse, delta);
      const GradientPair odd =
          gradient_of<kPlain>(t, key + 1, c, scale, lse, delta);
      const std::int64_t at = key * t.columns + c;
      store_codes(t.p_a, at, even.p);
      store_codes(t.p_a, at + t.columns, odd.p);
      store_codes(t.ds_a, at, even.ds);
      store_codes(t.ds_a, at + t.columns, odd.ds);
      _mm512_storeu_si512(woven + key / 2 * t.columns + c,
                          pairs_of(even.ds, odd.ds));
    }
  }
}

void gradient_bf16(const GradientTile& t) {
  const bool plain = t.added == nullptr && t.keep == nullptr &&
                     t.dropped == nullptr && !t.want_ds;
  if (plain)
    gradient_columns<true>(t);
  else
    gradient_columns<false>(t);
}

void scale_columns(float* tile, std::int64_t rows, std::int64_t columns,
                   const float* factor) {
  for (std::int64_t c = 0; c < columns; c += 16) {
    const __m512 f = _mm512_loadu_ps(factor + c);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* at = tile + r * columns + c;
      _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), f));
    }
  }
}
