#include "assay/kernels/ref/ref_gemm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/kernels/gemm_value.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

constexpr std::int64_t kRowBlock = 8;

std::vector<double> decoded(const GemmView& view) {
  std::vector<double> out(static_cast<std::size_t>(view.outer * view.k));
  parallel_for(view.outer, [&](std::int64_t o) {
    gemm_values(view, o, 0, view.k, out.data() + o * view.k);
  });
  return out;
}

template <typename Make>
auto dot(Make make, const double* a, const double* b, std::int64_t n) {
  auto sum = make();
  using Real = typename decltype(sum)::Real;
  for (std::int64_t i = 0; i < n; ++i)
    sum.add(static_cast<Real>(a[i]) * static_cast<Real>(b[i]));
  return sum.total();
}

struct BlockFactors {
  double first, second;
};
BlockFactors factors(const GemmProblem& p, std::int64_t block, std::int64_t i,
                     std::int64_t j) {
  const double row = p.block.row[block * p.row.outer + i];
  const double column = p.block.column[block * p.column.outer + j];
  return p.block.column_first ? BlockFactors{column, row}
                              : BlockFactors{row, column};
}

// `exact`: no rounding to fp32 between the blocks.
template <typename Make>
double element(const GemmProblem& p, Make make, bool exact, const double* a,
               const double* b, std::int64_t i, std::int64_t j) {
  const std::int64_t k = p.row.k;
  if (p.block.row == nullptr) return dot(make, a, b, k);
  double sum = 0;
  for (std::int64_t begin = 0; begin < k; begin += kGemmScaleBlock) {
    const std::int64_t n = std::min(kGemmScaleBlock, k - begin);
    const auto [first, second] = factors(p, begin / kGemmScaleBlock, i, j);
    const double partial = dot(make, a + begin, b + begin, n);
    if (exact) {
      sum += partial * first * second;
    } else {
      const float t = static_cast<float>(partial) * static_cast<float>(first);
      sum = std::fma(t, static_cast<float>(second), static_cast<float>(sum));
    }
  }
  return sum;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double gelu_gate(double x) {
  return sigmoid(2 * x * (kGeluLinear + kGeluCubic * x * x));
}

double gelu(double x) { return x * gelu_gate(x); }

// With s = sigmoid(2u): s + x s (1 - s) 2u'.
double gelu_slope(double x) {
  const double s = gelu_gate(x);
  return s + x * s * (1 - s) * 2 * (kGeluLinear + kGeluSlopeSquare * x * x);
}

// Applies the epilogue to the sum of (i, j), stores, and returns v.
double finish(const GemmEpilogue& e, std::int64_t n, std::int64_t i,
              std::int64_t j, double sum) {
  const std::int64_t at = i * n + j;
  double v = sum * e.alpha * (e.row_alpha ? double{e.row_alpha[i]} : 1.0);
  if (e.c && e.beta != 0)
    v += double{e.beta} * load_as_double(e.c_dtype, e.c, at);
  if (e.bias) v += double{e.bias[j]};
  if (e.activation == GemmActivation::kGelu) {
    if (e.aux) store_from_double(e.aux_dtype, v, e.aux, at);
    v = gelu(v);
  } else if (e.activation == GemmActivation::kDGelu) {
    v *= gelu_slope(load_as_double(e.aux_dtype, e.aux, at));
  }
  const bool fp8 = traits(e.d_dtype).bits == 8;
  store_from_double(e.d_dtype, fp8 ? v * e.d_scale : v, e.d, at);
  return v;
}

template <typename Make>
void run(const GemmProblem& p, Make make, bool exact) {
  const std::int64_t m = p.row.outer, n = p.column.outer, k = p.row.k;
  const std::vector<double> a = decoded(p.row), b = decoded(p.column);
  const std::int64_t blocks = (m + kRowBlock - 1) / kRowBlock;
  const auto size = static_cast<std::size_t>(blocks);
  std::vector<float> amax(size, 0.0f);
  std::vector<std::vector<double>> sums(size);
  parallel_for(blocks, [&](std::int64_t block) {
    const auto slot = static_cast<std::size_t>(block);
    std::vector<double> columns(static_cast<std::size_t>(n), 0.0);
    const std::int64_t end = std::min(m, (block + 1) * kRowBlock);
    for (std::int64_t i = block * kRowBlock; i < end; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const double sum =
            element(p, make, exact, a.data() + i * k, b.data() + j * k, i, j);
        const double v = finish(p.epilogue, n, i, j, sum);
        columns[static_cast<std::size_t>(j)] += v;
        amax[slot] = std::fmax(amax[slot], static_cast<float>(std::fabs(v)));
      }
    }
    if (p.epilogue.column_sums) sums[slot] = std::move(columns);
  });
  if (p.epilogue.amax)
    *p.epilogue.amax = amax.empty() ? 0 : *std::ranges::max_element(amax);
  if (double* out = p.epilogue.column_sums) {
    std::fill(out, out + n, 0.0);
    for (const auto& block : sums)
      for (std::int64_t j = 0; j < n; ++j)
        out[j] += block[static_cast<std::size_t>(j)];
  }
}

void ref_gemm(const GemmProblem& problem) {
  gemm_plain(problem, InternalPrecision::kF32, DType::kF32);
}

}  // namespace

void gemm_plain(const GemmProblem& problem, InternalPrecision precision,
                DType working) {
  if (precision == InternalPrecision::kF32) {
    run(
        problem, [=] { return PlainSum<double>(working); }, false);
    return;
  }
  with_accumulator(precision, working, [&](auto make) {
    run(problem, make, precision == InternalPrecision::kF64);
  });
}

constinit const GemmKernels kRefGemm = {"scalar", "fp64", &ref_gemm};

}  // namespace assay
