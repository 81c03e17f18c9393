// Matrix products of plain and quantised tensors: the three products of a
// linear layer and the general one, with TransformerEngine's epilogues.
//
// Numerics (NVTE; docs/numerics.md):
//  - Sums are fp32 whatever the operands: NVTE's use_split_accumulator = true
//    everywhere. fp32 operands are multiplied in fp32, not in TF32 as upstream
//    (trap T4).
//  - Per-tensor FP8: the sum of products of codes, times alpha scale_a scale_b.
//  - MXFP8: codes times 2^(e - 127), exact, then summed.
//  - Block 128: for every 128 k the fp32 sum of products of codes; with s_b the
//    scale of B (the rows of D) and s_a that of A (its columns)
//      t = partial s_b; sum = fma(t, s_a, sum)
//    and with the two exchanged where B has 128 x 128 blocks.
//  - NVFP4: e2m1 codes times their E4M3 scales, exact, then summed; times
//    alpha amax_a amax_b fp32(1 / (36 max_a max_b)), max 448 or 256. A
//    row-scaled B multiplies each row of D by its own amax.
//  - A high-precision tensor and a quantised one: the quantised one is decoded
//    to the dtype of the other (identity and hybrid recipes).
// What is flushed (nothing) and the order of the sums: kernels/gemm.h.
#pragma once

#include <optional>

#include "assay/core/tensor.h"
#include "assay/numerics/internal_precision.h"
#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// A tensor or a quantised tensor, not owned: it must outlive the call. Seen as
// a matrix, the leading dimensions multiplied.
class GemmOperand {
 public:
  GemmOperand(const Tensor& tensor) : tensor_(&tensor) {}  // NOLINT: implicit
  GemmOperand(const QuantizedTensor& quantized)            // NOLINT: implicit
      : quantized_(&quantized) {}
  const Tensor* tensor() const { return tensor_; }
  const QuantizedTensor* quantized() const { return quantized_; }
  const Shape& shape() const {
    return tensor_ ? tensor_->shape() : quantized_->shape;
  }
  Device device() const {
    return tensor_ ? tensor_->device : quantized_->device;
  }

 private:
  const Tensor* tensor_ = nullptr;
  const QuantizedTensor* quantized_ = nullptr;
};

// NVTE's tags, of operands A and B; D always has A's other dimension last.
//   kTN  D[M,N] = B[M,K] A[N,K]^T    forward: A weight, B input
//   kNN  D[M,N] = B[M,K] A[K,N]      input gradient: A weight, B grad output
//   kNT  D[M,N] = B[K,M]^T A[K,N]    weight gradient: A input, B grad output
//   kTT  D[M,N] = B[K,M]^T A[N,K]^T
// Quantised operands are read rowwise where K is their last dimension,
// columnwise where it is their first. Per-tensor ones are read from whichever
// they have.
enum class GemmLayout : std::uint8_t { kTN, kNN, kNT, kTT };

struct Fp8Output {
  DType format = DType::kE4M3FN;  // or kE5M2
  float scale = 1;                // codes are sat(RN(fp32(v) scale))
};

// v = alpha sum + beta c + bias, in fp32;
// gelu: the pre-activation is v, v = gelu(v);  dgelu: v = v gelu'(pre);
// D is v rounded once.
struct GemmOptions {
  float alpha = 1;
  // Without c, beta must be 0. c: f32, bf16 or f16 of D's shape. Where beta is
  // 0, c is not read.
  float beta = 0;
  const Tensor* c = nullptr;
  // f32, bf16 or f16. Default: the dtype of B, quantised: the one it stands
  // for.
  std::optional<DType> out_dtype;
  std::optional<Fp8Output> fp8_output;  // per-tensor FP8 operands, beta 0
  const Tensor* bias = nullptr;         // [N], f32, bf16 or f16
  // An fp32 bias is rounded to bf16 first, as NVTE's modules do for FP8 with
  // fp32 activations (trap T16).
  bool round_bias_to_bf16 = false;
  bool gelu = false;  // tanh form
  // Of the pre-activation given back. Default: D's, bf16 where D is FP8.
  std::optional<DType> pre_gelu_dtype;
  const Tensor* dgelu_input = nullptr;  // the pre-activation, D's shape
  // With dgelu_input: the sums of v over the rows of D. Without, kNT only: the
  // sums of B (high precision) over its rows. Summed in fp64.
  bool bias_grad = false;
  // "gemm" in te/precision.h. Others than kF32 are plain loops; kWorking
  // rounds to the dtype of A, quantised: the one it stands for. With block
  // scales each sum of 128 is formed in it.
  InternalPrecision precision = InternalPrecision::kF32;
};

struct GemmResult {
  Tensor d;         // no data where fp8_output was asked for
  Tensor pre_gelu;  // with gelu
  // With bias_grad: [N] in out_dtype; the sums of B: [M] in B's dtype.
  Tensor bias_grad;
  // With fp8_output: rowwise codes, scale_inv = rn(1 / scale), amax of v.
  std::optional<QuantizedTensor> fp8;
};

// D has B's leading dimensions under kTN and kNN, else two. M, N and K may be
// 0 (block 128: K may not); without K the sum is 0. Throws Error{kUsage} for
// shapes that do not fit, pairs of scaling modes or formats that NVTE has no
// GEMM for (named), a missing direction, dimensions that are not multiples
// where a mode asks for it: MXFP8 32, NVFP4 16, block 128 K 16, N 8 and with
// 1 x 128 blocks M 8. Thread-safe; the same bits for any number of threads.
GemmResult gemm(const GemmOperand& a, const GemmOperand& b, GemmLayout layout,
                const GemmOptions& options = {});

// y[.., N] = x[.., K] w[N, K]^T.
GemmResult gemm_fprop(const GemmOperand& x, const GemmOperand& w,
                      const GemmOptions& options = {});
// dx[.., K] = dy[.., N] w[N, K].
GemmResult gemm_dgrad(const GemmOperand& dy, const GemmOperand& w,
                      const GemmOptions& options = {});
// dw[N, K] = dy[M, N]^T x[M, K].
GemmResult gemm_wgrad(const GemmOperand& dy, const GemmOperand& x,
                      const GemmOptions& options = {});

// d = alpha sum + beta d in place, d: f32, bf16 or f16, contiguous. What a
// fused weight gradient does to main_grad with beta 1. options.c, out_dtype,
// fp8_output are not allowed; the rest as in gemm(), d left empty in the
// result.
GemmResult gemm_into(Tensor& d, const GemmOperand& a, const GemmOperand& b,
                     GemmLayout layout, const GemmOptions& options);

}  // namespace assay::te
