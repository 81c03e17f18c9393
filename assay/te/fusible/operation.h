// The operations that models are composed of so that neighbours can be fused:
// NVTE's transformer_engine.pytorch.ops.
//
// A BasicOperation is the smallest step with a gradient of its own. What it
// keeps between forward and backward is in a context of its own, also where a
// fused kernel computed it together with others (fusion.h): every forward,
// fused or not, leaves what every backward of the operation needs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "assay/te/fusible/saved_state.h"
#include "assay/te/fusible/value.h"
#include "assay/te/modules/linear_core.h"
#include "assay/te/modules/quantized_module.h"

namespace assay::te::ops {

class BasicOperation;

struct OperationContext {
  SavedState saved;
  bool input_requires_grad = true;
  // False: neither its input nor anything before it needs a gradient.
  bool needs_backward = true;
  std::function<void()> finish;  // QuantizedPass::backward_finish
};

// One operation in one forward. An operation fills extra_outputs and, where
// there is one, the context.
struct ForwardStep {
  BasicOperation* operation = nullptr;
  // Of operations with quantisers; outside of Autocast it does not quantise.
  const QuantizedPass* pass = nullptr;
  OperationContext* context = nullptr;  // null: inference
  LinearCall call;
  std::vector<Tensor> extra_inputs;
  std::vector<Tensor> extra_outputs;
  // The one after it in its group, where quantizes_result() and operations are
  // fused; else null.
  const ForwardStep* next = nullptr;

  bool training() const { return context != nullptr; }
  // What the next operation quantises its input with, directions set, for an
  // output of this shape; null: the output is wanted as a tensor.
  Quantizer* next_quantizer(const Shape& output) const;
};

// One operation in one backward. An operation fills extra_input_grads: one for
// each extra input, a default Tensor for integers.
struct BackwardStep {
  BasicOperation* operation = nullptr;
  OperationContext* context = nullptr;
  std::vector<Tensor> extra_output_grads;
  std::vector<Tensor> extra_input_grads;
  // The one before it in the order of the forward, likewise.
  const BackwardStep* previous = nullptr;

  // What the operation before quantises the gradient of its output with; null:
  // it is wanted as a tensor.
  Quantizer* previous_quantizer() const;
};

// Belongs to one thread at a time, as every module. Operations without GEMMs
// have no quantisers.
class BasicOperation : public QuantizedModule {
 public:
  // `type`: NVTE's name. `gemms`: products with quantisers of their own.
  explicit BasicOperation(std::string type, int gemms = 0,
                          std::string module_type = "linear");

  // Tensors beside the input and the output.
  virtual int num_extra_inputs() const { return 0; }
  virtual int num_extra_outputs() const { return 0; }
  // Quantisers that it uses (NVTE's num_quantizers).
  virtual int num_quantizers(Direction) const { return 0; }

  // The output for the input. Either may be quantised: an operation that
  // computes on values takes tensor_of(input).
  virtual Value forward(Value input, ForwardStep& step) = 0;
  // The gradient of the input for that of the output; those of parameters are
  // added to them. Uses the context up.
  virtual Value backward(Value grad, BackwardStep& step) = 0;

  // What quantises its input (output gradient), directions set; null where it
  // wants a tensor.
  virtual Quantizer* input_quantizer(const ForwardStep&, const Shape&) const {
    return nullptr;
  }
  virtual Quantizer* grad_quantizer(OperationContext&) const { return nullptr; }
  // Whether its result is quantised where the neighbour that gets it says how:
  // ForwardStep::next and BackwardStep::previous are set for these alone.
  virtual bool quantizes_result(Direction) const { return false; }

  bool has_gemms() const { return gemms_ > 0; }
  // Error{kUsage} for state where there are no quantisers.
  void check_extra_state(std::span<const NamedTensor> state) const override;

 private:
  int gemms_;
};

// Several basic operations under one name, such as Linear; a container takes
// them apart. NVTE's FusedOperation: children are "basic_ops.0" ...
class CompoundOperation : public Module {
 public:
  using Module::Module;
  const std::vector<BasicOperation*>& operations() const { return operations_; }

 protected:
  // In the order of the forward; they outlive this.
  void add_operation(BasicOperation& operation);

 private:
  std::vector<BasicOperation*> operations_;
};

}  // namespace assay::te::ops
