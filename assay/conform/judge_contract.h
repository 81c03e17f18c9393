// The fields of the contract, compared exactly.
#pragma once

#include <string>
#include <vector>

#include "assay/conform/run_result.h"
#include "assay/conform/value.h"

namespace assay::conform {

// A check for every field that matches, and one for every place where a field
// differs: "contract.defaults.eps". A field that a side does not give at all
// is incomplete; a member that only one side has is a difference.
std::vector<Check> judge_contract(const std::vector<std::string>& fields,
                                  const Object& golden, const Object& target);

}  // namespace assay::conform
