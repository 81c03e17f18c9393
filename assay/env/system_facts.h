// Host, source tree and drivers, as files of the system tell them: nothing is
// run.
#pragma once

#include <filesystem>

#include "assay/env/snapshot.h"

namespace assay::env {

// Operating system, processor, memory; the commit that `folder` is at, read
// from its .git (whether files are changed is not looked at).
void collect_system(const std::filesystem::path& folder, SectionFacts& facts);

// Drivers and toolkits that leave their version in a file: NVIDIA, CUDA, CANN,
// ROCm, MUSA.
void collect_drivers(SectionFacts& facts);

}  // namespace assay::env
