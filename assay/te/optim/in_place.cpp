#include "assay/te/optim/in_place.h"

#include <cstring>

#include "assay/numerics/element.h"
#include "assay/te/check.h"

namespace assay::te {

InPlace::InPlace(std::string_view op, std::string_view argument, Tensor& tensor)
    : tensor_(&tensor),
      work_(contiguous(tensor)),
      numel_(tensor.numel()),
      kernels_(&convert_kernels(tensor.device)) {
  require_high_precision(op, argument, tensor);
}

std::byte* InPlace::at(std::int64_t begin) {
  return work_.mutable_data() + begin * (traits(dtype()).bits / 8);
}

float* InPlace::load(std::int64_t begin, std::int64_t count, float* scratch) {
  if (dtype() == DType::kF32) return work_.mutable_data<float>() + begin;
  kernels_->widen[float_width(dtype())](at(begin), count, scratch);
  return scratch;
}

void InPlace::store(std::int64_t begin, std::int64_t count,
                    const float* values) {
  std::byte* to = at(begin);
  if (reinterpret_cast<const std::byte*>(values) == to) return;
  kernels_->narrow[float_width(dtype())](values, count, to);
}

void InPlace::commit() {
  if (!tensor_->view.is_contiguous()) scatter(work_, *tensor_);
}

void scatter(const Tensor& values, Tensor& target) {
  const std::int64_t bytes = traits(target.dtype()).bits / 8;
  const Shape& shape = target.shape();
  Shape index(shape.size(), 0);
  const std::byte* from = values.data<std::byte>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      offset += index[d] * target.view.strides[d];
    std::memcpy(target.mutable_data() + offset * bytes, from + i * bytes,
                static_cast<std::size_t>(bytes));
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

double scalar_value(std::string_view op, std::string_view argument,
                    const Tensor& tensor) {
  require(tensor.numel() == 1, op, argument,
          "shape " + to_string(tensor.shape()), "one element");
  return load_as_double(tensor.dtype(), tensor.view.data, 0);
}

}  // namespace assay::te
