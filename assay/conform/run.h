// Runs a target over the cases of the specs and judges it by goldens.
#pragma once

#include <filesystem>
#include <string>

#include "assay/conform/run_result.h"
#include "assay/conform/schedule.h"

namespace assay::conform {

struct TargetOptions {
  std::filesystem::path goldens;  // a folder or a pack
  std::filesystem::path folder;   // logs, journal; made where it is not there
  std::string command;            // as RunResult has it
};

// Stale and missing goldens, and whatever the target does wrong, are results;
// errors of the specs, of the store as a whole and of the disk are thrown, and
// so is a target that cannot be started at all.
RunResult run(const RunOptions& options, const WorkerCommand& target,
              const TargetOptions& where);

}  // namespace assay::conform
