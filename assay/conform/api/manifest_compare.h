// Holds a package's manifest against a golden one: what is missing, moved or
// changed, and what could not be compared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/api/manifest.h"
#include "assay/metrics/verdict.h"

namespace assay::conform {

enum class Change : std::uint8_t {
  kMissing,      // a name of the golden one that nothing answers to
  kMoved,        // it is there, and cannot be imported from where it was
  kChanged,      // kind, parameter, default, value of an enum, field, state
  kNotCompared,  // one side does not say: compiled, computed, not declared
  kAdded,        // the target has more; a note
};
std::string_view to_string(Change change);  // "missing", "not compared", ...

struct ContractFinding {
  Change change;
  std::string symbol;  // as the golden manifest names it
  std::string what;    // "symbol", "parameter bias of __init__", "value E4M3"
  std::string expected, found;
};

struct ContractCheck {
  // By symbol, then in the order of the golden manifest.
  std::vector<ContractFinding> findings;
  int symbols = 0;         // of the golden manifest
  int things = 0;          // parameters, values, paths ... held against it
  int public_symbols = 0;  // of the target that the golden one lacks

  int count(Change change) const;
  // A mismatch for anything missing, moved or changed; incomplete where
  // something was not compared, or nothing was; else a match.
  Verdict verdict() const;
};

// Symbols are found by the paths they are imported by, whatever the file that
// defines them. A symbol whose kind differs is not looked into. Only the
// golden one's packages count: a symbol of a package that `target` does not
// have at all is not compared, nor is a source of it that could not be read.
ContractCheck compare_manifests(const ApiManifest& golden,
                                const ApiManifest& target);

}  // namespace assay::conform
