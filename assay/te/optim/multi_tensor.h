// One call over many tensors: scaling with an overflow flag, and norms.
//
// Sources: NVTE multi_tensor.h (multi_tensor_scale, _l2norm, _unscale_l2norm;
// apex semantics). Tensors f32, bf16 or f16, mixed in one list; empty lists
// and empty tensors are allowed. Results do not depend on the number of
// threads. Thread-safe.
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

}  // namespace assay::te
