// Panels of fp32: all outers of k = 0, then of k = 1 and so on.
// A part of simd/gemm.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kPackRun = 128;

// n elements of a plain dtype as fp32, exact.
inline void widen_run(DType dtype, const std::byte* in, std::int64_t n,
                      float* out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  const GemmD d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  if (dtype == DType::kBF16) {
    const hn::RebindToUnsigned<GemmD> du;
    const hn::Rebind<std::uint16_t, GemmD> d16;
    const auto* codes = reinterpret_cast<const std::uint16_t*>(in);
    for (; i + lanes <= n; i += lanes) {
      const auto wide = hn::PromoteTo(du, hn::LoadU(d16, codes + i));
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(wide)), d, out + i);
    }
  } else if (dtype == DType::kF16) {
    const hn::Rebind<hwy::float16_t, GemmD> d16;
    const auto* codes = reinterpret_cast<const hwy::float16_t*>(in);
    for (; i + lanes <= n; i += lanes)
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, codes + i)), d, out + i);
  }
  decode_f32(dtype, in + i * (traits(dtype).bits / 8), n - i, out + i);
}

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

// Four rows of n values become columns kPanel apart.
template <int kPanel>
HWY_INLINE void transpose_four(const float (&rows)[4][kPackRun], std::int64_t n,
                               float* out) {
  const hn::CappedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> pairs;
  const auto low = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(pairs, hn::BitCast(pairs, a),
                                              hn::BitCast(pairs, b)));
  };
  const auto high = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(pairs, hn::BitCast(pairs, a),
                                              hn::BitCast(pairs, b)));
  };
  // The run is padded: what lies beyond n is not stored.
  for (std::int64_t j = 0; j < n; j += 4) {
    const auto r0 = hn::Load(d, rows[0] + j), r1 = hn::Load(d, rows[1] + j);
    const auto r2 = hn::Load(d, rows[2] + j), r3 = hn::Load(d, rows[3] + j);
    const auto a = hn::InterleaveLower(d, r0, r1);
    const auto b = hn::InterleaveLower(d, r2, r3);
    const auto c = hn::InterleaveUpper(d, r0, r1);
    const auto e = hn::InterleaveUpper(d, r2, r3);
    const hn::Vec<decltype(d)> columns[4] = {low(a, b), high(a, b), low(c, e),
                                             high(c, e)};
    const std::int64_t end = std::min<std::int64_t>(4, n - j);
    for (std::int64_t i = 0; i < end; ++i)
      hn::StoreU(columns[i], d, out + (j + i) * kPanel);
  }
}

// `width` of the four rows.
template <int kPanel>
HWY_INLINE void store_four(const float (&rows)[4][kPackRun], std::int64_t n,
                           int width, float* out) {
  if (width == 4) return transpose_four<kPanel>(rows, n, out);
  for (std::int64_t j = 0; j < n; ++j)
    for (int i = 0; i < width; ++i) out[j * kPanel + i] = rows[i][j];
}

// k contiguous, or needing care: rows of values, four at a time, transposed.
template <int kPanel>
void pack_by_outer(const GemmView& view, std::int64_t first, int count,
                   int shift, float* out, GemmRange& range) {
  const double factor = pow2(shift);
  const bool plain = is_plain(view, shift) && view.k_contiguous;
  alignas(64) float rows[4][kPackRun] = {};
  for (std::int64_t k = 0; k < view.k; k += kPackRun) {
    const std::int64_t n = std::min(kPackRun, view.k - k);
    for (int r = 0; r < count; r += 4) {
      for (int i = 0; i < 4; ++i) {
        const std::int64_t o = first + r + i;
        if (r + i >= count)
          std::fill_n(rows[i], n, 0.0f);
        else if (plain)
          widen_run(view.dtype, element_at(view, o * view.stride + k), n,
                    rows[i]);
        else
          pack_values(view, o, k, n, factor, rows[i], range);
      }
      store_four<kPanel>(rows, n, std::min(4, kPanel - r),
                         out + k * kPanel + r);
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
    widen_run(view.dtype, element_at(view, k * view.stride + first), count,
              out + k * kPanel);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
