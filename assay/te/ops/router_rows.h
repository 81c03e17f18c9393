// What router.cpp and aux_loss.cpp share: one token's scores as fp32, and the
// two gradients that all score functions are made of.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "assay/kernels/convert.h"
#include "assay/kernels/moe.h"
#include "assay/te/check.h"
#include "assay/te/ops/router.h"

namespace assay::te {

inline constexpr double kNormEpsilon = 1e-20;  // NVTE's, of weight sums

// How a call computes: the precision in force, fp64 on the reference device.
InternalPrecision router_precision(InternalPrecision asked, Device device);

// Scores of one token after another, with the scratch they need.
class TokenScorer {
 public:
  TokenScorer(ScoreFunction function, InternalPrecision precision, DType dtype,
              std::int64_t experts, Device device);

  // One row of `dtype` as fp32 in scores(), and for backward in `saved`.
  void load(const std::byte* row);
  // scores() to the score function's values; softmax over all n of them.
  void score(std::int64_t n);
  // Indices of the k best of the first n of `values`, best first.
  const std::int32_t* best(const float* values, std::int64_t n, std::int64_t k);
  // Sum of the first n of `values` (working precision rounds to `dtype`).
  double sum(const float* values, std::int64_t n) const;

  float* scores() { return scores_.data(); }

 private:
  void plain_softmax(std::int64_t n);

  ScoreFunction function_;
  InternalPrecision precision_;
  DType dtype_;
  std::int64_t experts_;
  const MoeKernels& kernels_;
  const ConvertKernels& convert_;
  std::vector<float> scores_;
  std::vector<std::int32_t> keys_, indices_;
};

// One token's gradient as fp64, in from and out to tensors by way of fp32.
class GradientRow {
 public:
  GradientRow(std::int64_t n, Device device)
      : g(static_cast<std::size_t>(n)),
        row_(static_cast<std::size_t>(n)),
        convert_(convert_kernels(device)) {}
  // Row t of a contiguous tensor [T, n].
  void load(const Tensor& tensor, std::int64_t t);
  void store(Tensor& tensor, std::int64_t t);

  std::vector<double> g;

 private:
  std::vector<float> row_;
  const ConvertKernels& convert_;
};

// Gradients of one token, in place on n values `g`; `used` null: all of them,
// else those with used[i] != 0, the others become 0.
//   softmax: g = y (g - sum g y);  y / (sum y + eps): g = g / s - sum g y / s^2
void softmax_gradient(const float* y, const std::uint8_t* used, std::int64_t n,
                      InternalPrecision precision, DType dtype, double* g);
void norm_gradient(const float* y, const std::uint8_t* used, std::int64_t n,
                   InternalPrecision precision, DType dtype, double* g);
// Through the sigmoid or sqrtsoftplus itself; `saved` as in RouterOutput.
void activation_gradient(ScoreFunction function, const float* saved,
                         std::int64_t n, double* g);
// The activation's values from `saved`.
void activation_values(ScoreFunction function, const float* saved,
                       std::int64_t n, float* y);

}  // namespace assay::te
