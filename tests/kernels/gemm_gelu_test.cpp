// gelu and its derivative in the GEMM's epilogue, at every bf16 number, against
// the tanh form in fp64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/kernels/gemm.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

constexpr std::int64_t kCount = 1 << 16;  // numbers of bf16

double sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

double gelu_u(double x) { return x * (0.79788456 + 0.03567741 * x * x); }

double gelu(double x) { return x * sigmoid(2 * gelu_u(x)); }

double gelu_slope(double x) {
  const double s = sigmoid(2 * gelu_u(x));
  return s + x * s * (1 - s) * 2 * (0.79788456 + 0.1070322243 * x * x);
}

Tensor every_bf16() {
  Tensor t = Tensor::empty(DType::kBF16, {kCount});
  auto* codes = reinterpret_cast<std::uint16_t*>(t.mutable_data());
  for (std::int64_t i = 0; i < kCount; ++i)
    codes[i] = static_cast<std::uint16_t>(i);
  return t;
}

Tensor bf16_ones(std::int64_t n) {
  Tensor t = Tensor::empty(DType::kBF16, {n});
  for (std::int64_t i = 0; i < n; ++i)
    store_from_double(DType::kBF16, 1, t.mutable_data(), i);
  return t;
}

GemmView column(const Tensor& t) {
  return {t.dtype(), t.view.data, t.numel(), 1, true, 1};
}

// 1 times `right` as one row: the sums of columns are what is rounded to d.
struct Product {
  Tensor d;
  std::vector<double> before;
};

Product multiply(const GemmKernels& kernels, const Tensor& right,
                 GemmEpilogue epilogue, DType dtype) {
  const Tensor one = bf16_ones(1);
  Product product{Tensor::empty(dtype, {kCount}),
                  std::vector<double>(static_cast<std::size_t>(kCount))};
  GemmProblem p;
  p.row = column(one);
  p.column = column(right);
  p.epilogue = epilogue;
  p.epilogue.d = product.d.mutable_data();
  p.epilogue.d_dtype = dtype;
  p.epilogue.column_sums = product.before.data();
  kernels.gemm(p);
  return product;
}

struct Expected {
  double value;
  double terms;     // what errors are measured by
  double per_u, u;  // the error of a narrow d: 4 + per_u |u| of 2^-24
};

double bound(const Expected& e, DType dtype) {
  if (dtype == DType::kF32) return 0x1p-23 * e.terms + 0x1p-149;
  // Where exp leaves fp32 the value is 0 or what is lost is below 2^-120.
  const double u = std::min(std::fabs(e.u), 60.0);
  return (4 + e.per_u * u) * 0x1p-24 * e.terms + 0x1p-120;
}

void check(const Product& p, const std::string& what,
           Expected (*expected_of)(double)) {
  const Tensor x = every_bf16();
  const DType dtype = p.d.dtype();
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double v = p.before[static_cast<std::size_t>(i)];
    const double d = load_as_double(dtype, p.d.view.data, i);
    const double in = load_as_double(DType::kBF16, x.view.data, i);
    const Expected e = expected_of(in);
    if (std::isnan(e.value)) {
      ASSERT_TRUE(std::isnan(v) && std::isnan(d)) << what << " of " << in;
      continue;
    }
    // fp64 values (the plain loops) need not be fp32 numbers.
    ASSERT_EQ(d, round_to(dtype, v)) << what << " of " << in;
    if (v == e.value) continue;
    ASSERT_TRUE(std::isfinite(e.value)) << what << " of " << in;
    ASSERT_LE(std::fabs(v - e.value), bound(e, dtype)) << what << " of " << in;
  }
}

std::string name_of(const GemmKernels& kernels, DType dtype) {
  return std::string(kernels.isa) + " " + kernels.unit + " " +
         std::string(traits(dtype).name);
}

TEST(GemmGelu, EveryBf16) {
  const Tensor x = every_bf16();
  GemmEpilogue epilogue;
  epilogue.activation = GemmActivation::kGelu;
  for (const GemmKernels* kernels : all_gemm_kernels())
    for (DType dtype :
         {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3FN, DType::kE5M2})
      check(multiply(*kernels, x, epilogue, dtype), name_of(*kernels, dtype),
            [](double in) {
              const double y = gelu(in);
              return Expected{y, std::fabs(y), 4, gelu_u(in)};
            });
}

// A sum of two terms, each judged by its own size.
TEST(GemmGelu, SlopeOfEveryBf16) {
  const Tensor ones = bf16_ones(kCount);
  Tensor pre = every_bf16();
  GemmEpilogue epilogue;
  epilogue.activation = GemmActivation::kDGelu;
  epilogue.aux = pre.mutable_data();
  epilogue.aux_dtype = DType::kBF16;
  for (const GemmKernels* kernels : all_gemm_kernels())
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
      check(multiply(*kernels, ones, epilogue, dtype), name_of(*kernels, dtype),
            [](double in) {
              const double s = sigmoid(2 * gelu_u(in)), y = gelu_slope(in);
              return Expected{y, s + std::fabs(y - s), 8, gelu_u(in)};
            });
}

}  // namespace
}  // namespace assay
