// The two orders of block-128 scales: compact, and as NVTE's GEMM takes them.
#pragma once

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// Shape of the scales of an M x K matrix in `layout`. With R x C the compact
// matrix of blocks (1 x 128: M x ceil(K/128), columnwise K x ceil(M/128);
// 128 x 128: ceil(M/128) x ceil(K/128), columnwise its transpose), kGemmReady
// is C x roundup(R, 4), transposed, for 1 x 128, and R x roundup(C, 4) for
// 128 x 128 (NVTE; docs/numerics.md). Throws Error{kUsage} for kSwizzled.
Shape block128_scale_shape(ScalingMode mode, bool columnwise,
                           const Shape& shape, ScaleLayout layout);

// q with its scales in `layout`; codes are shared, padding is zero. For
// kBlock1D and kBlock2D. Throws Error{kUsage} for kSwizzled.
QuantizedData block128_with_layout(const QuantizedData& q, const Shape& shape,
                                   ScaleLayout layout);

}  // namespace assay::te
