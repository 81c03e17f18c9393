// Decoding, one function per scaling mode; dequantize() picks. Arguments as
// there; the scales are in ScaleLayout::kCompact.
#pragma once

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

Tensor dequantize_tensor_scaled(const QuantizedData& q, const Shape& shape,
                                DType out);
Tensor dequantize_block128(const QuantizedData& q, const Shape& shape,
                           DType out);
Tensor dequantize_mxfp8(const QuantizedData& q, const Shape& shape, DType out);
Tensor dequantize_nvfp4(const QuantizedData& q, const Shape& shape, DType out);

}  // namespace assay::te
