// BasicLinear: y = x W^T, without a bias. (NVTE: ops.BasicLinear)
#pragma once

#include <cstdint>
#include <optional>

#include "assay/te/fusible/operation.h"
#include "assay/te/modules/linear.h"

namespace assay::te::ops {

struct BasicLinearOptions {
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  // kColumn: rows of the weight are cut, the input is gathered under
  // sequence_parallel, its gradient summed. kRow: columns are cut, the output
  // is summed.
  ParallelMode tensor_parallel_mode = ParallelMode::kNone;
  TensorParallel tensor_parallel = {};
  bool accumulate_into_main_grad = false;
  // Absent: uniform in (-1/sqrt(in), 1/sqrt(in)), as torch.nn.Linear.
  InitMethod init_method;
};

// What a BasicLinear's weight starts as, and torch.nn.Linear's.
InitMethod default_init(std::int64_t in_features);

// Numerics, rounding points and quantisation: LinearCore. A quantised input or
// gradient of the output is used as it is. Under Autocast rows and columns must
// be the multiples that the recipe asks for; outside, x has the weight's dtype.
class BasicLinear : public BasicOperation {
 public:
  // Parameter "weight" [out, in], of this rank. Within QuantizedModelInit it
  // is stored quantised. Throws Error{kUsage} for sizes that are not positive
  // or cannot be cut.
  BasicLinear(std::int64_t in_features, std::int64_t out_features,
              const BasicLinearOptions& options = {});

  int num_quantizers(Direction direction) const override {
    return direction == Direction::kForward ? 2 : 1;
  }
  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;
  // The same with what fused operations add to the GEMMs.
  Tensor forward_fused(Value input, ForwardStep& step,
                       const LinearEpilogue& epilogue);
  Tensor backward_fused(Value grad, BackwardStep& step,
                        const LinearGradEpilogue& epilogue);
  Quantizer* input_quantizer(const ForwardStep& step,
                             const Shape& shape) const override;
  Quantizer* grad_quantizer(OperationContext& context) const override;

  Parameter& weight() { return parameters_.weight(); }
  ParallelMode tensor_parallel_mode() const { return core_->options().mode; }

 protected:
  void on_new_quantizers() override;

 private:
  LinearParameters parameters_;
  std::optional<LinearCore> core_;
};

}  // namespace assay::te::ops
