// Consecutive operations, run as the fusion rules say: NVTE's OperationFuser.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assay/te/fusible/fusion.h"

namespace assay::te::ops {

class OperationGroup {
 public:
  struct Context {
    std::vector<OperationContext> operations;
    std::shared_ptr<const Recipe> recipe;  // null: nothing was quantised
    void visit_tensors(const TensorVisitor& visit) const;
  };

  explicit OperationGroup(std::vector<BasicOperation*> operations)
      : operations_(std::move(operations)) {}

  // `fuse` false: every operation by itself, and nothing is quantised but by
  // the operation whose GEMM reads it.
  struct Options {
    LinearCall call;
    bool fuse = true;
  };
  // Takes as many extra inputs as the operations have from the front of
  // `extra_inputs`; adds extra outputs behind. A null context is inference.
  Tensor forward(const Tensor& x, std::span<const Tensor>& extra_inputs,
                 std::vector<Tensor>& extra_outputs, Context* context,
                 const Options& options);
  // Extra gradients are taken from the back of the span, those of extra inputs
  // go in front: groups run backwards. Without elements where no gradient of
  // the input is needed. Uses the context up.
  Tensor backward(const Tensor& dy, std::span<const Tensor>& extra_grads,
                  std::vector<Tensor>& extra_input_grads, Context& context,
                  bool fuse);

  // Appends one line for each operation or fused ones, in the order in which
  // the pass runs them: "  RMSNorm, quantises for BasicLinear".
  void describe(Direction direction, const Recipe* recipe, bool fuse,
                std::string& out) const;

  int num_extra_inputs() const;
  int num_extra_outputs() const;
  // Whether any of them has parameters that want gradients or extra inputs.
  bool has_gradients() const;

 private:
  std::vector<BasicOperation*> operations_;
};

}  // namespace assay::te::ops
