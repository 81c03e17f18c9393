// Judges a pair that no dump holds: tensors and values in memory.
#pragma once

#include <optional>
#include <string>

#include "assay/compare/comparison.h"
#include "assay/core/tensor.h"
#include "assay/metrics/standard.h"

namespace assay {

// A tensor; a tensor that cannot be read (`unreadable` says why, `facts` what
// is known of it); or a value that is none, in the words of a dump.
struct SingleSide {
  std::optional<Tensor> tensor;
  SideFacts facts;  // those of `tensor` where there is one
  std::string unreadable;
  bool is_tensor = true;
  std::string type, value;

  static SingleSide of(const Tensor& tensor);
};

// The row that `judge_row` makes of them, of group and operator 0. Null: that
// side is not there; not both. `name` is the row's. Thread-safe; uses all
// threads inside large tensors.
Row judge_single(const Standard& standard, OpClass op, const std::string& name,
                 const SingleSide* golden, const SingleSide* target);

}  // namespace assay
