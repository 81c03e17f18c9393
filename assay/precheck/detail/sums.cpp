#include "assay/precheck/detail/sums.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "assay/metrics/stats_blocks.h"
#include "assay/metrics/stats_numbers.h"
#include "assay/numerics/element.h"
#include "assay/precheck/detail/element.h"

namespace assay::precheck {
namespace {

constexpr std::int64_t kChunk = 4096;  // even, for packed dtypes
constexpr std::int64_t kMaxElementBytes = 16;

// Elements [begin, begin + count) as numbers: a strided view is brought
// together first.
class Side {
 public:
  explicit Side(const TensorView& view)
      : view_(view), strided_(!view.is_contiguous()) {}

  const std::byte* elements(std::int64_t begin, std::int64_t count,
                            std::int64_t& first) {
    first = strided_ ? 0 : begin;
    if (!strided_) return view_.data;
    gather(view_, begin, count, gathered_);
    return gathered_;
  }
  const double* numbers(std::int64_t begin, std::int64_t count) {
    std::int64_t first = 0;
    const std::byte* data = elements(begin, count, first);
    load_as_doubles(view_.dtype, data, first, count, numbers_);
    return numbers_;
  }

 private:
  const TensorView& view_;
  bool strided_;
  alignas(64) std::byte gathered_[kChunk * kMaxElementBytes];
  double numbers_[kChunk];
};

std::int64_t chunks_of(const TensorView& view) {
  return (view.numel() + kChunk - 1) / kChunk;
}

// body(golden side, device side, begin, count, partial) over the chunks.
template <typename Partial, typename Body>
Partial reduce(const TensorView& golden, const TensorView& device, Body body) {
  return reduce_blocks<Partial>(
      chunks_of(golden), [&](std::int64_t first, std::int64_t last) {
        const auto a = std::make_unique<Side>(golden);
        const auto b = std::make_unique<Side>(device);
        Partial part;
        for (std::int64_t chunk = first; chunk < last; ++chunk) {
          const std::int64_t begin = chunk * kChunk;
          body(*a, *b, begin, std::min(kChunk, golden.numel() - begin), part);
        }
        return part;
      });
}

template <typename B, typename T>
DetailSums sums_as(const TensorView& golden, const TensorView& device,
                   const DetailPlan& plan) {
  const DetailElement<B, T> element(plan);
  return reduce<DetailSums>(golden, device,
                            [&](Side& a, Side& b, std::int64_t begin,
                                std::int64_t count, DetailSums& sums) {
                              const double* x = a.numbers(begin, count);
                              const double* y = b.numbers(begin, count);
                              sums.count += count;
                              for (std::int64_t i = 0; i < count; ++i)
                                element.add(x[i], y[i], sums);
                            });
}

struct Directions {
  double dot = 0, golden = 0, device = 0;
  void merge(const Directions& later) {
    dot += later.dot;
    golden += later.golden;
    device += later.device;
  }
};

struct IntegerDifference {
  std::int64_t unequal = 0;
  std::uint64_t largest = 0;
  void merge(const IntegerDifference& later) {
    unequal += later.unequal;
    largest = std::max(largest, later.largest);
  }
};

IntegerDifference integer_difference(const TensorView& golden,
                                     const TensorView& device) {
  return reduce<IntegerDifference>(
      golden, device,
      [&](Side& a, Side& b, std::int64_t begin, std::int64_t count,
          IntegerDifference& sums) {
        std::int64_t at_x = 0, at_y = 0;
        const std::byte* x = a.elements(begin, count, at_x);
        const std::byte* y = b.elements(begin, count, at_y);
        for (std::int64_t i = 0; i < count; ++i) {
          const WideInt d = load_int(device.dtype, y, at_y + i) -
                            load_int(golden.dtype, x, at_x + i);
          sums.unequal += d != 0;
          sums.largest = std::max(sums.largest, magnitude_of(d));
        }
      });
}

}  // namespace

DetailPlan detail_plan(DType golden, DType device,
                       const RatioProfile& profile) {
  DetailPlan plan;
  plan.device = device;
  plan.golden_is_f32 = device == DType::kBF16 || golden != DType::kF64;
  plan.result_is_f32 = plan.golden_is_f32 && device != DType::kF64;
  plan.constants = profile.constants(device);
  return plan;
}

void DetailSums::merge(const DetailSums& later) {
  count += later.count;
  golden_max = max_or_nan(golden_max, later.golden_max);
  device_max = max_or_nan(device_max, later.device_max);
  max_abs = max_or_nan(max_abs, later.max_abs);
  hundredth += later.hundredth;
  thousandth += later.thousandth;
  ten_thousandth += later.ten_thousandth;
  unequal += later.unequal;
  above += later.above;
  below += later.below;
  nonfinite += later.nonfinite;
  nonfinite_wrong += later.nonfinite_wrong;
  small += later.small;
  small_wrong += later.small_wrong;
  small_wrong_absolute += later.small_wrong_absolute;
  normal += later.normal;
  normal_wrong += later.normal_wrong;
  normal_squares += later.normal_squares;
  normal_rel += later.normal_rel;
  normal_max_rel = std::max(normal_max_rel, later.normal_max_rel);
  ulps += later.ulps;
  max_ulp = max_or_nan(max_ulp, later.max_ulp);
  ulp_over += later.ulp_over;
}

DetailSums detail_sums(const TensorView& golden, const TensorView& device,
                       const DetailPlan& plan) {
  if (plan.result_is_f32) return sums_as<float, float>(golden, device, plan);
  if (plan.golden_is_f32) return sums_as<float, double>(golden, device, plan);
  return sums_as<double, double>(golden, device, plan);
}

double detail_cosine(const TensorView& golden, const TensorView& device,
                     const DetailPlan& plan, const DetailSums& sums) {
  const auto golden_value = [&](double v) {
    return plan.golden_is_f32 ? static_cast<float>(v) : v;
  };
  const Directions total = reduce<Directions>(
      golden, device,
      [&](Side& a, Side& b, std::int64_t begin, std::int64_t count,
          Directions& part) {
        const double* x = a.numbers(begin, count);
        const double* y = b.numbers(begin, count);
        for (std::int64_t i = 0; i < count; ++i) {
          const double g = golden_value(x[i]) / sums.golden_max;
          const double d = y[i] / sums.device_max;
          part.dot += g * d;
          part.golden += g * g;
          part.device += d * d;
        }
      });
  const double cosine =
      total.dot / (std::sqrt(total.device) * std::sqrt(total.golden));
  return std::isnan(cosine) ? cosine : std::clamp(cosine, -1.0, 1.0);
}

double integer_error_rate(const TensorView& golden, const TensorView& device) {
  return static_cast<double>(integer_difference(golden, device).unequal) /
         static_cast<double>(golden.numel());
}

double integer_max_abs(const TensorView& golden, const TensorView& device) {
  return static_cast<double>(integer_difference(golden, device).largest);
}

}  // namespace assay::precheck
