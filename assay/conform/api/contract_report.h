// A contract check as text for a terminal, as JSON, and as JUnit XML.
#pragma once

#include <string>

#include "assay/conform/api/manifest_compare.h"

namespace assay::conform {

// What was held against what.
struct ContractSides {
  std::string golden, target;  // "nvte-2.20.json (2.20.0.dev0)"
};

// The verdict, one line for each finding that is no note (all with `all`), and
// how many notes there are.
std::string contract_text(const ContractCheck& check,
                          const ContractSides& sides, bool all);

// {"verdict", "golden", "target", "symbols", "compared", "counts", "findings"}
Value contract_json(const ContractCheck& check, const ContractSides& sides);

// One test case for each golden symbol with a finding and one for all others:
// what was not compared is no pass, so it is a failure of its own type.
std::string contract_junit(const ContractCheck& check,
                           const ContractSides& sides);

}  // namespace assay::conform
