// One tensor of a replayed call: what the device gave against the golden.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/core/tensor.h"
#include "assay/metrics/standard.h"
#include "assay/precheck/conditioning.h"
#include "assay/precheck/detail/detail.h"

namespace assay::precheck {

struct JudgedRow {
  bool backward = false;  // belongs to the backward pass
  Row row;                // group and operator 0
  std::optional<Detail> detail;
};

struct PairTask {
  std::string name;  // of the row
  const Tensor* golden = nullptr;
  const Tensor* device = nullptr;
  // What the trace has of it: its dtype is the one the device has to give.
  std::optional<DType> recorded;
  OpClass op = OpClass::kUnknown;
  std::string api;                // for guesses at the cause
  const Tensor* input = nullptr;  // the first one, for the same
  bool backward = false;
  // The golden again, for conditioning: on inputs moved by their rounding, or
  // in the given precision. An empty vector where it cannot be had.
  std::function<std::vector<Tensor>(Yardstick)> moved;
  bool float8_input = false;
  bool by_detail = false;  // the verdict of judge_detail() decides
};

// Rounds the golden to the recorded dtype (nearest even; beyond the range what
// the dtype has there), then shape and dtype exactly, then the elements.
JudgedRow judge_pair(const Standard& standard, const PairTask& task);

// A row that is decided: what it is about, why, and whether it was a tensor.
JudgedRow decided(std::string name, bool backward, bool is_tensor,
                  Verdict verdict, std::string criterion, std::string text);

Tensor rounded(const Tensor& tensor, DType dtype);

}  // namespace assay::precheck
