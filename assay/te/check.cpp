#include "assay/te/check.h"

#include <algorithm>
#include <cstdio>

namespace assay::te {
namespace {

std::string names_of(std::initializer_list<DType> dtypes) {
  std::string text;
  for (DType d : dtypes) {
    if (!text.empty()) text += " or ";
    text += traits(d).name;
  }
  return text;
}

}  // namespace

void fail(std::string_view op, std::string_view argument,
          const std::string& found, const std::string& expected) {
  std::string text(op);
  text.append(": ").append(argument).append(": ").append(found);
  text.append(", expected ").append(expected);
  throw Error(Code::kUsage, text);
}

void require(bool ok, std::string_view op, std::string_view argument,
             const std::string& found, const std::string& expected) {
  if (!ok) fail(op, argument, found, expected);
}

void require_value(bool ok, std::string_view op, std::string_view argument,
                   double value, const std::string& expected) {
  if (ok) return;
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  fail(op, argument, text, expected);
}

void require_present(std::string_view op, std::string_view argument,
                     const Tensor& tensor) {
  if (tensor.view.data == nullptr && tensor.numel() > 0)
    fail(op, argument, "absent", "a tensor");
}

void require_writable(std::string_view op, std::string_view argument,
                      const Tensor& tensor) {
  require_present(op, argument, tensor);
  require(tensor.writable || tensor.view.data == nullptr, op, argument,
          "a read-only tensor", "memory to write");
}

void require_contiguous(std::string_view op, std::string_view argument,
                        const Tensor& tensor) {
  require(tensor.view.is_contiguous(), op, argument, "a strided tensor",
          "a contiguous one");
}

void require_shape(std::string_view op, std::string_view argument,
                   const Tensor& tensor, const Shape& expected) {
  require_present(op, argument, tensor);
  if (tensor.shape() != expected) {
    fail(op, argument, "shape " + to_string(tensor.shape()),
         to_string(expected));
  }
}

void require_rank(std::string_view op, std::string_view argument,
                  const Tensor& tensor, std::size_t rank) {
  require_present(op, argument, tensor);
  if (tensor.shape().size() != rank) {
    fail(op, argument, "shape " + to_string(tensor.shape()),
         std::to_string(rank) + " dimensions");
  }
}

void require_dtype(std::string_view op, std::string_view argument,
                   const Tensor& tensor, std::initializer_list<DType> allowed) {
  require_present(op, argument, tensor);
  if (std::find(allowed.begin(), allowed.end(), tensor.dtype()) ==
      allowed.end()) {
    fail(op, argument, std::string(traits(tensor.dtype()).name),
         names_of(allowed));
  }
}

void require_high_precision(std::string_view op, std::string_view argument,
                            const Tensor& tensor) {
  require_dtype(op, argument, tensor, {DType::kF32, DType::kBF16, DType::kF16});
}

void require_multiple(std::string_view op, std::string_view argument,
                      std::int64_t value, std::int64_t of) {
  if (value % of != 0) {
    fail(op, argument, std::to_string(value),
         "a multiple of " + std::to_string(of));
  }
}

void require_device(std::string_view op, Device device, const Tensor& tensor) {
  if (tensor.device == device) return;
  fail(op, "device",
       "tensors on " + std::string(device_name(device)) + " and " +
           std::string(device_name(tensor.device)),
       "all on one device");
}

Device common_device(std::string_view op,
                     std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* tensor : tensors) {
    if (tensor == nullptr) continue;
    if (first == nullptr) first = tensor;
    require_device(op, first->device, *tensor);
  }
  return first == nullptr ? Device::kCpu : first->device;
}

MatrixShape matrix_shape(const Shape& shape) {
  if (shape.empty()) return {1, 1};
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return {rows, shape.back()};
}

}  // namespace assay::te
