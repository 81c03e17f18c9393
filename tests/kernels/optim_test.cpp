// Optimizer kernels of every instruction set against the plain fp64 loops.
#include "assay/kernels/optim.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "assay/kernels/remainder.h"

namespace assay {
namespace {

using Floats = std::vector<float>;
const OptimKernels& reference() { return *all_optim_kernels().back(); }

Floats normals(std::size_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  Floats out(n);
  for (float& v : out) v = normal(rng);
  return out;
}

void expect_near(const Floats& ours, const Floats& theirs, double bound,
                 const char* isa) {
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_NEAR(ours[i], theirs[i], bound * (1 + std::fabs(theirs[i])))
        << isa << " at " << i << " of " << ours.size();
}

TEST(OptimKernels, AdamAgreesWithFp64) {
  for (bool decoupled : {false, true}) {
    const AdamStep step = {0.01f, 1e-8f, 0.1f,  0.9f,  0.1f,
                           0.99f, 0.01f, 0.19f, 0.02f, decoupled};
    for (const OptimKernels* kernels : all_optim_kernels())
      for (std::size_t n : {0u, 1u, 7u, 8u, 15u, 16u, 17u, 33u, 100u}) {
        const Floats g = normals(n, 1);
        Floats p = normals(n, 2), m = normals(n, 3), v = normals(n, 4);
        for (float& x : v) x *= x;
        Floats p2 = p, m2 = m, v2 = v;
        const auto count = static_cast<std::int64_t>(n);
        kernels->adam(g.data(), p.data(), m.data(), v.data(), count, step);
        reference().adam(g.data(), p2.data(), m2.data(), v2.data(), count,
                         step);
        expect_near(m, m2, 8 * 0x1p-24, kernels->isa);
        expect_near(v, v2, 8 * 0x1p-24, kernels->isa);
        expect_near(p, p2, 8 * 0x1p-24, kernels->isa);
      }
  }
}

TEST(OptimKernels, SgdAgreesWithFp64) {
  for (int variant = 0; variant < 16; ++variant) {
    const SgdStep step = {0.1f,
                          variant & 1 ? 0.9f : 0.0f,
                          0.7f,
                          0.05f,
                          (variant & 2) != 0,
                          (variant & 4) != 0,
                          (variant & 8) != 0};
    for (const OptimKernels* kernels : all_optim_kernels())
      for (std::size_t n : {0u, 1u, 16u, 17u, 50u}) {
        const Floats g = normals(n, 1);
        Floats p = normals(n, 2), b = normals(n, 3);
        Floats p2 = p, b2 = b;
        const auto count = static_cast<std::int64_t>(n);
        kernels->sgd(g.data(), p.data(), b.data(), count, step);
        reference().sgd(g.data(), p2.data(), b2.data(), count, step);
        expect_near(p, p2, 8 * 0x1p-24, kernels->isa);
        expect_near(b, b2, 8 * 0x1p-24, kernels->isa);
      }
  }
}

TEST(OptimKernels, ScaleSeesWhatIsNotFinite) {
  for (const OptimKernels* kernels : all_optim_kernels())
    for (std::size_t n : {1u, 16u, 17u, 40u})
      for (std::size_t at = 0; at < n; at += 5) {
        Floats x = normals(n, 1), out(n);
        const auto count = static_cast<std::int64_t>(n);
        EXPECT_TRUE(kernels->scale(x.data(), 0.3f, count, out.data()));
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], x[i] * 0.3f);
        for (float bad :
             {std::numeric_limits<float>::infinity(),
              -std::numeric_limits<float>::infinity(), std::nanf("")}) {
          x[at] = bad;
          EXPECT_FALSE(kernels->scale(x.data(), 0.3f, count, out.data()))
              << kernels->isa << " at " << at << " of " << n;
        }
      }
}

TEST(OptimKernels, SumSquaresDoesNotOverflow) {
  for (const OptimKernels* kernels : all_optim_kernels()) {
    const Floats big(37, 1e30f);
    EXPECT_NEAR(kernels->sum_squares(big.data(), 1, 37) / 37e60, 1, 1e-6);
    const Floats x = normals(1001, 1);
    for (std::int64_t n : {0, 1, 16, 31, 33, 1001})
      EXPECT_NEAR(kernels->sum_squares(x.data(), 0.25f, n),
                  reference().sum_squares(x.data(), 0.25f, n),
                  1e-13 * static_cast<double>(n));
  }
}

TEST(OptimKernels, AbsmaxIgnoresNan) {
  for (const OptimKernels* kernels : all_optim_kernels()) {
    Floats x = normals(45, 1);
    x[3] = std::nanf("");
    x[44] = -77;
    EXPECT_EQ(kernels->absmax(x.data(), 45), 77.0f) << kernels->isa;
    EXPECT_LT(kernels->absmax(x.data(), 44), 10.0f);
    EXPECT_EQ(kernels->absmax(x.data(), 0), 0.0f);
  }
}

// Every high half with the low halves around the tie: exact both ways, and
// the bf16 is the nearest one (ties up).
TEST(OptimKernels, RemaindersAreExact) {
  Floats x;
  for (unsigned high = 0; high < 0x10000; ++high)
    for (unsigned low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(std::bit_cast<float>(high << 16 | low));
  const auto n = static_cast<std::int64_t>(x.size());
  for (const OptimKernels* kernels : all_optim_kernels()) {
    std::vector<std::uint16_t> high(x.size());
    std::vector<std::int16_t> low(x.size());
    Floats back(x.size());
    kernels->split(x.data(), n, high.data(), low.data());
    kernels->join(high.data(), low.data(), n, back.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(x[i]);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), bits) << kernels->isa;
      ASSERT_EQ(high[i], static_cast<std::uint16_t>((bits + 0x8000u) >> 16));
    }
  }
}

}  // namespace
}  // namespace assay
