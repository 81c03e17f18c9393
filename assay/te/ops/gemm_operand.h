// Operands of a GEMM as its kernels read them.
#pragma once

#include <string_view>
#include <vector>

#include "assay/kernels/gemm.h"
#include "assay/te/ops/gemm.h"

namespace assay::te {

// One operand, checked and ready.
struct GemmSide {
  ScalingMode mode = ScalingMode::kIdentity;
  DType dtype = DType::kBF16;  // it is of, or stands for
  GemmView view;
  double alpha = 1;              // what its scales multiply every sum by
  std::vector<float> row_alpha;  // NVFP4 row-scaled: one per outer
  std::vector<float> block;      // block 128: [ceil(K/128)][outer]
  float nvfp4_scale_max = 448;
  std::vector<Tensor> owners;  // what the view points into
};

// `name` is "a" or "b" for the errors; k_last: the operand's last dimension is
// the one summed over. A kIdentity side has a high-precision view.
GemmSide gemm_side(std::string_view name, const GemmOperand& operand,
                   bool k_last);

// Whether it holds a high-precision tensor, plain or of kIdentity.
bool is_high_precision(const GemmOperand& operand, bool k_last);
// The dtype of that tensor, or the one the quantised tensor stands for.
DType nominal_dtype(const GemmOperand& operand, bool k_last);

// The direction of a quantised operand that a GEMM reads; null where it has
// not that one.
const QuantizedData* gemm_direction(const QuantizedTensor& q, bool k_last);

// Throws Error{kUsage} where NVTE has no GEMM for the pair, or its dimensions
// do not suit the modes: a is n x k, b is m x k.
void check_gemm_pair(const GemmSide& a, const GemmSide& b);

}  // namespace assay::te
