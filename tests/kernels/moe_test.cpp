// Merging and scoring of every instruction set against the plain fp64 loops.
#include "assay/kernels/moe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/numerics/ulp.h"

namespace assay {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const MoeKernels& reference() { return *all_moe_kernels().back(); }

std::vector<std::byte> normals(DType dtype, std::int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal;
  std::vector<std::byte> out(
      static_cast<std::size_t>(n * traits(dtype).bits / 8));
  for (std::int64_t i = 0; i < n; ++i)
    store_from_double(dtype, normal(rng), out.data(), i);
  return out;
}

// One ulp of the dtype (two roundings of nearly the same sum may part) and
// the bound of the header on the sum.
void expect_rows(DType dtype, const std::vector<std::byte>& ours,
                 const std::vector<std::byte>& theirs, std::int64_t n,
                 double slack, const char* isa) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = load_as_double(dtype, ours.data(), i);
    const double b = load_as_double(dtype, theirs.data(), i);
    const double one = dtype == DType::kF32 ? 0 : ulp(dtype, b);
    ASSERT_NEAR(a, b, one + slack)
        << isa << " " << traits(dtype).name << " at " << i << " of " << n;
  }
}

TEST(MoeKernels, CombineAndScaleAgreeWithFp64) {
  constexpr std::int64_t kMax = 261;
  for (DType dtype : kFloatWidthDTypes) {
    std::vector<std::vector<std::byte>> rows;
    std::vector<const std::byte*> pointers;
    for (unsigned s = 0; s < 5; ++s) rows.push_back(normals(dtype, kMax, s));
    for (const auto& row : rows) pointers.push_back(row.data());
    const float weights[] = {0.5f, -1.25f, 0.3f, 0.0f, 2.0f};
    for (const MoeKernels* kernels : all_moe_kernels())
      for (std::int64_t n : {0, 1, 15, 16, 17, 63, 64, 65, 128, 261})
        for (std::int64_t count : {0, 1, 3, 5})
          for (const float* w : {static_cast<const float*>(nullptr), weights}) {
            std::vector<std::byte> ours(kMax * 4), theirs(kMax * 4);
            const auto width = float_width(dtype);
            kernels->rows[width].combine(pointers.data(), w, count, n, false,
                                         ours.data());
            reference().rows[width].combine(pointers.data(), w, count, n, false,
                                            theirs.data());
            expect_rows(dtype, ours, theirs, n, 7 * 0x1p-24 * 20, kernels->isa);
            kernels->rows[width].scale(pointers[0], 0.3f, n, false,
                                       ours.data());
            reference().rows[width].scale(pointers[0], 0.3f, n, false,
                                          theirs.data());
            expect_rows(dtype, ours, theirs, n, 0x1p-24 * 2, kernels->isa);
          }
  }
}

TEST(MoeKernels, DotAgreesWithFp64) {
  for (DType dtype : kFloatWidthDTypes) {
    const auto a = normals(dtype, 1000, 1), b = normals(dtype, 1000, 2);
    for (const MoeKernels* kernels : all_moe_kernels())
      for (std::int64_t n : {0, 1, 16, 17, 63, 65, 255, 1000}) {
        const auto width = float_width(dtype);
        const float ours = kernels->rows[width].dot(a.data(), b.data(), n);
        const float theirs = reference().rows[width].dot(a.data(), b.data(), n);
        double magnitude = 0;
        for (std::int64_t i = 0; i < n; ++i)
          magnitude += std::fabs(load_as_double(dtype, a.data(), i) *
                                 load_as_double(dtype, b.data(), i));
        EXPECT_NEAR(ours, theirs, 20 * 0x1p-24 * magnitude) << kernels->isa;
      }
  }
}

// `range`: what the largest score is above the others at most; each unit of it
// is one more rounding in softmax's exponents.
void expect_scores(void (*MoeKernels::*function)(float*, std::int64_t),
                   const std::vector<float>& in, double range = 0) {
  const auto n = static_cast<std::int64_t>(in.size());
  std::vector<float> theirs = in;
  theirs.resize(in.size() + kScorePadding);
  (reference().*function)(theirs.data(), n);
  for (const MoeKernels* kernels : all_moe_kernels()) {
    std::vector<float> ours = in;
    ours.resize(in.size() + kScorePadding);
    (kernels->*function)(ours.data(), n);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (std::isnan(theirs[i])) {
        ASSERT_TRUE(std::isnan(ours[i])) << kernels->isa << " of " << in[i];
        continue;
      }
      ASSERT_LE(ulp_error(DType::kF32, theirs[i], ours[i]), 4 + range)
          << kernels->isa << " of " << in[i] << ": " << ours[i] << " against "
          << theirs[i];
    }
  }
}

TEST(MoeKernels, ScoreFunctionsOverTheirRange) {
  // Below -87 the exponential itself is subnormal.
  std::vector<float> x = {0,      -0.0f, 1,     -1,           20,     -20,
                          86,     -86,   103,   1e-8f,        -1e-8f, 1e30f,
                          -1e30f, kInf,  -kInf, std::nanf("")};
  for (float v = -86; v < 90; v += 0.37f) x.push_back(v);
  expect_scores(&MoeKernels::sigmoid, x);
  expect_scores(&MoeKernels::softplus_root, x);
}

TEST(MoeKernels, SoftmaxOfEveryLength) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 4);
  for (std::size_t n : {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 32u, 33u, 128u}) {
    std::vector<float> x(n);
    for (float& v : x) v = normal(rng);
    expect_scores(&MoeKernels::softmax, x, 32);
    x[n / 2] = -kInf;
    if (n > 1) expect_scores(&MoeKernels::softmax, x, 32);
    x[n / 2] = std::nanf("");
    expect_scores(&MoeKernels::softmax, x, 32);
  }
}

std::vector<std::int32_t> top(const MoeKernels& kernels,
                              const std::vector<float>& x, std::int64_t k) {
  std::vector<std::int32_t> keys(x.size() + kScorePadding),
      indices(static_cast<std::size_t>(k));
  kernels.top_k(x.data(), static_cast<std::int64_t>(x.size()), k, keys.data(),
                indices.data());
  return indices;
}

// F50: of equal values any may win elsewhere; here it is the first.
TEST(MoeKernels, F50_TiesGoToTheLowestIndex) {
  const float nan = std::nanf("");
  const std::vector<float> x = {1, 3, -0.0f, 3, 0, nan, -kInf, 3, -1};
  const std::vector<std::int32_t> expected = {1, 3, 7, 0, 2, 4, 8, 6, 5};
  for (const MoeKernels* kernels : all_moe_kernels())
    EXPECT_EQ(top(*kernels, x, 9), expected) << kernels->isa;
}

TEST(MoeKernels, TopKIsAStableSort) {
  std::mt19937 rng(5);
  for (std::size_t n : {1u, 5u, 15u, 16u, 17u, 31u, 33u, 64u, 100u, 256u}) {
    std::vector<float> x(n);
    for (float& v : x) v = static_cast<float>(static_cast<int>(rng() % 9) - 4);
    std::vector<std::int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
      return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)];
    });
    for (const MoeKernels* kernels : all_moe_kernels())
      EXPECT_EQ(top(*kernels, x, static_cast<std::int64_t>(n)), order)
          << kernels->isa << " " << n;
  }
}

}  // namespace
}  // namespace assay
