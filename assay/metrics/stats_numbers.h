// The numbers of a loaded chunk, one at a time: for what runs element by
// element.
#pragma once

#include <cstdint>
#include <type_traits>

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
inline double to_double(WideInt v) {
  const WideInt magnitude = v < 0 ? -v : v;
  if (magnitude >> 64 != 0) return static_cast<double>(v);
  const auto d = static_cast<double>(static_cast<std::uint64_t>(magnitude));
  return v < 0 ? -d : d;
}
// |d|, at most 2^64 - 1: only int64 against uint64 can differ by more.
inline std::uint64_t magnitude_of(WideInt d) {
  const WideInt magnitude = d < 0 ? -d : d;
  if (magnitude >> 64 != 0) return ~std::uint64_t{0};
  return static_cast<std::uint64_t>(magnitude);
}

// Integers of one 64-bit dtype, and of any two dtypes.
template <typename T>
struct Int64Numbers {
  const T *x, *y;
  WideInt difference(std::int64_t i) const { return WideInt{y[i]} - x[i]; }
  Numbers operator()(std::int64_t i) const {
    return {static_cast<double>(x[i]), static_cast<double>(y[i]),
            to_double(difference(i))};
  }
};
struct MixedInts {
  DType golden, target;
  const void *x, *y;
  WideInt difference(std::int64_t i) const {
    return load_int(target, y, i) - load_int(golden, x, i);
  }
  Numbers operator()(std::int64_t i) const {
    return {to_double(load_int(golden, x, i)),
            to_double(load_int(target, y, i)), to_double(difference(i))};
  }
};

template <typename Numbers, typename Visit>
auto visit_same(const ChunkData& data, Visit visit) {
  using T = std::remove_cvref_t<decltype(*Numbers::x)>;
  return visit(Numbers{static_cast<const T*>(data.golden),
                       static_cast<const T*>(data.target)});
}

template <typename Visit>
auto visit_ints(const PairPlan& plan, const ChunkData& data, Visit visit) {
  const DType golden = plan.golden_dtype(), target = plan.target_dtype();
  if (golden == target && golden == DType::kI64)
    return visit_same<Int64Numbers<std::int64_t>>(data, visit);
  if (golden == target && golden == DType::kU64)
    return visit_same<Int64Numbers<std::uint64_t>>(data, visit);
  return visit(MixedInts{golden, target, data.golden, data.target});
}

// Calls visit(numbers) with the type that reads `data`.
template <typename Visit>
auto visit_numbers(const PairPlan& plan, const ChunkData& data, Visit visit) {
  switch (plan.arithmetic()) {
    case Arithmetic::kBf16:
      return visit_same<Bf16Numbers>(data, visit);
    case Arithmetic::kF16:
      return visit_same<F16Numbers>(data, visit);
    case Arithmetic::kF32:
      return visit_same<PlainNumbers<float>>(data, visit);
    case Arithmetic::kInt64:
      return visit_ints(plan, data, visit);
    default:
      return visit_same<PlainNumbers<double>>(data, visit);
  }
}

}  // namespace assay
