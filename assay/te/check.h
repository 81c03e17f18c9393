// Argument checks that every operator shares. Each throws Error{kUsage} with
// one line: operator, argument, its value, what is allowed.
#pragma once

#include <cstdint>
#include <initializer_list>
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

// The device that all of them live on; an Error that names two where they do
// not agree.
Device common_device(std::string_view op,
                     std::initializer_list<const Tensor*> tensors);

// A tensor seen as a matrix: the product of the leading dimensions by the
// last one. A 0-d tensor is 1 x 1.
struct MatrixShape {
  std::int64_t rows, columns;
};
MatrixShape matrix_shape(const Shape& shape);

}  // namespace assay::te
