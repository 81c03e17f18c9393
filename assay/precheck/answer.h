// What a worker answered a call with, by the names of docs/worker-protocol.md.
#pragma once

#include <string>
#include <string_view>

#include "assay/conform/case_run.h"
#include "assay/conform/cases.h"

namespace assay::precheck {

inline constexpr std::string_view kGradient = "gradient.";
inline constexpr std::string_view kAfter = "after.";
inline constexpr std::string_view kAgain = "again.";  // of another run
inline constexpr std::string_view kInput = "input";

// Null where there is none.
const Tensor* find(const conform::TensorMap& tensors, const std::string& name);

// Of rank 0; none where the worker failed.
const conform::TensorMap& tensors_of(const conform::CaseRun& run);

// A text of contract.<field>.<name>, "" where there is none.
std::string contract_text(const conform::CaseRun& run, std::string_view field,
                          const std::string& name);

// "gradient.input.0" -> "input.0"; other names as they are.
std::string argument_of(const std::string& name);

std::string dtype_name(DType dtype);

}  // namespace assay::precheck
