// What one side gave for a case.
#pragma once

#include <string>
#include <vector>

#include "assay/conform/cases.h"
#include "assay/conform/protocol.h"

namespace assay::conform {

struct Outcome {
  RunAnswer::Status status = RunAnswer::Status::kOk;
  std::string error, message;      // where it is not kOk
  Object contract;                 // where it is kOk
  std::vector<TensorMap> outputs;  // the same, one for each rank
  bool repeats = true;             // no second run gave other bytes

  bool ok() const { return status == RunAnswer::Status::kOk; }
  bool unsupported() const { return status == RunAnswer::Status::kUnsupported; }
  // An error of a kind that says no to the arguments; not one that shows a
  // fault of the worker itself (no memory, an unknown name, an unknown kind).
  bool refused() const;
};

}  // namespace assay::conform
