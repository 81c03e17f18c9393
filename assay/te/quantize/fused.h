// Operators whose result is only wanted quantised: bias gradient, activation
// and its backward, norm, each followed by a quantiser.
//
// What is rounded where (NVTE, sections MXFP8BlockScaling, Float8CurrentScaling
// and trap T9): block formats (128, MXFP8, NVFP4) and current scaling see the
// operator's result rounded to the dtype of its input, delayed scaling sees
// the fp32 result. A bias gradient sums the fp32 result, before that rounding,
// and has the dtype of the input.
//
// Source: NVTE cast.h (quantize_dbias, quantize_dbias_d<act>), activation.h,
// normalization.h; test_cast_mxfp8.cu for the rounding points.
#pragma once

#include "assay/numerics/internal_precision.h"
#include "assay/te/ops/activation.h"
#include "assay/te/ops/norm.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

struct QuantizedWithDbias {
  QuantizedTensor quantized;
  Tensor dbias;  // [K]
};

// x quantised, and bias_grad(x): the sums over its rows. `precision` is that
// of the sums ("bias_grad" in te/precision.h).
QuantizedWithDbias quantize_dbias(
    Quantizer& quantizer, const Tensor& x,
    InternalPrecision precision = InternalPrecision::kF32);

// quantise(act(x)); gated activations: [.., 2H] -> [.., H]. Shapes, formulas
// and errors: ops/activation.h.
QuantizedTensor activation_quantize(Quantizer& quantizer, Activation act,
                                    const Tensor& x,
                                    const ActivationOptions& options = {});

// quantise(dy * act'(x)), of the shape of x.
QuantizedTensor dactivation_quantize(Quantizer& quantizer, Activation act,
                                     const Tensor& dy, const Tensor& x,
                                     const ActivationOptions& options = {});

// The same and the sums of dy * act'(x) over the rows.
QuantizedWithDbias dactivation_quantize_dbias(
    Quantizer& quantizer, Activation act, const Tensor& dy, const Tensor& x,
    const ActivationOptions& options = {},
    InternalPrecision precision = InternalPrecision::kF32);

// The norm of x, quantised; mean and rsigma as the norm gives them. z is
// rounded as said above; NormOptions::rounding kNormalisedFirst rounds it
// before anything else. Shapes, formulas and errors: ops/norm.h.
struct NormQuantized {
  QuantizedTensor z;
  Tensor mean;  // empty for RMSNorm
  Tensor rsigma;
};
NormQuantized layernorm_quantize(Quantizer& quantizer, const Tensor& x,
                                 const Tensor& gamma, const Tensor& beta,
                                 const NormOptions& options = {});
NormQuantized rmsnorm_quantize(Quantizer& quantizer, const Tensor& x,
                               const Tensor& gamma,
                               const NormOptions& options = {});

}  // namespace assay::te
