// LmHead: the end of a language model: the final norm and the projection onto
// the vocabulary, whose weight may be that of the embedding.
//
// Source: Megatron-Core GPTModel (final_layernorm, output_layer,
// share_embeddings_and_output_weights); the names are its. The projection is
// computed in high precision whatever the scope of Autocast, as Megatron does:
// logits = norm(x) W^T, summed in fp32, rounded once to the activations' dtype
// or left in fp32. In backward fp32 gradients are rounded to the activations'
// dtype before they are multiplied.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "assay/te/modules/norm.h"
#include "assay/te/modules/random.h"
#include "assay/te/modules/tensor_parallel_config.h"

namespace assay::te {

struct LmHeadOptions {
  bool final_layernorm = true;
  Normalization normalization = Normalization::kLayerNorm;
  float layernorm_epsilon = 1e-5f;
  bool zero_centered_gamma = false;
  bool fp32_logits = false;
  // The weight is cut along the vocabulary over the group: logits [...,
  // vocab_size / tp_size]. With sequence parallelism x is this rank's rows of
  // the first dimension, logits are of all.
  TensorParallel tp = {};
  // The embedding's weight (TokenEmbedding::word_weight()), of this rank; it
  // outlives the module. There is then no output_layer.weight.
  Parameter* shared_weight = nullptr;
  DType params_dtype = DType::kF32;
  InitMethod init_method;  // absent: normal_init(0.023)
  bool fuse_wgrad_accumulation = false;
  Device device = Device::kCpu;
  std::string name = {};
};

class LmHead : public Module {
 public:
  struct Context {
    NormModule::Context norm;
    Tensor x;  // what is projected, of all rows
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // Children final_layernorm and, unless it is shared, output_layer with weight
  // [vocab_size / tp_size, hidden_size]. Throws Error{kUsage} for sizes that
  // are not positive, cannot be cut, or are not those of the shared weight.
  LmHead(std::int64_t hidden_size, std::int64_t vocab_size,
         const LmHeadOptions& options = {});
  ~LmHead() override;

  // x [..., hidden], of the weight's dtype. `context` null: inference.
  Tensor forward(const Tensor& x, Context* context = nullptr);
  // d_logits of the logits' dtype to dx; gradients are added to the
  // parameters, a shared weight's to what it has. `context` is used up.
  Tensor backward(const Tensor& d_logits, Context& context);

  Parameter& weight() { return *weight_; }

 private:
  class OutputLayer;
  Tensor input_grad(const Tensor& dy) const;
  void add_weight_grad(const Tensor& dy, const Tensor& x);

  std::int64_t hidden_size_;
  LmHeadOptions options_;
  std::unique_ptr<NormModule> norm_;
  std::unique_ptr<OutputLayer> output_layer_;
  Parameter* weight_ = nullptr;
};

}  // namespace assay::te
