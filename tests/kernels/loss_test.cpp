// Rows of logits of every instruction set against the plain fp64 loops.
#include "assay/kernels/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/numerics/ulp.h"

namespace assay {
namespace {

const LossKernels& reference() { return *all_loss_kernels().back(); }

std::vector<std::byte> logits(DType dtype, std::int64_t n, double scale) {
  std::mt19937 rng(11);
  std::normal_distribution<double> normal(0, scale);
  std::vector<std::byte> out(
      static_cast<std::size_t>(n * traits(dtype).bits / 8));
  for (std::int64_t i = 0; i < n; ++i)
    store_from_double(dtype, normal(rng), out.data(), i);
  return out;
}

void check(const LossKernels& kernels, DType dtype, std::int64_t n,
           double scale) {
  const auto x = logits(dtype, n, scale);
  const LossRowKernels& ours = kernels.rows[float_width(dtype)];
  const LossRowKernels& theirs = reference().rows[float_width(dtype)];
  std::vector<float> exps(static_cast<std::size_t>(n + kExpPadding));
  const LogitStats a = ours.stats(x.data(), n, true, exps.data());
  const LogitStats b = theirs.stats(x.data(), n, true, nullptr);
  EXPECT_EQ(a.max, b.max);
  EXPECT_NEAR(a.sum_exp, b.sum_exp, 1e-6 * b.sum_exp) << kernels.isa << n;
  EXPECT_NEAR(a.sum, b.sum, 1e-6 * scale * static_cast<double>(n));
  EXPECT_EQ(ours.stats(x.data(), n, false, nullptr).sum, 0);
  const float factor = 0.75f / b.sum_exp, offset = 0.01f;
  std::vector<std::byte> got(x.size()), expected(x.size()), kept(x.size());
  ours.gradient(x.data(), n, b.max, factor, offset, got.data());
  theirs.gradient(x.data(), n, b.max, factor, offset, expected.data());
  ours.scaled(exps.data(), n, factor, offset, kept.data());
  for (std::int64_t i = 0; i < n; ++i) {
    const double want = load_as_double(dtype, expected.data(), i);
    const double slack = ulp(dtype, want) + 4 * 0x1p-24 * (0.75 + 0.01);
    ASSERT_NEAR(load_as_double(dtype, got.data(), i), want, slack)
        << kernels.isa << " " << traits(dtype).name << " at " << i;
    ASSERT_NEAR(load_as_double(dtype, kept.data(), i), want, slack);
  }
}

TEST(LossKernels, AgreeWithFp64AtEveryLength) {
  for (const LossKernels* kernels : all_loss_kernels())
    for (DType dtype : kFloatWidthDTypes)
      for (std::int64_t n : {1, 7, 8, 15, 16, 17, 63, 64, 65, 129, 1000})
        for (double scale : {1.0, 30.0}) check(*kernels, dtype, n, scale);
}

TEST(LossKernels, WholeVocabulary) {
  for (const LossKernels* kernels : all_loss_kernels())
    check(*kernels, DType::kBF16, 32003, 3.0);
}

// What a NaN or +inf anywhere makes of a row; -inf is a probability of 0.
TEST(LossKernels, NonFiniteLogits) {
  for (const LossKernels* kernels : all_loss_kernels())
    for (std::int64_t at : {0, 5, 16, 40}) {
      const LossRowKernels& rows = kernels->rows[0];
      std::vector<float> x(41, 1.0f), exps(41 + kExpPadding);
      const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
      const auto stats = [&] {
        return rows.stats(bytes, 41, false, exps.data());
      };
      x[static_cast<std::size_t>(at)] = std::nanf("");
      EXPECT_TRUE(std::isnan(stats().sum_exp)) << kernels->isa;
      x[static_cast<std::size_t>(at)] = std::numeric_limits<float>::infinity();
      EXPECT_TRUE(std::isnan(stats().sum_exp)) << kernels->isa;
      x[static_cast<std::size_t>(at)] = -std::numeric_limits<float>::infinity();
      EXPECT_EQ(stats().sum_exp, 40.0f) << kernels->isa;
      EXPECT_EQ(exps[static_cast<std::size_t>(at)], 0.0f);
    }
}

}  // namespace
}  // namespace assay
