// A GPT over bytes: embedding, transformer layers with rotary positions, head.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "assay/te/modules/embedding.h"
#include "assay/te/modules/lm_head.h"
#include "assay/te/modules/recompute.h"
#include "assay/te/modules/rotary.h"
#include "assay/te/modules/transformer_layer.h"
#include "assay/te/ops/cross_entropy.h"
#include "assay/te/parallel/vocab_parallel.h"
#include "examples/train_gpt/corpus.h"
#include "examples/train_gpt/options.h"

namespace assay::train_gpt {

class Gpt : public te::Module {
 public:
  struct Context {
    te::TokenEmbedding::Context embedding;
    std::vector<te::TransformerLayer::Context> layers;
    std::vector<te::RecomputeContext<te::TransformerLayer>> recomputed;
    te::TransformerLayerCall call;
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
  Tensor forward_layer(std::size_t i, const Tensor& x, Context& context);
  Tensor backward_layer(std::size_t i, const Tensor& dy, Context& context);

  Options options_;
  te::TensorParallel tp_;
  te::TokenEmbedding embedding_;
  te::RotaryPositionEmbedding rotary_;
  std::vector<std::unique_ptr<te::TransformerLayer>> layers_;
  te::LmHead head_;
  te::VocabSlice slice_;  // of this rank, where the vocabulary is cut
};

}  // namespace assay::train_gpt
