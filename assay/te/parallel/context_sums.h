// Sums over the attention calls of one rank: of results over disjoint keys,
// and of gradients, in fp32 and in the order in which they are added.
#pragma once

#include <optional>

#include "assay/te/ops/attention.h"

namespace assay::te {

// Packed rows (thd). Queries that a call did not take have zero rows and an lse
// of -inf there, and keep what other calls gave them, bit for bit.
class ResultSum {
 public:
  void add(const AttentionResult& part);
  // Rounded to `dtype`. At least one part was added.
  AttentionResult total(DType dtype) const;

 private:
  AttentionPartial sum_;  // out in f32
  Tensor max_logit_;
  bool empty_ = true;
};

class GradientSum {
 public:
  void add(const Tensor& part);
  // f32; zeros of `shape` where nothing was added.
  Tensor total(const Shape& shape, Device device) const;

 private:
  std::optional<Tensor> sum_;  // f32
};

// The greater of each element of two f32 tensors; a NaN stays.
Tensor maxima(const Tensor& a, const Tensor& b);

}  // namespace assay::te
