// A mixture of experts: a router, and experts fc2(act(fc1(x))) of which every
// token goes to the topk best.
//
//   logits = fp32(x) Wr^T, in fp32            (Megatron-Core's router)
//   probs, map = topk of their scores          (te/ops/router.h)
//   rows sorted by expert, padded with zeros   (te/parallel/expert_parallel.h)
//   h = fc1(rows), a = act(h), o = fc2(a)      (grouped_linear.h)
//   y[t] = sum over t's experts e of probs[t, e] o[row of t and e]
//
// The sum is formed in fp32 and rounded once. Groups are padded to what the
// recipe of the Autocast scope quantises, else not at all. The gradient of the
// input is that through the experts, rounded to x's dtype, plus that through
// the logits, added in fp32 and rounded again.
//
// Kept for backward: x, h and o (which the gradient of the probabilities
// needs), and the router's scores. The activation, and on one process the
// sorted rows, are made again, as are their codes; rows that came from other
// ranks are kept as fc1 takes them.
//
// Experts may be spread over a group of ranks (expert parallelism): then every
// call is collective, and all is, bit for bit, what one process computes with
// the tokens of rank 0, rank 1 ... one below the other. The router's weight is
// on every rank, its gradient of this rank's tokens: to be summed by the
// caller.
#pragma once

#include <optional>
#include <string>

#include "assay/te/modules/grouped_linear.h"
#include "assay/te/ops/activation.h"
#include "assay/te/ops/router.h"
#include "assay/te/parallel/expert_parallel.h"

namespace assay::te {

struct MoEOptions {
  std::int64_t num_experts = 1;  // of all ranks
  RouterOptions router = {};     // topk, score function ...
  // Of the balancing loss of this rank's tokens; 0: none is computed.
  double aux_loss_coeff = 0;
  Activation activation = Activation::kSwiglu;
  ActivationParams activation_params = {};
  bool bias = false;                    // of fc1 and fc2
  DType params_dtype = DType::kF32;     // the router's weight is float32 always
  InitMethod init_method;               // absent: normal_init(0.023)
  InitMethod output_layer_init_method;  // fc2's; absent: init_method
  bool single_grouped_weight = false;
  bool fuse_wgrad_accumulation = false;
  bool delay_wgrad_compute = false;
  std::shared_ptr<Communicator> expert_parallel_group = {};  // null: alone
  Device device = Device::kCpu;
  std::string name = {};
};

struct MoEOutput {
  Tensor output;
  Tensor aux_loss;           // f32 [1]; 0 without a coefficient or tokens
  Tensor tokens_per_expert;  // i32 [num_experts], of this rank's tokens
};

class MoELayer : public Module {
 public:
  struct Context {
    Tensor x;  // [T, hidden]
    RouterOutput routed;
    std::optional<Tensor> aux_saved;
    EpPlan plan;
    GroupedLinear::Context fc1, fc2;
    Tensor h;     // fc1's output
    Tensor rows;  // fc2's output, of this rank's tokens
    Shape shape;
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // router.weight [num_experts, hidden]; experts.fc1.weight{i} [ffn, hidden]
  // (gated activations: [2 ffn, hidden], gate first) and experts.fc2.weight{i}
  // [hidden, ffn] of this rank's experts, and biases. Initial values do not
  // depend on the number of ranks. Throws Error{kUsage} for sizes that are not
  // positive, experts that the ranks do not divide.
  MoELayer(std::int64_t hidden_size, std::int64_t ffn_hidden_size,
           const MoEOptions& options);

  // x [..., hidden] to the same shape. `context` null: inference.
  MoEOutput forward(const Tensor& x, Context* context = nullptr,
                    const LinearCall& call = {});
  // dy of x's shape to dx; `d_aux_loss` is the gradient of the loss for the
  // balancing loss (a loss scale, or 0). `context` is used up.
  Tensor backward(const Tensor& dy, Context& context, double d_aux_loss = 1);

  bool need_backward_dw() const override {
    return fc1_->need_backward_dw() || fc2_->need_backward_dw();
  }
  std::int64_t num_local_experts() const { return local_experts_; }

 private:
  // Of parameters without computations of their own.
  struct Holder : Module {
    explicit Holder(const char* type) : Module(type, "") {}
    using Module::add_child;
    using Module::add_parameter;
  };
  Tensor aux_loss(const Tensor& logits, const RouterOutput& routed,
                  Context* context) const;
  Tensor grad_of_logits(const Tensor& d_probs, const Context& context,
                        double d_aux_loss) const;
  AuxLossOptions aux_options(std::int64_t tokens) const;

  MoEOptions options_;
  ActivationOptions activation_;
  std::int64_t hidden_, local_experts_ = 0;
  std::shared_ptr<Communicator> group_;
  Holder router_{"Router"}, experts_{"Experts"};
  Parameter* router_weight_ = nullptr;
  std::optional<GroupedLinear> fc1_, fc2_;
};

}  // namespace assay::te
