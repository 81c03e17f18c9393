// One case given to a worker: what came back, and whether it can be believed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "assay/conform/outcome.h"
#include "assay/conform/run_result.h"
#include "assay/conform/spec.h"
#include "assay/conform/worker.h"

namespace assay::conform {

struct CaseRun {
  Ending ending = Ending::kCompared;  // it answered, and its files are sound
  std::string message;                // else why
  std::string log;                    // its stderr
  Outcome outcome;
  std::vector<std::filesystem::path> files;  // outputs, one for each rank
  double seconds = 0;
  std::int64_t peak_bytes = 0;
};

// Never throws for what the worker does. Outputs go to
// "<request.outputs>.rank<r>.safetensors"; the tensors of the outcome are views
// of them.
CaseRun run_request(WorkerSet& workers, RunRequest request);

// The same for a case of a spec. `inputs`: a safetensors file with an absolute
// name. `prefix`: of its outputs.
CaseRun run_case(WorkerSet& workers, const Spec& spec, const Case& c,
                 const std::filesystem::path& inputs,
                 const std::filesystem::path& prefix);

}  // namespace assay::conform
