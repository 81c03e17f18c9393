// The fp32 micro tile: kRows x kVectors vectors of sums stay in registers.
// A part of simd/gemm.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
constexpr int kGemmRows = 12, kGemmVectors = 2;
using GemmD = hn::CappedTag<float, 16>;
#elif HWY_TARGET == HWY_AVX2
constexpr int kGemmRows = 6, kGemmVectors = 2;
using GemmD = hn::CappedTag<float, 8>;
#else
constexpr int kGemmRows = 6, kGemmVectors = 4;
using GemmD = hn::CappedTag<float, 4>;
#endif
constexpr int kGemmColumns = kGemmVectors * static_cast<int>(MaxLanes(GemmD()));

constexpr int kTilePrefetch = 8;

// Unrolls body(std::integral_constant<int, i>) for i in [0, n).
template <int n, class Body>
HWY_INLINE void gemm_unroll(Body&& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (body(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, n>());
}

// Sums of the products of k elements, from zero, given row by row to
// store(row, vectors).
template <class Store>
HWY_INLINE void gemm_products(const float* HWY_RESTRICT a,
                              const float* HWY_RESTRICT b, std::int64_t k,
                              const std::byte* next, Store&& store) {
  const GemmD d;
  hn::Vec<GemmD> sum[kGemmRows][kGemmVectors];
  gemm_unroll<kGemmRows>([&](auto r) {
    gemm_unroll<kGemmVectors>([&](auto v) { sum[r][v] = hn::Zero(d); });
  });
  for (std::int64_t i = 0; i < k; ++i) {
    __builtin_prefetch(next + i * kTilePrefetch, 0, 2);
    hn::Vec<GemmD> column[kGemmVectors];
    gemm_unroll<kGemmVectors>([&](auto v) {
      column[v] = hn::Load(d, b + static_cast<int>(v * hn::Lanes(d)));
    });
    gemm_unroll<kGemmRows>([&](auto r) {
      const auto row = hn::Set(d, a[r]);
      gemm_unroll<kGemmVectors>(
          [&](auto v) { sum[r][v] = hn::MulAdd(row, column[v], sum[r][v]); });
    });
    a += kGemmRows;
    b += kGemmColumns;
  }
  gemm_unroll<kGemmRows>([&](auto r) {
    gemm_unroll<kGemmVectors>([&](auto v) { store(r, v, sum[r][v]); });
  });
}

void gemm_tile(const std::byte* row_panel, const std::byte* column_panel,
               std::int64_t k, bool add, const std::byte* next, float* acc) {
  const GemmD d;
  gemm_products(reinterpret_cast<const float*>(row_panel),
                reinterpret_cast<const float*>(column_panel), k, next,
                [&](int r, int v, hn::Vec<GemmD> sum) HWY_ATTR {
                  float* at = acc + r * kGemmColumns +
                              v * static_cast<int>(hn::Lanes(d));
                  hn::Store(add ? hn::Add(hn::Load(d, at), sum) : sum, d, at);
                });
}

void gemm_scaled_tile(const std::byte* row_panel, const std::byte* column_panel,
                      std::int64_t k, bool add, const std::byte* next,
                      const GemmTileScales& scales, float* acc) {
  const GemmD d;
  const auto* a = reinterpret_cast<const float*>(row_panel);
  const auto* b = reinterpret_cast<const float*>(column_panel);
  const float* row_scales = scales.row;
  const float* column_scales = scales.column;
  for (std::int64_t begin = 0; begin < k; begin += kGemmScaleBlock) {
    const std::int64_t n = std::min(kGemmScaleBlock, k - begin);
    gemm_products(
        a, b, n, next, [&](int r, int v, hn::Vec<GemmD> partial) HWY_ATTR {
          const int at = v * static_cast<int>(hn::Lanes(d));
          const auto row = hn::Set(d, row_scales[r]);
          const auto column = hn::LoadU(d, column_scales + at);
          const auto first = scales.column_first ? column : row;
          const auto second = scales.column_first ? row : column;
          float* to = acc + r * kGemmColumns + at;
          const auto before = add ? hn::Load(d, to) : hn::Zero(d);
          hn::Store(hn::MulAdd(hn::Mul(partial, first), second, before), d, to);
        });
    a += n * kGemmRows;
    next += n * kTilePrefetch;
    b += n * kGemmColumns;
    row_scales += scales.row_stride;
    column_scales += scales.column_stride;
    add = true;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
