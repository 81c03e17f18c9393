#include "assay/te/ops/activation_rows.h"

#include "assay/te/check.h"

namespace assay::te {

ActivationRows::ActivationRows(Activation act, const Tensor& x,
                               const ActivationOptions& options, DType out)
    : gated_act_(is_gated(act)),
      params_(options.params),
      x_(x.data<std::byte>()) {
  const MatrixShape shape = matrix_shape(x.shape());
  rows_ = shape.rows;
  in_columns_ = shape.columns;
  out_columns_ = gated_act_ ? shape.columns / 2 : shape.columns;
  block_ = options.glu_interleave_size > 0 ? options.glu_interleave_size
                                           : out_columns_;
  in_size_ = traits(x.dtype()).bits / 8;
  out_size_ = traits(out).bits / 8;
  const ActivationKernels& table = activation_kernels(x.device);
  if (gated_act_) {
    gated_ = table.gated(act, x.dtype(), out);
    gated_grad_ = table.gated_grad(act, x.dtype(), out);
  } else {
    unary_ = table.unary(act, x.dtype(), out);
    unary_grad_ = table.unary_grad(act, x.dtype(), out);
  }
}

void ActivationRows::forward(std::int64_t row, std::int64_t count, float scale,
                             void* y) const {
  if (!gated_act_) {
    unary_(x_row(row), count * in_columns_, scale, y);
    return;
  }
  auto* out = static_cast<std::byte*>(y);
  for (std::int64_t r = 0; r < count; ++r)
    forward_gated(row + r, scale, out + r * out_columns_ * out_size_);
}

// The columns of a row: gate, linear, gate, linear ... in pieces of block_.
void ActivationRows::forward_gated(std::int64_t row, float scale,
                                   std::byte* y) const {
  const std::byte* x = x_row(row);
  for (std::int64_t j = 0; j < out_columns_; j += block_) {
    const std::byte* gate = x + 2 * j * in_size_;
    gated_(gate, gate + block_ * in_size_, block_, params_, scale,
           y + j * out_size_);
  }
}

void ActivationRows::backward(const void* dy, std::int64_t row,
                              std::int64_t count, float scale, void* dx,
                              double* dot) const {
  const std::byte* dy_row =
      static_cast<const std::byte*>(dy) + row * out_columns_ * in_size_;
  if (!gated_act_) {
    unary_grad_(dy_row, x_row(row), count * in_columns_, scale, dx, dot);
    return;
  }
  auto* out = static_cast<std::byte*>(dx);
  for (std::int64_t r = 0; r < count; ++r)
    backward_gated(dy_row + r * out_columns_ * in_size_, row + r, scale,
                   out + r * in_columns_ * out_size_, dot);
}

void ActivationRows::backward_gated(const std::byte* dy, std::int64_t row,
                                    float scale, std::byte* dx,
                                    double* dot) const {
  const std::byte* x = x_row(row);
  for (std::int64_t j = 0; j < out_columns_; j += block_) {
    const std::byte* gate = x + 2 * j * in_size_;
    std::byte* dgate = dx + 2 * j * out_size_;
    gated_grad_(dy + j * in_size_, gate, gate + block_ * in_size_, block_,
                params_, scale, dgate, dgate + block_ * out_size_, dot);
  }
}

}  // namespace assay::te
