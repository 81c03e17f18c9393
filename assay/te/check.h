// Argument checks that every operator shares. Each throws Error{kUsage} with
// one line: operator, argument, its value, what is allowed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "assay/base/error.h"
#include "assay/core/tensor.h"

namespace assay::te {

// "rmsnorm_forward: gamma: shape [7], expected [8]"
[[noreturn]] void fail(std::string_view op, std::string_view argument,
                       const std::string& found, const std::string& expected);

void require(bool ok, std::string_view op, std::string_view argument,
             const std::string& found, const std::string& expected);
// `ok` of a number, NaN included, which the message shows.
void require_value(bool ok, std::string_view op, std::string_view argument,
                   double value, const std::string& expected);

// The checks of a tensor refuse one that was never made: elements in its
// shape but no bytes, as Tensor{} has.
void require_present(std::string_view op, std::string_view argument,
                     const Tensor& tensor);
// Of a tensor that is changed in place: its bytes are not a file mapping's.
void require_writable(std::string_view op, std::string_view argument,
                      const Tensor& tensor);
void require_contiguous(std::string_view op, std::string_view argument,
                        const Tensor& tensor);
void require_shape(std::string_view op, std::string_view argument,
                   const Tensor& tensor, const Shape& expected);
void require_rank(std::string_view op, std::string_view argument,
                  const Tensor& tensor, std::size_t rank);
void require_dtype(std::string_view op, std::string_view argument,
                   const Tensor& tensor, std::initializer_list<DType> allowed);
// float32, bfloat16, float16: what an activation or a gradient may be.
void require_high_precision(std::string_view op, std::string_view argument,
                            const Tensor& tensor);
void require_multiple(std::string_view op, std::string_view argument,
                      std::int64_t value, std::int64_t of);

// For common_device: null where there is none.
inline const Tensor* address_of(const std::optional<Tensor>& tensor) {
  return tensor ? &*tensor : nullptr;
}
// The device that all of them that are not null live on; an Error that names
// two where they do not agree.
Device common_device(std::string_view op,
                     std::initializer_list<const Tensor*> tensors);

// The same for one tensor more.
void require_device(std::string_view op, Device device, const Tensor& tensor);

// A tensor seen as a matrix: the product of the leading dimensions by the
// last one. A 0-d tensor is 1 x 1.
struct MatrixShape {
  std::int64_t rows, columns;
};
MatrixShape matrix_shape(const Shape& shape);

}  // namespace assay::te
