// A weight of a module: its values, plain or quantised, and its gradient.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "assay/core/tensor.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// Values are either `value` (float32, bfloat16 or float16) or `quantized`
// (QuantizedModelInit); the other is absent. Gradients are added to main_grad
// where the caller has put a float32 tensor there and the module was made
// with fuse_wgrad_accumulation, else to `grad`, which has the parameter's
// dtype and appears with the first backward. The attributes of tensor
// parallelism are those that Megatron-Core reads.
struct Parameter {
  Shape shape;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  std::optional<Tensor> value;
  std::shared_ptr<QuantizedTensor> quantized;
  // What an optimizer quantises new values with: the module's, which must
  // outlive the use. Null for plain parameters.
  Quantizer* quantizer = nullptr;
  // The values before they were quantised, where QuantizedModelInit keeps them.
  std::optional<Tensor> high_precision_init;

  bool requires_grad = true;
  std::optional<Tensor> grad;
  std::optional<Tensor> main_grad;
  // Set by every backward that added to main_grad; cleared by the caller.
  bool grad_added_to_main_grad = false;

  bool tensor_model_parallel = false;
  int partition_dim = -1;  // the dimension that is cut across ranks
  std::int64_t partition_stride = 1;
  // The gradient is of this rank's tokens only: to be summed over the ranks.
  bool sequence_parallel = false;
};

// The values in high precision: itself, or decoded to the parameter's dtype.
Tensor values_of(const Parameter& parameter);

// target += source in fp32, rounded once to target's dtype, in place. Equal
// shapes; float32, bfloat16 or float16, which may differ.
void add_in_place(Tensor& target, const Tensor& source);

// Adds a gradient as the struct says; `fuse`: into main_grad where there is
// one. Nothing for a parameter without requires_grad.
void accumulate_grad(Parameter& parameter, const Tensor& gradient,
                     bool fuse = false);

}  // namespace assay::te
