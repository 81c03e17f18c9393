// Panels of fp32: all outers of k = 0, then of k = 1 and so on.
// A part of simd/gemm.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kPackRun = 128;

// `count` values of outer `o` from `k` on, times `factor`.
inline void pack_values(const GemmView& view, std::int64_t o, std::int64_t k,
                        std::int64_t count, double factor, float* out,
                        GemmRange& range) {
  double wide[kPackRun];
  gemm_values(view, o, k, count, wide);
  for (std::int64_t j = 0; j < count; ++j) {
    const double value = wide[j] * factor;
    out[j] = static_cast<float>(value);
    if (value == 0 || !std::isfinite(value)) continue;
    const int exponent = std::ilogb(value);
    range.merge({exponent, exponent, double{out[j]} != value});
  }
}

inline bool is_plain(const GemmView& view, int shift) {
  return view.fold == GemmFold::kNone && shift == 0 &&
         view.dtype != DType::kE2M1;
}

inline const std::byte* element_at(const GemmView& view, std::int64_t index) {
  return view.data + index * (traits(view.dtype).bits / 8);
}

// k contiguous, or needing care: rows of values, transposed.
template <int kPanel>
void pack_by_outer(const GemmView& view, std::int64_t first, int count,
                   int shift, float* out, GemmRange& range) {
  const double factor = pow2(shift);
  const bool plain = is_plain(view, shift) && view.k_contiguous;
  alignas(64) float run[kPackRun];
  for (std::int64_t k = 0; k < view.k; k += kPackRun) {
    const std::int64_t n = std::min(kPackRun, view.k - k);
    for (int r = 0; r < count; ++r) {
      const std::int64_t o = first + r;
      if (plain)
        decode_f32(view.dtype, element_at(view, o * view.stride + k), n, run);
      else
        pack_values(view, o, k, n, factor, run, range);
      float* to = out + k * kPanel + r;
      for (std::int64_t j = 0; j < n; ++j) to[j * kPanel] = run[j];
    }
  }
}

template <int kPanel>
void gemm_pack(const GemmView& view, std::int64_t first, int shift,
               std::byte* panel, GemmRange& range) {
  auto* out = reinterpret_cast<float*>(panel);
  const int count =
      static_cast<int>(std::min<std::int64_t>(kPanel, view.outer - first));
  if (count < kPanel) std::fill(out, out + view.k * kPanel, 0.0f);
  if (view.k_contiguous || !is_plain(view, shift))
    return pack_by_outer<kPanel>(view, first, count, shift, out, range);
  for (std::int64_t k = 0; k < view.k; ++k)
    decode_f32(view.dtype, element_at(view, k * view.stride + first), count,
               out + k * kPanel);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
