// Everything that a replayed call gave: results, gradients, what it wrote to,
// values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "assay/conform/case_run.h"
#include "assay/precheck/inputs.h"
#include "assay/precheck/judge_pair.h"

namespace assay::precheck {

struct CallTask {
  const Trace* trace = nullptr;
  const PlannedCall* planned = nullptr;
  const CallInputs* inputs = nullptr;
  const conform::CaseRun* golden = nullptr;
  const conform::CaseRun* device = nullptr;
  const Standard* standard = nullptr;
  bool by_detail = false;
  // Asks the golden's worker again, with these inputs in this precision; for
  // what has to be known only of few calls.
  std::function<conform::CaseRun(const conform::TensorMap& tensors,
                                 const std::string& precision)>
      again;
};

// The rows of the call, the forward pass first. A worker that failed, refused
// or lacks the call gives one row; else there is a row for everything that the
// trace has, that the golden gives or that the device gives. Rules:
//   the golden does not give what was recorded   incomplete: it is no replay
//   the device raises where the golden does not  mismatch, "failed"
//   one side alone gives it                      mismatch
//   neither gives what was recorded              incomplete
//   nobody recorded it, both give it             incomplete if it agrees
//   both give it                                 judge_pair(), of operators
//                                                that draw judge_random()
// Values are exact; floats are judged in the dtype of the first argument that
// has one. Thread-safe.
std::vector<JudgedRow> judge_call(const CallTask& task);

}  // namespace assay::precheck
