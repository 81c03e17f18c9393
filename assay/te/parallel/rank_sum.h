// The sum of what several ranks hold, in the order of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/core/device.h"
#include "assay/core/dtype.h"

namespace assay::te {

// out[i] = parts[0][i] + parts[1][i] + ..., from the left: each widened to
// fp32 (Device::kReference: fp64), rounded once to `to` from `from`. Both f32,
// bf16 or f16. At least one part; `out` may be one of them where the dtypes
// are the same. In parallel over fixed blocks: the same bits for any number of
// threads.
void sum_in_rank_order(Device device, DType from, DType to,
                       std::span<const std::byte* const> parts,
                       std::int64_t count, std::byte* out);

}  // namespace assay::te
