// Environment variables: which of them can change what a training computes.
#pragma once

#include <string>
#include <string_view>

#include "assay/env/snapshot.h"

namespace assay::env {

// CUDA_*, NCCL_*, HCCL_*, ASCEND_*, TORCH_*, NVTE_*, OMP_*, PYTHON* and their
// like, and names with TF32, HF32, SEED or DETERMINISTIC in them.
bool is_listed(std::string_view name);

// The variables of this process: those of is_listed(), or all.
void collect_environment(bool all, SectionFacts& facts);

}  // namespace assay::env
