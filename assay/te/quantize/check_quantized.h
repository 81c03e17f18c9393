// What codes and scales must be before a number is read from them.
#pragma once

#include <string_view>

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// Whether the data are K x M: columnwise ones, but for MXFP8 and kIdentity.
bool is_data_transposed(const QuantizedData& q);

// Shape of `scale_inv` of an M x K matrix in q.layout; {} for kIdentity.
Shape scale_inv_shape(const QuantizedData& q, const Shape& shape);

// q.scale_inv, contiguous. Throws Error{kUsage} naming `op` where it is absent,
// or has another dtype or shape than q.mode and q.layout give it.
Tensor checked_scales(std::string_view op, const QuantizedData& q,
                      const Shape& shape);

// q with data, scale_inv and (kNVFP4) amax contiguous. Throws Error{kUsage}
// naming `op` where q.format is none of the mode, or one of the three is
// absent, has the wrong dtype or shape, or lives on another device. Data of
// kTensor may keep the dimensions of the tensor: [.., K], or columnwise
// [K, ..]; of the other modes it is a matrix.
QuantizedData check_quantized(std::string_view op, const QuantizedData& q,
                              const Shape& shape);

}  // namespace assay::te
