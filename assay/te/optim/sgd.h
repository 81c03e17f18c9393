// Stochastic gradient descent with momentum over lists of tensors, in place.
//
// Source: NVTE multi_tensor_sgd (apex semantics). In fp32, multiply-adds
// fused, each operation rounded:
//   g = g * scale;  g = g + wd p                    unless decay_after_momentum
//   momentum != 0:  buf = first_run ? g : momentum buf + (1 - dampening) g
//                   g = nesterov ? g + momentum buf : buf
//   g = g + wd p                                    if decay_after_momentum
//   p = p - lr g
// Tensors f32, bf16 or f16; strided ones are updated where they are. Results
// do not depend on the number of threads.
#pragma once

#include <span>

#include "assay/core/tensor.h"

namespace assay::te {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0, dampening = 0, weight_decay = 0;
  // Needs momentum > 0 and dampening 0, else Error{kUsage}.
  bool nesterov = false;
  bool first_run = false;  // the buffers hold nothing yet
  bool decay_after_momentum = false;
  double scale = 1.0;  // of the gradients
};

struct SgdTensors {
  std::span<const Tensor> grads;
  std::span<Tensor> params;
  std::span<Tensor> momentum;  // may be empty where momentum is 0
  std::span<Tensor> copies;    // empty, or receives params in its own dtype
};

// `noop` not null and not 0: nothing is done.
void multi_tensor_sgd(const SgdTensors& tensors, const SgdOptions& options,
                      const Tensor* noop = nullptr);

}  // namespace assay::te
