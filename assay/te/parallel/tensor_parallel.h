// The products of a linear layer whose weight is cut across a group.
//
// Source: Megatron-LM, arXiv:1909.08053 (cuts) and arXiv:2205.05198 (sequence
// parallelism); NVTE's Linear. With R ranks, y = x W^T:
//
//             column parallel                row parallel
// weight      [out / R, in]                  [out, in / R]
// forward     x gathered*, y [.., out / R]   x [.., in / R], y summed*
// dx          summed*                        dy gathered*, [.., in / R]
// dW          dy^T x gathered*               dy gathered*^T x
//
// * With sequence parallelism the tensor outside is this rank's slice of the
//   first dimension: it is gathered before the product, and a sum over ranks
//   is reduce-scattered. Without, it is whole on every rank, and sums are
//   all-reduced.
//
// Against one process: gathered forward passes, dW and a row-parallel dx are
// the same bits (but see gemm_overlap.h on tiny elements); sums over ranks
// differ by one reordered sum and the rounding of each rank's part
// (collectives.h). Operands are plain or quantised, in the directions that
// GEMMs read (te/ops/gemm.h) and, where they are gathered, as
// can_gather_quantized() asks. All functions are collective and throw
// Error{kUsage} on every rank where shapes do not suit.
#pragma once

#include <optional>

#include "assay/te/parallel/gemm_overlap.h"

namespace assay::te {

// What may be done at the same time; names are NVTE's. None changes a bit.
struct CommOverlap {
  bool ub_overlap_ag = false;        // gather of x (dy) with its product
  bool ub_overlap_rs = false;        // row-parallel forward
  bool ub_overlap_rs_dgrad = false;  // column-parallel dx
  bool ub_bulk_dgrad = false;        // x is gathered for dW while dx is formed
  bool ub_bulk_wgrad = false;        // dx is summed while dW is formed
  // Of the two reduce-scatters.
  OverlapMethod rs_method = OverlapMethod::kRingExchange;
  int num_splits = 4;  // of kPipeline
};

struct ParallelLinear {
  Communicator* group = nullptr;
  bool sequence_parallel = false;
  // ub_overlap_rs_dgrad excludes the two bulk forms, as in NVTE.
  CommOverlap overlap = {};
};

struct LinearGradientOptions {
  bool dx = true, dw = true;  // which are wanted
  // Defaults: the dtype of dy, quantised: the one it stands for.
  std::optional<DType> dx_dtype, dw_dtype;
  Tensor* main_grad = nullptr;  // dW is added to it in the product
};

struct LinearGradients {
  Tensor dx;  // no elements where it is not wanted
  Tensor dw;  // nor with main_grad
};

// Options as gemm_fprop() takes them; with ub_overlap_ag those of
// all_gather_gemm(). bias: [out / R].
Tensor column_parallel_forward(const GemmOperand& x, const GemmOperand& w,
                               const ParallelLinear& how,
                               const GemmOptions& options = {});
// x as the forward pass had it: this rank's rows with sequence parallelism.
LinearGradients column_parallel_backward(
    const GemmOperand& dy, const GemmOperand& x, const GemmOperand& w,
    const ParallelLinear& how, const LinearGradientOptions& options = {});

// Of options: alpha, out_dtype, precision, and bias [out], which is added
// after the sum over ranks: one more rounding (NVTE: gemm_bias_unfused_add).
Tensor row_parallel_forward(const GemmOperand& x, const GemmOperand& w,
                            const ParallelLinear& how,
                            const GemmOptions& options = {});
LinearGradients row_parallel_backward(
    const GemmOperand& dy, const GemmOperand& x, const GemmOperand& w,
    const ParallelLinear& how, const LinearGradientOptions& options = {});

}  // namespace assay::te
