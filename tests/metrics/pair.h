// Test helper: a pair of tensors from plain numbers, judged in one call.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "assay/metrics/error_stats.h"
#include "assay/metrics/standard.h"
#include "assay/numerics/element.h"

namespace assay::test {

using Values = std::vector<double>;

inline Tensor tensor(DType dtype, Shape shape, const Values& values) {
  Tensor t = Tensor::zeros(dtype, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(dtype, values[i], t.mutable_data(),
                      static_cast<std::int64_t>(i));
  return t;
}

inline Tensor tensor(DType dtype, const Values& values) {
  return tensor(dtype, {static_cast<std::int64_t>(values.size())}, values);
}

inline Values make(std::int64_t count,
                   const std::function<double(std::int64_t)>& f) {
  Values values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = f(i);
  return values;
}

// Standard normal, always the same: Box-Muller over a splitmix64 stream.
inline Values normal(std::int64_t count, std::uint64_t seed = 1) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u;
  const auto uniform = [&] {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (static_cast<double>((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
  };
  return make(count, [&](std::int64_t) {
    const double r = std::sqrt(-2 * std::log(uniform()));
    return r * std::cos(2 * 3.141592653589793 * uniform());
  });
}

inline Values map(const Values& x, const std::function<double(double)>& f) {
  Values y;
  for (const double v : x) y.push_back(f(v));
  return y;
}

inline ErrorStats measure(const Standard& standard, const Tensor& golden,
                          const Tensor& target, OpClass op) {
  ErrorStats stats = compute_stats(golden.view, target.view);
  if (const auto request = standard.detail_request(stats, op))
    compute_detail(golden.view, target.view, *request, stats);
  return stats;
}

inline Judgement judge(const std::string& standard, const Tensor& golden,
                       const Tensor& target, OpClass op = OpClass::kUnknown,
                       double noise = -1) {
  const auto loaded = Standard::load(standard);
  const ErrorStats stats = measure(*loaded, golden, target, op);
  return loaded->judge(stats, op, nullptr, noise);
}

inline Judgement judge(const std::string& standard, DType dtype,
                       const Values& golden, const Values& target,
                       OpClass op = OpClass::kUnknown) {
  return judge(standard, tensor(dtype, golden), tensor(dtype, target), op);
}

inline bool has(const Judgement& judgement, const std::string& criterion) {
  for (const Reason& reason : judgement.reasons)
    if (reason.criterion == criterion) return true;
  return false;
}

// For failure messages.
inline std::string text(const Judgement& judgement) {
  std::string all{to_string(judgement.verdict)};
  for (const Reason& reason : judgement.reasons)
    all += "\n  " + reason.criterion + ": " + reason.text;
  return all;
}

}  // namespace assay::test
