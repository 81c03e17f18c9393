// Which names of an API the modules of a conformance run guard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "assay/conform/run_result.h"

namespace assay::conform {

// A name that a code base uses, and at how many places.
struct ApiName {
  std::string name;
  std::int64_t uses = 0;
  std::vector<std::string> guards;  // modules and manifests, says the scan
};

// By this run, that is; all sorted by name, each once.
struct ApiCoverage {
  std::vector<ApiName> guarded;
  std::vector<ApiName> unguarded;    // or by what is not part of the run
  std::vector<std::string> unknown;  // of a module, but not of the scan
  std::int64_t total() const {
    return static_cast<std::int64_t>(guarded.size() + unguarded.size());
  }
};

// A module of the run guards what the scan says of it, and the names that its
// `api` lists; also where the run was cut down to a few of its cases or none of
// them matches.
ApiCoverage api_coverage(const RunResult& run, std::vector<ApiName> scanned);

// The names of what `assay api scan --json` wrote. Throws Error{kUnreadable,
// kRefused} naming the file.
std::vector<ApiName> read_scanned_api(const std::filesystem::path& scan);

// "guards 41 of 58 API names (93.1 % of 1,204 uses)".
std::string coverage_text(const ApiCoverage& coverage);

}  // namespace assay::conform
