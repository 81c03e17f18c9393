// A norm's forward over ranges of rows, for what follows it in one pass: the
// unrounded fp32 result is what a fused quantiser reads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "assay/kernels/norm.h"
#include "assay/te/ops/norm.h"

namespace assay::te {

// gamma (1 + gamma) and beta as fp32 in the order of a kernel table.
std::vector<float> norm_weights(const Tensor& gamma, const NormOptions& options,
                                ColumnOrder order);
std::vector<float> norm_offsets(const Tensor& beta, ColumnOrder order);

// Checks the arguments as layernorm_forward (with beta) and rmsnorm_forward
// (beta null) do; `op` is named in the errors.
class NormRows {
 public:
  NormRows(std::string_view op, const Tensor& x, const Tensor& gamma,
           const Tensor* beta, const NormOptions& options, DType out);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return args_.columns; }
  // float32 [rows]; filled by forward(). mean is empty for RMSNorm.
  const Tensor& mean() const { return mean_; }
  const Tensor& rsigma() const { return rsigma_; }

  // Rows [begin, end) of z, row `begin` first, into `z`. Thread-safe for
  // different rows.
  void forward(std::int64_t begin, std::int64_t end, void* z) const;

  // Before the first forward(): normalise round(x + residual), stored in sum.
  void set_residual(const Tensor& residual, Tensor& sum);

 private:
  Tensor x_, residual_, mean_, rsigma_;
  std::vector<float> gamma_, beta_;
  NormForwardArgs args_;
  std::int64_t rows_ = 0;
  const NormKernels* kernels_ = nullptr;
};

}  // namespace assay::te
