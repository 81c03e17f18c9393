// LayerNorm, RMSNorm and L2 normalisation over the last dimension, forward and
// backward.
//
// Formulas: NVTE (docs/numerics.md, normalization), kernels/norm.h. Tensors are
// seen as matrices: the leading dimensions by the last one, H >= 1 columns. x
// and gradients are float32, bfloat16 or float16 and of one dtype; gamma and
// beta may have another of the three (a bf16 input with fp32 weights is exact,
// not NaN). Everything is computed in fp32; z, dx, dgamma, dbeta are rounded
// once, mean and rsigma are float32 of shape [rows]. A NaN or infinity makes
// its row NaN. Parameter gradients are summed over fixed blocks of rows: no
// result depends on the number of threads. All functions are thread-safe.
#pragma once

#include "assay/core/tensor.h"
#include "assay/numerics/internal_precision.h"

namespace assay::te {

// Where the forward rounds.
enum class NormRounding : std::uint8_t {
  kOnce,             // z = round(y gamma + beta): NVTE's kernels
  kNormalisedFirst,  // z = round(round(round(y) gamma) + beta) in x's dtype:
                     // models that multiply in the weight's dtype
};

struct NormOptions {
  float eps = 1e-5f;
  // The weights are 1 + gamma. By default the sum is formed in fp32;
  // in_weight_dtype rounds it to gamma's dtype first, as cuDNN does (NVTE:
  // nvte_enable_zero_centered_gamma_in_weight_dtype).
  bool zero_centered_gamma = false;
  bool gamma_in_weight_dtype = false;
  NormRounding rounding = NormRounding::kOnce;
  // Of the sums over a row and over rows.
  InternalPrecision precision = InternalPrecision::kF32;
};

struct NormForward {
  Tensor z;
  Tensor mean;  // empty for RMSNorm
  Tensor rsigma;
  Tensor sum;  // of the *_add forms: round(x + residual)
};

struct NormBackward {
  Tensor dx;
  Tensor dgamma;  // dtype of gamma; of 1 + gamma where that is the weight
  Tensor dbeta;   // empty for RMSNorm
};

NormForward layernorm_forward(const Tensor& x, const Tensor& gamma,
                              const Tensor& beta,
                              const NormOptions& options = {});
NormForward rmsnorm_forward(const Tensor& x, const Tensor& gamma,
                            const NormOptions& options = {});
// The norm of round(x + residual), which is returned as `sum`: what the next
// residual connection and the backward take for x.
NormForward layernorm_add_forward(const Tensor& x, const Tensor& residual,
                                  const Tensor& gamma, const Tensor& beta,
                                  const NormOptions& options = {});
NormForward rmsnorm_add_forward(const Tensor& x, const Tensor& residual,
                                const Tensor& gamma,
                                const NormOptions& options = {});

// `options` as for the forward; the rounding points do not matter here.
NormBackward layernorm_backward(const Tensor& dz, const Tensor& x,
                                const Tensor& mean, const Tensor& rsigma,
                                const Tensor& gamma,
                                const NormOptions& options = {});
NormBackward rmsnorm_backward(const Tensor& dz, const Tensor& x,
                              const Tensor& rsigma, const Tensor& gamma,
                              const NormOptions& options = {});
// dx += add (the gradient of the residual connection), in fp32 before the
// rounding (NVTE: rmsnorm_bwd_add).
NormBackward layernorm_backward_add(const Tensor& dz, const Tensor& x,
                                    const Tensor& add, const Tensor& mean,
                                    const Tensor& rsigma, const Tensor& gamma,
                                    const NormOptions& options = {});
NormBackward rmsnorm_backward_add(const Tensor& dz, const Tensor& x,
                                  const Tensor& add, const Tensor& rsigma,
                                  const Tensor& gamma,
                                  const NormOptions& options = {});

// y = x / sqrt(sum(x^2) + eps) over the last dimension (NVTE,
// L2Normalization); rsigma is the factor.
struct L2NormForward {
  Tensor y, rsigma;
};
struct L2NormOptions {
  float eps = 1e-6f;
  InternalPrecision precision = InternalPrecision::kF32;
};
L2NormForward l2_normalization_forward(const Tensor& x,
                                       const L2NormOptions& options = {});
Tensor l2_normalization_backward(const Tensor& dy, const Tensor& x,
                                 const Tensor& rsigma,
                                 const L2NormOptions& options = {});

}  // namespace assay::te
