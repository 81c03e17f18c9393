// What passes from one operation to the next: a tensor, or what it became for
// the GEMM that reads it.
#pragma once

#include <variant>

#include "assay/core/tensor.h"
#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te::ops {

using Value = std::variant<Tensor, QuantizedTensor>;

const Shape& shape_of(const Value& value);
// Of a quantised one: the dtype it stands for.
DType dtype_of(const Value& value);
// The tensor; a quantised one decoded to the dtype it stands for.
Tensor tensor_of(const Value& value);

// The same elements under another shape, of a contiguous copy where the tensor
// is strided. The sizes agree.
Tensor with_shape(const Tensor& tensor, Shape shape);

}  // namespace assay::te::ops
