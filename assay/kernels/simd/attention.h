// The fp32 tables of tiled attention, one per vector instruction set.
#pragma once

#include <vector>

#include "assay/kernels/attention_tiles.h"

namespace assay {

// Those this machine has, best first.
std::vector<const AttentionTiles*> simd_attention_tiles();

}  // namespace assay
