// The order of block scales in memory: compact, padded for a GEMM, swizzled.
#pragma once

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// The same codes with the scales of an M x K matrix in `layout`; itself where
// they are already. Every pair of layouts can be converted both ways, padding
// is zero. Shapes of kGemmReady (NVTE, "scale shapes" of each recipe), also of
// kSwizzled, whose bytes are in the order of scale_tiles.h:
//   kMXFP8  row-wise roundup(M, 128) x roundup(K/32, 4)
//           column-wise roundup(M/32, 4) x roundup(K, 128); swizzled as the
//           row-wise scales of the transposed matrix
//   kNVFP4  row-wise roundup(M, 128) x roundup(K/16, 4)
//           column-wise roundup(K, 128) x roundup(M/16, 4)
//   kBlock1D, kBlock2D  see layout_block128.h; not swizzled
//   kTensor, kIdentity  one scale or none, the same in both; not swizzled
// Throws Error{kUsage} for kSwizzled of a mode without tiles, and where the
// scales have not the shape of such a matrix.
QuantizedData with_layout(const QuantizedData& q, const Shape& shape,
                          ScaleLayout layout);

}  // namespace assay::te
