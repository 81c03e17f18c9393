// The numbers of a loaded chunk, one at a time: for what runs element by
// element.
#pragma once

#include <cstdint>

#include "assay/kernels/scalar_half.h"
#include "assay/metrics/stats_plan.h"
#include "assay/numerics/element.h"

namespace assay {

// Both values and d = target - golden, as doubles.
struct Numbers {
  double x, y, d;
};

struct Bf16Numbers {
  const std::uint16_t *x, *y;
  Numbers operator()(std::int64_t i) const {
    const double a = bf16_value(x[i]), b = bf16_value(y[i]);
    return {a, b, b - a};
  }
};
struct F16Numbers {
  const std::uint16_t *x, *y;
  Numbers operator()(std::int64_t i) const {
    const double a = f16_value(x[i]), b = f16_value(y[i]);
    return {a, b, b - a};
  }
};
template <typename T>
struct PlainNumbers {
  const T *x, *y;
  Numbers operator()(std::int64_t i) const {
    const double a = x[i], b = y[i];
    return {a, b, b - a};
  }
};

// A 64-bit integer of either signedness.
__extension__ typedef __int128 WideInt;
inline WideInt load_int(DType dtype, const void* data, std::int64_t i) {
  const std::uint64_t code =
      load_code(dtype, static_cast<const std::byte*>(data), i);
  const int unused = 64 - traits(dtype).bits;
  if (dtype == DType::kBool) return code != 0;
  if (traits(dtype).kind == DTypeKind::kUint) return code;
  return static_cast<std::int64_t>(code << unused) >> unused;
}
struct Int64Numbers {
  DType golden, target;
  const void *x, *y;
  WideInt difference(std::int64_t i) const {
    return load_int(target, y, i) - load_int(golden, x, i);
  }
  Numbers operator()(std::int64_t i) const {
    return {static_cast<double>(load_int(golden, x, i)),
            static_cast<double>(load_int(target, y, i)),
            static_cast<double>(difference(i))};
  }
};

// Calls visit(numbers) with the type that reads `data`.
template <typename Visit>
auto visit_numbers(const PairPlan& plan, const ChunkData& data, Visit visit) {
  const auto* x16 = static_cast<const std::uint16_t*>(data.golden);
  const auto* y16 = static_cast<const std::uint16_t*>(data.target);
  switch (plan.arithmetic()) {
    case Arithmetic::kBf16:
      return visit(Bf16Numbers{x16, y16});
    case Arithmetic::kF16:
      return visit(F16Numbers{x16, y16});
    case Arithmetic::kF32:
      return visit(PlainNumbers<float>{static_cast<const float*>(data.golden),
                                       static_cast<const float*>(data.target)});
    case Arithmetic::kInt64:
      return visit(Int64Numbers{plan.golden_dtype(), plan.target_dtype(),
                                data.golden, data.target});
    default:
      return visit(
          PlainNumbers<double>{static_cast<const double*>(data.golden),
                               static_cast<const double*>(data.target)});
  }
}

}  // namespace assay
