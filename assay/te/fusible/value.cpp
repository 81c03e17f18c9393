#include "assay/te/fusible/value.h"

#include <utility>

namespace assay::te::ops {

const Shape& shape_of(const Value& value) {
  const auto* quantized = std::get_if<QuantizedTensor>(&value);
  return quantized ? quantized->shape : std::get<Tensor>(value).shape();
}

DType dtype_of(const Value& value) {
  const auto* quantized = std::get_if<QuantizedTensor>(&value);
  return quantized ? quantized->dtype : std::get<Tensor>(value).dtype();
}

Tensor tensor_of(const Value& value) {
  const auto* quantized = std::get_if<QuantizedTensor>(&value);
  return quantized ? dequantize(*quantized, quantized->dtype)
                   : std::get<Tensor>(value);
}

Tensor with_shape(const Tensor& tensor, Shape shape) {
  Tensor out = contiguous(tensor);
  out.view.shape = std::move(shape);
  out.view.strides = {};
  return out;
}

}  // namespace assay::te::ops
