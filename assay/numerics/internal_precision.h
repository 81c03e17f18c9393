// The arithmetic in which an operator forms its sums: one of five, chosen by
// name, so that a tool can raise or lower the precision of one operator.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "assay/core/dtype.h"
#include "assay/numerics/rounding.h"

namespace assay {

enum class InternalPrecision : std::uint8_t {
  kWorking,      // every partial sum rounded to the dtype of the input
  kF32,          // fp32 lanes in a fixed order: the default of every operator
  kF64,          // fp64, elements in order
  kCompensated,  // fp32 with Neumaier's compensation
  kPairwise,     // fp32, binary tree
};
inline constexpr std::array kInternalPrecisions = {
    InternalPrecision::kWorking, InternalPrecision::kF32,
    InternalPrecision::kF64, InternalPrecision::kCompensated,
    InternalPrecision::kPairwise};

constexpr std::string_view precision_name(InternalPrecision precision) {
  constexpr std::string_view kNames[] = {"working", "fp32", "fp64",
                                         "compensated", "pairwise"};
  return kNames[static_cast<std::size_t>(precision)];
}
constexpr std::optional<InternalPrecision> parse_precision(
    std::string_view name) {
  for (InternalPrecision p : kInternalPrecisions)
    if (name == precision_name(p)) return p;
  return std::nullopt;
}

// Accumulators: add() in the order of the elements, then total(). Real is the
// type of the terms; a caller forms products in Real.

class WorkingSum {
 public:
  using Real = float;
  explicit WorkingSum(DType dtype) : dtype_(dtype) {}
  void add(float x) {
    sum_ = static_cast<float>(
        round_to(dtype_, static_cast<double>(sum_) +
                             round_to(dtype_, static_cast<double>(x))));
  }
  float total() const { return sum_; }

 private:
  DType dtype_;
  float sum_ = 0;
};

template <typename T>
class PlainSum {
 public:
  using Real = T;
  explicit PlainSum(DType) {}
  void add(T x) { sum_ += x; }
  T total() const { return sum_; }

 private:
  T sum_ = 0;
};

// Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher
// Summen", ZAMM 54 (1974): the lost low part of each addition is kept.
class CompensatedSum {
 public:
  using Real = float;
  explicit CompensatedSum(DType) {}
  void add(float x) {
    const float sum = sum_ + x;
    if (std::isfinite(sum))
      lost_ += std::fabs(sum_) >= std::fabs(x) ? (sum_ - sum) + x
                                               : (x - sum) + sum_;
    sum_ = sum;
  }
  float total() const { return sum_ + lost_; }

 private:
  float sum_ = 0, lost_ = 0;
};

class PairwiseF32Sum {
 public:
  using Real = float;
  explicit PairwiseF32Sum(DType) {}
  void add(float x) {
    std::size_t level = 0;
    for (; count_ >> level & 1; ++level) x = partial_[level] + x;
    partial_[level] = x;
    ++count_;
  }
  float total() const {
    float sum = 0;
    for (std::size_t level = 0; count_ >> level != 0; ++level)
      if (count_ >> level & 1) sum = partial_[level] + sum;
    return sum;
  }

 private:
  std::array<float, 64> partial_{};
  std::uint64_t count_ = 0;
};

// Calls body(make) where make() gives a fresh accumulator of `precision`;
// `working` is the dtype kWorking rounds to. Here kF32 is the plain running
// sum in fp32: the fast kernels, which sum in lanes, are called instead where
// an operator has them.
template <typename Body>
decltype(auto) with_accumulator(InternalPrecision precision, DType working,
                                Body&& body) {
  switch (precision) {
    case InternalPrecision::kWorking:
      return body([=] { return WorkingSum(working); });
    case InternalPrecision::kF64:
      return body([=] { return PlainSum<double>(working); });
    case InternalPrecision::kCompensated:
      return body([=] { return CompensatedSum(working); });
    case InternalPrecision::kPairwise:
      return body([=] { return PairwiseF32Sum(working); });
    case InternalPrecision::kF32:
      break;
  }
  return body([=] { return PlainSum<float>(working); });
}

}  // namespace assay
