// One call over many tensors: scaling with an overflow flag, norms, and the
// scales of sharded FP8 weights.
//
// Sources: NVTE multi_tensor.h (multi_tensor_scale, _l2norm, _unscale_l2norm,
// _compute_scale_and_scale_inv, _compute_scale_inv_e8m0; apex semantics).
// Tensors f32, bf16 or f16, mixed in one list; empty lists and empty tensors
// are allowed. Results do not depend on the number of threads. Thread-safe.
#pragma once

#include <span>

#include "assay/core/tensor.h"
#include "assay/numerics/internal_precision.h"

namespace assay::te {

// outputs[i] = fp32(inputs[i] * scale), rounded to its dtype, written in place
// (strided outputs too; an output may be the input itself). True where any
// input element is not finite: the overflow flag. The outputs are written all
// the same.
bool multi_tensor_scale(std::span<const Tensor> inputs,
                        std::span<Tensor> outputs, float scale);
// The scale as a tensor of one element.
bool multi_tensor_scale(std::span<const Tensor> inputs,
                        std::span<Tensor> outputs, const Tensor& scale);

struct Norms {
  Tensor total;       // f32 [1]
  Tensor per_tensor;  // f32 [count], empty unless asked for
};

struct MultiTensorNormOptions {
  bool per_tensor = false;
  // kF32, the default, sums squares in fp64 lanes over fixed blocks: stronger
  // than NVTE's fp32, so no finite element's square overflows. The others are
  // running sums of the operator "l2norm".
  InternalPrecision precision = InternalPrecision::kF32;
};

// sqrt of the sum of squares.
Norms multi_tensor_l2norm(std::span<const Tensor> tensors,
                          MultiTensorNormOptions options = {});
// Of fp32(x * inv_scale). The tensors are not changed.
Norms multi_tensor_unscale_l2norm(std::span<const Tensor> tensors,
                                  float inv_scale,
                                  MultiTensorNormOptions options = {});

struct FormatScale {
  float fp8_max = 448;
  bool pow2 = false;
  float epsilon = 0;
};

// scales[i] = compute_scale(amaxes[i]) of te/quantize/scale.h, with FLT_MAX for
// an infinite quotient, and scale_invs[i] its inverse, element by element, in
// place. f32 of equal shapes, contiguous.
void multi_tensor_compute_scale_and_scale_inv(std::span<const Tensor> amaxes,
                                              std::span<Tensor> scales,
                                              std::span<Tensor> scale_invs,
                                              FormatScale format = {});

// E8M0 codes of amax * fp32(1 / 448), rounded up, in place. amaxes f32, bf16 or
// f16; scale_invs e8m0 or u8 of equal shapes, contiguous.
void multi_tensor_compute_scale_inv_e8m0(std::span<const Tensor> amaxes,
                                         std::span<Tensor> scale_invs);

}  // namespace assay::te
