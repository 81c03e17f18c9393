// One call on both workers.
#pragma once

#include <filesystem>
#include <string>

#include "assay/conform/case_run.h"
#include "assay/conform/scratch.h"
#include "assay/precheck/inputs.h"
#include "assay/precheck/worker_pool.h"

namespace assay::precheck {

struct Replayed {
  conform::CaseRun device, golden;
};

// Gives calls to workers and reads what they answer. Thread-safe.
class Replayer {
 public:
  // `folder`: where the tensors pass through while it lives.
  Replayer(const std::filesystem::path& folder, WorkerPool& device,
           WorkerPool& golden)
      : scratch_(folder), device_(device), golden_(golden) {}

  // On both at the same time, on the device `runs` times. `index` tells the
  // calls of a run apart.
  Replayed run(const PlannedCall& planned, const CallInputs& inputs, int runs,
               std::size_t index);

  // On the golden's worker alone, with other tensors of the same names.
  conform::CaseRun golden(const PlannedCall& planned, const CallInputs& inputs,
                          const conform::TensorMap& tensors,
                          const std::string& precision, std::size_t index);

 private:
  conform::CaseRun ask(WorkerPool& pool, const PlannedCall& planned,
                       const CallInputs& inputs, const std::string& precision,
                       int runs, const std::filesystem::path& file,
                       const std::filesystem::path& outputs);

  const conform::Scratch scratch_;
  WorkerPool& device_;
  WorkerPool& golden_;
};

}  // namespace assay::precheck
