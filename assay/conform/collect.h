// Collects goldens: every case of the specs, computed by a reference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "assay/conform/schedule.h"

namespace assay::conform {

struct Collected {
  std::int64_t made = 0;         // computed now
  std::int64_t kept = 0;         // there already, still fresh (--resume)
  std::int64_t refused = 0;      // of `made`: answered with a refusal
  std::int64_t unsupported = 0;  // of `made`: the reference lacks it
  struct Failure {
    std::string name;     // "linear/small-3f09a1c2"
    std::string message;  // why there is no golden
    std::string log;      // file, "" without one
  };
  std::vector<Failure> failures;
  bool interrupted = false;
  Hello hello;  // of the reference
};

// Adds to the store in `folder`, making it where it is not there. What the
// reference does wrong is a failure; errors of the specs and of the disk are
// thrown.
Collected collect(const RunOptions& options, const WorkerCommand& reference,
                  const std::filesystem::path& folder);

}  // namespace assay::conform
