#include "assay/te/optim/in_place.h"

#include <cstring>

#include "assay/numerics/element.h"
#include "assay/te/check.h"

namespace assay::te {
namespace {

const Tensor& checked(std::string_view op, std::string_view argument,
                      const Tensor& tensor, Access access) {
  require_high_precision(op, argument, tensor);
  if (access == Access::kReadWrite) require_writable(op, argument, tensor);
  return tensor;
}

}  // namespace

InPlace::InPlace(std::string_view op, std::string_view argument, Tensor& tensor,
                 Access access)
    : tensor_(&tensor),
      work_(contiguous(checked(op, argument, tensor, access))),
      data_(const_cast<std::byte*>(work_.view.data)),
      numel_(tensor.numel()),
      kernels_(&convert_kernels(tensor.device)) {}

std::byte* InPlace::at(std::int64_t begin) {
  return data_ + begin * (traits(dtype()).bits / 8);
}

float* InPlace::load(std::int64_t begin, std::int64_t count, float* scratch) {
  if (dtype() == DType::kF32) return reinterpret_cast<float*>(data_) + begin;
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
  std::byte* to = target.mutable_data();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      offset += index[d] * target.view.strides[d];
    std::memcpy(to + offset * bytes, from + i * bytes,
                static_cast<std::size_t>(bytes));
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

double scalar_value(std::string_view op, std::string_view argument,
                    const Tensor& tensor) {
  require_present(op, argument, tensor);
  require(tensor.numel() == 1, op, argument,
          "shape " + to_string(tensor.shape()), "one element");
  return load_as_double(tensor.dtype(), tensor.view.data, 0);
}

}  // namespace assay::te
