// A transformer layer whose MLP is a mixture of experts:
//   h = x + dropout(attention(norm(x)))      y = h + dropout(moe(norm(h)))
#pragma once

#include "assay/te/modules/moe.h"
#include "assay/te/modules/multihead_attention.h"
#include "assay/te/modules/norm.h"
#include "assay/te/modules/residual_branch.h"
#include "assay/te/modules/transformer_layer.h"

namespace assay::train_gpt {

struct ExpertOptions {
  std::int64_t experts = 1, topk = 1;
  // The gradient of the loss for one balancing loss: 1 over the number of
  // microbatches and ranks, which each add theirs.
  double d_balancing_loss = 1;
};

class ExpertLayer : public te::Module {
 public:
  struct Context {
    te::MultiheadAttention::Context self_attention;
    te::NormModule::Context norm;
    te::MoELayer::Context moe;
    te::ResidualBranch::Saved attention_branch, moe_branch;
    void visit_tensors(const te::TensorVisitor& visit) const;
  };
  struct Gradients {
    Tensor d_hidden_states;
  };

  // Children self_attention, pre_mlp_layernorm, mlp (Megatron-Core's names).
  // Of `options` what concerns attention, dropout and initial values. With
  // sequence parallelism the experts are spread over its group; without it
  // several ranks are refused, for each would have the same tokens.
  ExpertLayer(std::int64_t hidden_size, std::int64_t ffn_hidden_size,
              std::int64_t heads, const te::TransformerLayerOptions& options,
              const ExpertOptions& experts);

  Tensor forward(const Tensor& x, Context* context,
                 const te::TransformerLayerCall& call = {});
  Gradients backward(const Tensor& dy, Context& context);

 private:
  te::MultiheadAttention self_attention_;
  te::LayerNorm norm_;
  te::MoELayer moe_;
  te::ResidualBranch branch_;
  double d_balancing_loss_;
};

}  // namespace assay::train_gpt
