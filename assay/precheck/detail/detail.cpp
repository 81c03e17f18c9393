#include "assay/precheck/detail/detail.h"

#include <fmt/format.h>

#include <cmath>

#include "assay/base/error.h"
#include "assay/precheck/detail/sums.h"

namespace assay::precheck {
namespace {

constexpr double kZero = 0x1p-52;  // sys.float_info.epsilon

std::string torch_name(DType dtype) {
  return fmt::format("torch.{}", traits(dtype).name);
}

// As Python prints a tuple.
std::string tuple_text(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0
                    : static_cast<double>(part) / static_cast<double>(whole);
}

void fill_benchmark(const DetailSums& sums, Detail& detail) {
  const auto n = static_cast<double>(sums.count);
  const auto normal = static_cast<double>(sums.normal);
  // Mean over the elements that count, but for msprobe's own correction.
  const double square =
      sums.normal_squares / n * (n / (normal + 0.0001) + 0.0001);
  detail.error_balance = share(std::abs(sums.above - sums.below), sums.count);
  detail.rmse = std::sqrt(square);
  detail.small_value_error_ratio = share(sums.small_wrong, sums.small);
  detail.max_rel = sums.normal_max_rel;
  detail.mean_rel = sums.normal == 0 ? 0 : sums.normal_rel / normal;
}

void fill_absolute(const DetailSums& sums, Detail& detail) {
  detail.inf_nan_error_ratio = share(sums.nonfinite_wrong, sums.nonfinite);
  detail.rel_error_ratio = share(sums.normal_wrong, sums.normal);
  detail.abs_error_ratio = share(sums.small_wrong_absolute, sums.small);
}

void fill_ulp(const DetailSums& sums, Detail& detail) {
  detail.max_ulp = sums.max_ulp;
  detail.mean_ulp = sums.ulps / static_cast<double>(sums.count);
  detail.ulp_over_threshold = share(sums.ulp_over, sums.count);
}

void fill_common(const DetailSums& sums, Detail& detail) {
  detail.golden_is_zero = sums.golden_max <= kZero;
  detail.device_is_zero = sums.device_max <= kZero;
  detail.max_abs = sums.max_abs;
  detail.hundredth = share(sums.hundredth, sums.count);
  detail.thousandth = share(sums.thousandth, sums.count);
  detail.ten_thousandth = share(sums.ten_thousandth, sums.count);
}

void fill_float(const TensorView& golden, const TensorView& device,
                const DetailOptions& options, Detail& detail) {
  const bool every = options.figures == DetailFigures::kEvery;
  const bool is_float8 = traits(device.dtype).bits <= 8;
  const bool is_f64 = device.dtype == DType::kF64;
  DetailPlan plan = detail_plan(golden.dtype, device.dtype, *options.profile);
  plan.ulp = is_float8 || (every && !is_f64);
  const DetailSums sums = detail_sums(golden, device, plan);
  fill_common(sums, detail);
  if (detail.elements > 1 && !detail.golden_is_zero && !detail.device_is_zero)
    detail.cosine = detail_cosine(golden, device, plan, sums);
  if (plan.ulp) fill_ulp(sums, detail);
  if (every) detail.binary_error_rate = share(sums.unequal, sums.count);
  if (is_f64) return;  // msprobe's standards stop at fp32
  const bool absolute = options.float8_input && !is_float8;
  if (absolute || every) fill_absolute(sums, detail);
  if (every || (!absolute && !is_float8)) fill_benchmark(sums, detail);
}

}  // namespace

Detail make_detail(std::string_view name, const TensorView& golden,
                   const TensorView& device, const DetailOptions& options) {
  if (golden.shape != device.shape)
    throw Error(
        Code::kUsage,
        fmt::format("{}: the golden is {} and the device's result {}, "
                    "which have no figures in common",
                    name, to_string(golden.shape), to_string(device.shape)));
  Detail detail;
  detail.name = name;
  detail.bench_dtype = torch_name(golden.dtype);
  detail.device_dtype = torch_name(device.dtype);
  detail.shape = tuple_text(device.shape);
  detail.elements = golden.numel();
  if (detail.elements == 0) return detail;
  if (is_float(golden.dtype) && is_float(device.dtype)) {
    fill_float(golden, device, options, detail);
  } else if (is_exact(golden.dtype) && is_exact(device.dtype)) {
    detail.binary_error_rate = integer_error_rate(golden, device);
    if (is_quantising(name)) detail.max_abs = integer_max_abs(golden, device);
  }
  return detail;
}

}  // namespace assay::precheck
