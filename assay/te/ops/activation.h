// Activations forward and backward: the eleven of TransformerEngine, the
// clamped and bounded gated ones, and their forms scaled by a factor per row.
//
// Formulas and constants: NVTE (docs/numerics.md); the enum and its parameters
// are in kernels/activation.h. Inputs are float32, bfloat16 or float16,
// computed in fp32 from the stored values and rounded once to the dtype of the
// input. What is not above 0 is 0 in relu and srelu, and a clamp takes a NaN
// for its bound, as NVTE's kernels have it; everywhere else a NaN stays.
// Tensors are seen as matrices: the leading dimensions by the last one. A gated
// activation takes rows of 2H, gate half first, and gives rows of H. All
// functions are thread-safe; results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "assay/core/tensor.h"
#include "assay/kernels/activation.h"
#include "assay/numerics/internal_precision.h"

namespace assay::te {

// "gelu", "swiglu" ... and back; nullopt for anything else.
std::string_view activation_name(Activation act);
std::optional<Activation> parse_activation(std::string_view name);

struct ActivationOptions {
  ActivationParams params;
  // Of a gated activation: 0, or the width n of the alternating blocks of gate
  // and linear columns that a row consists of. H must be a multiple of it.
  std::int64_t glu_interleave_size = 0;
};

// act(x); gated: [.., 2H] -> [.., H].
Tensor activation_forward(Activation act, const Tensor& x,
                          const ActivationOptions& options = {});
// dy * act'(x), of x's shape; dy has the shape of the forward's result and
// x's dtype.
Tensor activation_backward(Activation act, const Tensor& dy, const Tensor& x,
                           const ActivationOptions& options = {});

// Row r of the result is act_scales[r] * act(x)[r]; act_scales is float32 or
// x's dtype, one value per row.
Tensor scaled_activation_forward(Activation act, const Tensor& x,
                                 const Tensor& act_scales,
                                 const ActivationOptions& options = {});

struct ScaledActivationGrads {
  Tensor dx;          // act_scales[r] * dy * act'(x)
  Tensor act_scales;  // sum over a row of dy * act(x); dtype of act_scales
};
ScaledActivationGrads scaled_activation_backward(
    Activation act, const Tensor& dy, const Tensor& x, const Tensor& act_scales,
    const ActivationOptions& options = {});

struct ActivationBiasGrads {
  Tensor dx;
  Tensor dbias;  // [columns of x], dtype of x
};
// dx = dy * act'(x) and its sums over the rows, of the fp32 values before they
// are rounded (NVTE: quantize_dbias_d<act>). `precision` is that of the sums,
// "bias_grad" in te/precision.h.
ActivationBiasGrads activation_backward_dbias(
    Activation act, const Tensor& dy, const Tensor& x,
    const ActivationOptions& options = {},
    InternalPrecision precision = InternalPrecision::kF32);

// The unrounded fp32 results of rows [begin, end), row-major into `out`: what
// a fused quantiser reads. x, dy contiguous; `out` holds (end - begin) rows of
// H (forward) or of x's columns (backward). Arguments are not checked.
void activation_rows_f32(Activation act, const Tensor& x, std::int64_t begin,
                         std::int64_t end, const ActivationOptions& options,
                         float* out);
void activation_grad_rows_f32(Activation act, const Tensor& dy, const Tensor& x,
                              std::int64_t begin, std::int64_t end,
                              const ActivationOptions& options, float* out);
// The checks of the two: throw what activation_forward and _backward throw.
void check_activation(std::string_view op, Activation act, const Tensor& x,
                      const ActivationOptions& options);
void check_activation_grad(std::string_view op, Activation act,
                           const Tensor& dy, const Tensor& x,
                           const ActivationOptions& options);

// Columns of halves [gate, linear] into alternating blocks of `size`, and back
// (NVTE: interleave_glu_tensor). Any dtype of whole bytes.
Tensor interleave_glu(const Tensor& x, std::int64_t size);
Tensor deinterleave_glu(const Tensor& x, std::int64_t size);

}  // namespace assay::te
