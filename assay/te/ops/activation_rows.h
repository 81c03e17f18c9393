// How an activation runs over the rows of a matrix: where the gate and linear
// columns of a row stand, and which kernel takes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "assay/te/ops/activation.h"

namespace assay::te {

// One call; x is contiguous and outlives it. `out` is the dtype of results.
class ActivationRows {
 public:
  ActivationRows(Activation act, const Tensor& x,
                 const ActivationOptions& options, DType out);

  std::int64_t rows() const { return rows_; }
  std::int64_t in_columns() const { return in_columns_; }    // of x, dx
  std::int64_t out_columns() const { return out_columns_; }  // of y, dy

  // `count` rows from `row` on, all with one scale, into `y`.
  void forward(std::int64_t row, std::int64_t count, float scale,
               void* y) const;
  // The same of dx; `dy` is the whole tensor's data, `dot` as in UnaryGradFn.
  void backward(const void* dy, std::int64_t row, std::int64_t count,
                float scale, void* dx, double* dot) const;

 private:
  void forward_gated(std::int64_t row, float scale, std::byte* y) const;
  void backward_gated(const std::byte* dy, std::int64_t row, float scale,
                      std::byte* dx, double* dot) const;
  const std::byte* x_row(std::int64_t row) const {
    return x_ + row * in_columns_ * in_size_;
  }

  bool gated_act_;
  ActivationParams params_;
  const std::byte* x_;
  std::int64_t rows_, in_columns_, out_columns_;
  std::int64_t block_;               // columns of gate or linear in one piece
  std::int64_t in_size_, out_size_;  // bytes of an element
  UnaryFn unary_ = nullptr;
  UnaryGradFn unary_grad_ = nullptr;
  GatedFn gated_ = nullptr;
  GatedGradFn gated_grad_ = nullptr;
};

}  // namespace assay::te
