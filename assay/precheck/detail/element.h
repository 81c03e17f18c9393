// One element of a pre-checked output: what msprobe's arrays compute of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "assay/numerics/rounding.h"
#include "assay/precheck/detail/sums.h"

namespace assay::precheck {

// numpy's maximum: NaN where either is.
inline double max_or_nan(double a, double b) {
  return std::isnan(b) || b > a ? b : a;
}

// The golden in the type that the device's array has in msprobe: bf16 and the
// 8-bit floats are fp32 there.
inline double cast_to_device(DType device, double golden) {
  if (device == DType::kF16) return round_to(DType::kF16, golden);
  return device == DType::kF64 ? golden : static_cast<float>(golden);
}

// Whether a pair of which one is not finite agrees within rtol once infinities
// are the largest finite value. So the largest finite value agrees with
// infinity, and anything with a golden that is infinite but for where the
// clipped difference overflows: msprobe divides by the golden.
inline bool nonfinite_agrees(const DetailPlan& plan, double golden_cast,
                             double device, double denominator) {
  if (std::isnan(golden_cast) || std::isnan(device))
    return std::isnan(golden_cast) && std::isnan(device);
  const double largest =
      max_finite(plan.device == DType::kF16 || plan.device == DType::kBF16 ||
                         plan.device == DType::kF64
                     ? plan.device
                     : DType::kF32);
  const double difference = std::clamp(device, -largest, largest) -
                            std::clamp(golden_cast, -largest, largest);
  const double d = std::fabs(cast_to_device(plan.device, difference));
  const double rel = plan.result_is_f32 ? static_cast<float>(d) /
                                              static_cast<float>(denominator)
                                        : d / denominator;
  return rel <= plan.constants.rtol;
}

// Least exponent and mantissa width of the spacing that errors are counted in.
struct UlpFormat {
  int min_exponent, mantissa;
};
inline UlpFormat ulp_format(DType device) {
  if (device == DType::kF16) return {-14, 10};
  return {-126, device == DType::kBF16 ? 7 : 23};
}

// |device - golden| in spacings of the device's dtype at the golden. At 0 the
// exponent is 0, that is the spacing at 1. In fp32 but for a device in fp32;
// the scale is in the golden's type B, where it overflows for a golden in fp32
// near its smallest.
template <typename B>
double ulp_of(const DetailPlan& plan, B golden, double device) {
  const UlpFormat format = ulp_format(plan.device);
  const B magnitude = std::fabs(golden);
  B exponent = magnitude == 0 ? 0 : std::floor(std::log2(magnitude));
  if (exponent < format.min_exponent) exponent = B(format.min_exponent);
  const B scale = std::exp2(B(format.mantissa) - exponent);
  if (plan.device == DType::kF32)
    return std::fabs((device - static_cast<double>(golden)) *
                     static_cast<double>(scale));
  const double difference =
      sizeof(B) == sizeof(float)
          ? static_cast<float>(device) - static_cast<float>(golden)
          : device - static_cast<double>(golden);
  return std::fabs(static_cast<float>(difference) * static_cast<float>(scale));
}

// The same of 8-bit floats, signed: the width of the mantissa falls with the
// exponent's magnitude (as in HiFloat8, for every kind), and beyond 15 the
// distance is that of the logarithms.
inline double ulp_of_float8(double golden, double device) {
  const auto logarithm = [](double v) {
    return std::log2(std::fabs(v) + 0x1p-1000);
  };
  double exponent = logarithm(golden);
  if (exponent < -22) exponent = -22;
  const double whole = std::floor(exponent);
  const double size = std::fabs(whole);
  const int width = size <= 3 ? 3 : size <= 7 ? 2 : size <= 15 ? 1 : 0;
  if (width > 0) return (device - golden) * std::exp2(width - whole);
  return logarithm(device) * (device >= 0 ? 1 : -1) -
         exponent * (golden >= 0 ? 1 : -1);
}

// B: the type of the golden's array. T: the type of golden and device in one
// operation, at least as wide.
template <typename B, typename T>
class DetailElement {
 public:
  explicit DetailElement(const DetailPlan& plan)
      : plan_(plan),
        eps_(plan.device == DType::kBF16 ? B(0x1p-8)
                                         : std::numeric_limits<B>::epsilon()),
        small_atol_(static_cast<T>(plan.constants.small_atol)),
        absolute_atol_(static_cast<T>(plan.constants.absolute_small_atol)),
        is_float8_(traits(plan.device).bits <= 8),
        ulp_limit_(plan.device == DType::kF32 ? 32 : 1) {}

  void add(double golden, double device, DetailSums& sums) const {
    const B b = static_cast<B>(golden);
    const B magnitude = std::fabs(b);
    const B denominator = magnitude + eps_;
    const T d = std::fabs(static_cast<T>(device) - static_cast<T>(b));
    const T rel = d / static_cast<T>(denominator);
    add_everywhere(static_cast<double>(b), device, d, rel, sums);
    const double cast = cast_to_device(plan_.device, static_cast<double>(b));
    sums.above += device > cast;
    sums.below += device < cast;
    if (!std::isfinite(device) || !std::isfinite(cast)) {
      ++sums.nonfinite;
      sums.nonfinite_wrong += !nonfinite_agrees(
          plan_, cast, device, static_cast<double>(denominator));
    } else if (magnitude <= static_cast<B>(plan_.constants.small_value)) {
      ++sums.small;
      sums.small_wrong += d > small_atol_;
      sums.small_wrong_absolute += d > absolute_atol_;
    } else {
      add_normal(d, rel, sums);
    }
    if (plan_.ulp) add_ulp(b, device, sums);
  }

 private:
  void add_everywhere(double golden, double device, T d, T rel,
                      DetailSums& sums) const {
    sums.golden_max = max_or_nan(sums.golden_max, std::fabs(golden));
    sums.device_max = max_or_nan(sums.device_max, std::fabs(device));
    sums.max_abs = max_or_nan(sums.max_abs, static_cast<double>(d));
    sums.hundredth += rel < T(0.01);
    sums.thousandth += rel < T(0.001);
    sums.ten_thousandth += rel < T(0.0001);
    sums.unequal += device != golden;
  }
  void add_normal(T d, T rel, DetailSums& sums) const {
    ++sums.normal;
    sums.normal_wrong += rel > static_cast<T>(plan_.constants.rtol);
    sums.normal_squares += static_cast<double>(d * d);
    sums.normal_rel += static_cast<double>(rel);
    sums.normal_max_rel =
        std::max(sums.normal_max_rel, static_cast<double>(rel));
  }
  void add_ulp(B golden, double device, DetailSums& sums) const {
    const double ulp = is_float8_ ? ulp_of_float8(golden, device)
                                  : ulp_of<B>(plan_, golden, device);
    sums.ulps += ulp;
    sums.max_ulp = max_or_nan(sums.max_ulp, ulp);
    sums.ulp_over += ulp > ulp_limit_;
  }

  DetailPlan plan_;
  B eps_;
  T small_atol_, absolute_atol_;
  bool is_float8_;
  double ulp_limit_;
};

}  // namespace assay::precheck
