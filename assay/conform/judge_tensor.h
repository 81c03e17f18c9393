// One pair of tensors of a case, judged.
#pragma once

#include <string>

#include "assay/conform/run_result.h"
#include "assay/core/tensor.h"
#include "assay/metrics/standard.h"

namespace assay::conform {

struct TensorPair {
  std::string name;
  int rank = 0;
  const Tensor* golden = nullptr;  // null: not given
  const Tensor* target = nullptr;
};

// By a standard, under an operator class. One side alone, and none, is
// incomplete.
Check judge_tensors(const TensorPair& pair, const Standard& standard,
                    OpClass op);

// The elements' bytes, whatever the dtype: uint8, with the last dimension
// counting bytes.
Tensor as_bytes(const Tensor& tensor);

// Dtype, shape and every byte of the elements.
bool same_bytes(const Tensor& a, const Tensor& b);

// A check that is decided already.
Check make_check(std::string name, int rank, Verdict verdict,
                 std::string criterion, std::string text);

}  // namespace assay::conform
