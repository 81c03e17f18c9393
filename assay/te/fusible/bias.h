// Bias: y = x + b over the last dimension. (NVTE: ops.Bias)
#pragma once

#include <cstdint>

#include "assay/te/fusible/operation.h"

namespace assay::te::ops {

struct BiasOptions {
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  // The last dimension is cut: this rank has size / tp_size of it.
  bool tensor_parallel = false;
  TensorParallel group = {};
};

// Added in fp32, rounded once; x and b are of one dtype. The gradient of b is
// the sum of dy over its rows, in fp64, rounded once; dy goes on as it is, or
// quantised for the operation before.
class Bias : public BasicOperation {
 public:
  // Parameter "bias" [size], zeros. Throws Error{kUsage} for a size that is not
  // positive or cannot be cut.
  explicit Bias(std::int64_t size, const BiasOptions& options = {});

  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;
  bool quantizes_result(Direction direction) const override {
    return direction == Direction::kBackward;
  }

  Parameter& bias() { return bias_; }

 private:
  Parameter& bias_;
};

}  // namespace assay::te::ops
