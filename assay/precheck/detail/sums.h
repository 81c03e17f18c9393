// What the figures of a pre-checked output are made of: one pass over a pair
// of float tensors, in the arithmetic that msprobe would use, and one over its
// directions for the cosine.
#pragma once

#include <cstdint>
#include <limits>

#include "assay/core/tensor.h"
#include "assay/precheck/ratio/profile.h"

namespace assay::precheck {

// How msprobe's arrays of a pair of dtypes do their arithmetic.
struct DetailPlan {
  DType device = DType::kF32;
  bool golden_is_f32 = false;  // else fp64
  bool result_is_f32 = false;  // golden and device in one operation
  bool ulp = false;            // whether ULPs are wanted
  DtypeConstants constants{};
};

DetailPlan detail_plan(DType golden, DType device, const RatioProfile& profile);

struct DetailSums {
  std::int64_t count = 0;
  double golden_max = 0, device_max = 0;  // of magnitudes; NaN where one is
  double max_abs = 0;                     // NaN where one is
  std::int64_t hundredth = 0, thousandth = 0, ten_thousandth = 0;
  std::int64_t unequal = 0;           // NaN is
  std::int64_t above = 0, below = 0;  // device against the golden cast to it
  std::int64_t nonfinite = 0, nonfinite_wrong = 0;
  std::int64_t small = 0, small_wrong = 0, small_wrong_absolute = 0;
  std::int64_t normal = 0, normal_wrong = 0;
  double normal_squares = 0, normal_rel = 0, normal_max_rel = 0;
  double ulps = 0;
  double max_ulp = -std::numeric_limits<double>::infinity();
  std::int64_t ulp_over = 0;

  void merge(const DetailSums& later);
};

DetailSums detail_sums(const TensorView& golden, const TensorView& device,
                       const DetailPlan& plan);

// Each side divided by its largest magnitude, which is above 0.
double detail_cosine(const TensorView& golden, const TensorView& device,
                     const DetailPlan& plan, const DetailSums& sums);

// Share of elements that are not equal, exact in 64 bits. Integers and bool.
double integer_error_rate(const TensorView& golden, const TensorView& device);
// The largest difference.
double integer_max_abs(const TensorView& golden, const TensorView& device);

}  // namespace assay::precheck
