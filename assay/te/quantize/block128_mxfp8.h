// Block-128 data on hardware that has MXFP8 only.
#pragma once

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// The MXFP8 data that stands for the same values: codes untouched, each scale
// as an E8M0 code, repeated for its four blocks of 32 (128 x 128 tiles: on
// each of their rows), swizzled. Row-wise data stays M x K. Column-wise data is
// taken as the K x M matrix that it is stored as, so the result is row-wise
// too, of shape K x M. Any layout of the scales. Throws Error{kUsage} where
// `q` is not block-128 data, where the stored columns are no multiple of 32,
// and where a scale is no power of two within 2^-127 .. 2^127.
//
// Source: NVTE swizzle.h, swizzle_block_scaling_to_mxfp8_scaling_factors.
QuantizedData block128_as_mxfp8(const QuantizedData& q, const Shape& shape);

}  // namespace assay::te
