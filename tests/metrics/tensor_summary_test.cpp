#include "assay/metrics/tensor_summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/base/parallel.h"
#include "assay/core/philox.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

Tensor filled(DType dtype, Shape shape, const std::vector<double>& values) {
  Tensor t = Tensor::empty(dtype, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(dtype, values[i], t.mutable_data(),
                      static_cast<std::int64_t>(i));
  return t;
}

Tensor normal(DType dtype, Shape shape) {
  Tensor t = Tensor::empty(dtype, std::move(shape));
  PhiloxStream random(7);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(dtype, random.next_normal(), t.mutable_data(), i);
  return t;
}

TEST(TensorSummary, CountsByHandInEveryKindOfDType) {
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE5M2,
        DType::kE4M3FN, DType::kE2M1, DType::kI8, DType::kI64}) {
    const TensorSummary s =
        summarise(filled(dtype, {2, 2}, {1, -2, 0, 4}).view);
    EXPECT_EQ(s.count, 4) << traits(dtype).name;
    EXPECT_EQ(s.finite, 4);
    EXPECT_EQ(s.min, -2);
    EXPECT_EQ(s.max, 4);
    EXPECT_EQ(s.mean, 0.75);
    EXPECT_EQ(s.norm, std::sqrt(21.0));
    EXPECT_EQ(s.zeros, 1);
  }
}

TEST(TensorSummary, LeavesOutWhatIsNotFinite) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const TensorSummary s = summarise(
      filled(DType::kF32, {5}, {3, kInf, std::nan(""), -kInf, -1}).view);
  EXPECT_EQ(s.finite, 2);
  EXPECT_EQ(s.nan, 1);
  EXPECT_EQ(s.positive_inf, 1);
  EXPECT_EQ(s.negative_inf, 1);
  EXPECT_EQ(s.max, 3);
  EXPECT_EQ(s.mean, 1);
  const TensorSummary none =
      summarise(filled(DType::kF32, {1}, {std::nan("")}).view);
  EXPECT_TRUE(std::isnan(none.min) && std::isnan(none.mean));
  EXPECT_EQ(none.norm, 0);
}

// The largest magnitudes are the formats': OCP 448 and 57344, fnuz 240, FP4 6.
TEST(TensorSummary, CountsWhatEndedAtTheLargestMagnitude) {
  const auto saturated = [](DType dtype, const std::vector<double>& values) {
    return summarise(
               filled(dtype, {static_cast<std::int64_t>(values.size())}, values)
                   .view)
        .saturated;
  };
  EXPECT_EQ(saturated(DType::kE4M3FN, {448, -448, 416, 0, 448}), 3);
  EXPECT_EQ(saturated(DType::kE4M3FN, {416, -416}), 0);
  EXPECT_EQ(saturated(DType::kE5M2, {-57344, 49152}), 1);
  EXPECT_EQ(saturated(DType::kE4M3FNUZ, {240, 224}), 1);
  EXPECT_EQ(saturated(DType::kE2M1, {6, -6, 4, 0, 0}), 2);
  // Scales, and formats whose largest value nothing ends at.
  EXPECT_EQ(saturated(DType::kE8M0, {std::ldexp(1.0, 127)}), 0);
  EXPECT_EQ(saturated(DType::kF16, {65504}), 0);
  // Beyond one chunk, on any number of threads.
  std::vector<double> many(200'000, 448);
  many[7] = 1;
  EXPECT_EQ(saturated(DType::kE4M3FN, many), 199'999);
}

TEST(TensorSummary, EmptyAndScalar) {
  EXPECT_EQ(summarise(Tensor::zeros(DType::kF32, {0, 3}).view).count, 0);
  const TensorSummary s = summarise(filled(DType::kBF16, {}, {2.5}).view);
  EXPECT_EQ(s.count, 1);
  EXPECT_EQ(s.mean, 2.5);
}

TEST(TensorSummary, ReadsThroughStrides) {
  Tensor t = filled(DType::kF32, {2, 3}, {0, 1, 2, 3, 4, 5});
  t.view.shape = {3, 1};
  t.view.strides = {1, 3};
  EXPECT_EQ(summarise(t.view).max, 2);
}

TEST(TensorSummary, ComplexCountsComponents) {
  Tensor t = Tensor::zeros(DType::kC64, {2});
  t.mutable_data<float>()[3] = -4;
  const TensorSummary s = summarise(t.view);
  EXPECT_EQ(s.count, 4);
  EXPECT_EQ(s.min, -4);
  EXPECT_EQ(s.norm, 4);
}

// One, two and four threads; lengths around chunks and jobs.
TEST(TensorSummary, SameBitsForAnyNumberOfThreads) {
  for (const std::int64_t n : {8191, 8192, 8193, 64 * 8192 + 5, 1 << 21}) {
    const Tensor t = normal(DType::kBF16, {n});
    const TensorSummary alone = summarise(t.view, false);
    for (const int threads : {1, 2, 4}) {
      set_thread_count(threads);
      const TensorSummary s = summarise(t.view);
      EXPECT_EQ(s.mean, alone.mean) << n;
      EXPECT_EQ(s.norm, alone.norm);
    }
    set_thread_count(0);
    // The norm of n normal numbers has a standard deviation of 0.71.
    EXPECT_NEAR(alone.norm, std::sqrt(static_cast<double>(n)), 3);
  }
}

}  // namespace
}  // namespace assay
