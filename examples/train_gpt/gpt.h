// A GPT over bytes: embedding, transformer layers with rotary positions, head.
#pragma once

#include <optional>

#include "assay/te/modules/embedding.h"
#include "assay/te/modules/lm_head.h"
#include "assay/te/modules/rotary.h"
#include "assay/te/ops/cross_entropy.h"
#include "assay/te/parallel/vocab_parallel.h"
#include "examples/train_gpt/corpus.h"
#include "examples/train_gpt/expert_layer.h"
#include "examples/train_gpt/layer_stack.h"
#include "examples/train_gpt/options.h"

namespace assay::train_gpt {

class Gpt : public te::Module {
 public:
  struct Context {
    te::TokenEmbedding::Context embedding;
    LayerStack<te::TransformerLayer>::Context layers;
    LayerStack<ExpertLayer>::Context expert_layers;
    te::LmHead::Context head;
    Tensor logits;
    te::CrossEntropyResult loss;
    void visit_tensors(const te::TensorVisitor& visit) const;
  };

  // Weights of standard deviation 0.02, those that end a residual branch
  // 0.02 / sqrt(2 layers), biases 0 (GPT-2); drawn from the random state of
  // now, the same for any number of ranks.
  Gpt(const Options& options, te::TensorParallel tp);

  // The mean cross entropy of a batch, in nats a byte.
  double forward(const Batch& batch, Context& context,
                 std::optional<bool> is_first_microbatch);
  // Adds `scale` times the gradients. `context` is used up.
  void backward(const Batch& batch, Context& context, double scale);

 private:
  te::TransformerLayerOptions layer_options(int number) const;
  void add_layer(int i);
  te::TransformerLayerCall layer_call(std::optional<bool> is_first_microbatch);

  Options options_;
  te::TensorParallel tp_;
  te::TokenEmbedding embedding_;
  te::RotaryPositionEmbedding rotary_;
  LayerStack<te::TransformerLayer> layers_;  // without --experts
  LayerStack<ExpertLayer> expert_layers_;    // with
  te::LmHead head_;
  te::VocabSlice slice_;  // of this rank, where the vocabulary is cut
};

}  // namespace assay::train_gpt
