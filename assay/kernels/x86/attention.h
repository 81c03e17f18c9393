// The bf16 tables of tiled attention for x86 processors with a bf16 unit.
#pragma once

#include <vector>

#include "assay/kernels/attention_tiles.h"

namespace assay {

// Those this machine has, best first: matrix tiles (AMX), then the dot product
// of AVX-512. `general` is the fp32 table whose memory kernels they share.
std::vector<const AttentionTiles*> x86_attention_tiles(
    const AttentionTiles& general);

}  // namespace assay
