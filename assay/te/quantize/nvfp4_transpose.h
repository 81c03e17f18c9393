// Transposing NVFP4 data without decoding it.
//
// Source: NVTE cast_transpose.h, nvfp4_scale_transpose. (Codes alone:
// ops/transpose.h.)
#pragma once

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// The other direction of data with one scale for each 16 x 16 tile: codes and
// scales transposed, the tile's scale repeated on each of its rows. Compact
// scales. Throws Error{kUsage} for another mode or layout.
QuantizedData nvfp4_transpose_tiles(const QuantizedData& q);

}  // namespace assay::te
