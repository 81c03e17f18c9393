// The interface of every quantiser: a tensor in, codes and scales out.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// Which directions a quantiser fills. A GEMM that sums over K takes rowwise
// operands, one that sums over M (wgrad) columnwise ones.
struct Usage {
  bool rowwise = true;
  bool columnwise = true;
};

// Where a quantiser's amax is the maximum over several processes: replaces the
// fp32 values in place by their maximum over the group.
class AmaxReduction {
 public:
  virtual ~AmaxReduction() = default;
  virtual void reduce_max(float* values, std::int64_t count) = 0;
};

class Quantizer {
 public:
  virtual ~Quantizer() = default;

  // Quantises x (float32, bfloat16 or float16, any rank; made contiguous where
  // it is strided). Zero rows give empty data. Throws Error{kUsage} for a
  // shape the recipe cannot hold. Not thread-safe where the quantiser keeps
  // state (delayed scaling, stochastic rounding): see each.
  virtual QuantizedTensor quantize(const Tensor& x) = 0;

  // As quantize(round(x, dtype)) for an fp32 x that an operator made for a
  // tensor of `dtype`. Delayed scaling alone takes x unrounded, amax and codes,
  // as NVTE's fused kernels do.
  virtual QuantizedTensor quantize_fused(const Tensor& x_f32, DType dtype) = 0;

  // One result for each tensor, as quantize() of one after the other; the
  // quantisers of per-tensor and block-128 scaling do it in one parallel loop.
  virtual std::vector<QuantizedTensor> quantize_multi(
      std::span<const Tensor> xs) {
    std::vector<QuantizedTensor> out;
    for (const Tensor& x : xs) out.push_back(quantize(x));
    return out;
  }

  virtual ScalingMode mode() const = 0;
  virtual DType format() const = 0;
  // A copy with its own state, as a module that clones its recipe needs.
  virtual std::unique_ptr<Quantizer> clone() const = 0;

  Usage usage() const { return usage_; }
  void set_usage(Usage usage) { usage_ = usage; }

 private:
  Usage usage_;
};

}  // namespace assay::te
