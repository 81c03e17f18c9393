// The summary kernel: every table, dtype, length and special value.
#include "assay/kernels/summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "assay/numerics/element.h"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kDTypes4[] = {DType::kF64, DType::kF32, DType::kBF16,
                              DType::kF16};

std::vector<std::byte> stored(DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes(
      values.size() * static_cast<std::size_t>(traits(dtype).bits) / 8);
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(dtype, values[i], bytes.data(),
                      static_cast<std::int64_t>(i));
  return bytes;
}

std::vector<double> normal(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> draw;
  std::vector<double> values(n);
  for (double& v : values) v = draw(rng);
  return values;
}

double total(const double (&lanes)[kSummaryLanes]) {
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

// Not of the whole struct: it has padding.
bool same(const SummarySums& a, const SummarySums& b) {
  return std::memcmp(a.sum, b.sum, sizeof a.sum) == 0 &&
         std::memcmp(a.squares, b.squares, sizeof a.squares) == 0 &&
         std::memcmp(&a.min, &b.min, 2 * sizeof a.min) == 0 &&
         a.zeros == b.zeros && a.nan == b.nan &&
         a.positive_inf == b.positive_inf && a.negative_inf == b.negative_inf;
}

TEST(SummaryKernels, CountsByHand) {
  const auto x =
      stored(DType::kF32, {1, -2, 0, -0.0, 3, kInf, -kInf, std::nan(""), 0.5});
  for (const SummaryKernels* table : all_summary_kernels()) {
    SummarySums out;
    table->summarise(DType::kF32, x.data(), 9, out);
    EXPECT_EQ(total(out.sum), 2.5) << table->isa;
    EXPECT_EQ(total(out.squares), 14.25);
    EXPECT_EQ(out.min, -2);
    EXPECT_EQ(out.max, 3);
    EXPECT_EQ(out.zeros, 2);
    EXPECT_EQ(out.nan, 1);
    EXPECT_EQ(out.positive_inf, 1);
    EXPECT_EQ(out.negative_inf, 1);
  }
}

TEST(SummaryKernels, EveryTableGivesTheBitsOfThePlainLoop) {
  for (const DType dtype : kDTypes4)
    for (const std::size_t n : {1, 2, 15, 16, 17, 31, 33, 1000, 8192})
      for (const int special : {0, 1}) {
        std::vector<double> values = normal(n, n);
        if (special) values[n / 2] = n % 2 ? kInf : std::nan("");
        if (n > 3) values[3] = -0.0;
        const auto x = stored(dtype, values);
        SummarySums first;
        all_summary_kernels().back()->summarise(
            dtype, x.data(), static_cast<std::int64_t>(n), first);
        for (const SummaryKernels* table : all_summary_kernels()) {
          SummarySums out;
          table->summarise(dtype, x.data(), static_cast<std::int64_t>(n), out);
          EXPECT_TRUE(same(out, first))
              << table->isa << " " << traits(dtype).name << " " << n;
        }
      }
}

TEST(SummaryKernels, ZeroExtremesArePositive) {
  const auto x = stored(DType::kBF16, std::vector<double>(40, -0.0));
  for (const SummaryKernels* table : all_summary_kernels()) {
    SummarySums out;
    table->summarise(DType::kBF16, x.data(), 40, out);
    EXPECT_FALSE(std::signbit(out.min) || std::signbit(out.max)) << table->isa;
    EXPECT_EQ(out.zeros, 40);
  }
}

// Squares of large doubles overflow; their sums may, although every element is
// finite: the plain loop decides.
TEST(SummaryKernels, LargeDoublesStayFiniteElements) {
  const auto x = stored(DType::kF64, {1e308, 1e308, -1e308, 1e308});
  for (const SummaryKernels* table : all_summary_kernels()) {
    SummarySums out;
    table->summarise(DType::kF64, x.data(), 4, out);
    EXPECT_EQ(out.max, 1e308) << table->isa;
    EXPECT_EQ(out.nan + out.positive_inf + out.negative_inf, 0);
    EXPECT_EQ(out.squares[0], kInf);
  }
}

}  // namespace
}  // namespace assay
