#include "examples/train_gpt/gpt.h"

#include <cmath>

namespace assay::train_gpt {

using namespace te;

namespace {

constexpr double kSigma = 0.02;

TokenEmbeddingOptions embedding_options(const Options& o,
                                        const TensorParallel& tp) {
  TokenEmbeddingOptions options;
  options.embedding_dropout = o.dropout;
  options.tp = tp;
  options.params_dtype = o.dtype();
  options.init_method = normal_init(kSigma);
  options.fuse_wgrad_accumulation = true;
  return options;
}

LmHeadOptions head_options(const Options& o, const TensorParallel& tp) {
  LmHeadOptions options;
  options.fp32_logits = true;
  options.tp = tp;
  options.params_dtype = o.dtype();
  options.init_method = normal_init(kSigma);
  options.fuse_wgrad_accumulation = true;
  return options;
}

CrossEntropyOptions mean_loss() {
  CrossEntropyOptions options;
  options.reduce_loss = true;
  return options;
}

}  // namespace

void Gpt::Context::visit_tensors(const TensorVisitor& visit) const {
  embedding.visit_tensors(visit);
  layers.visit_tensors(visit);
  expert_layers.visit_tensors(visit);
  head.visit_tensors(visit);
  visit(logits);
  visit(loss.stats);
}

Gpt::Gpt(const Options& o, TensorParallel tp)
    : Module("Gpt", ""),
      options_(o),
      tp_(std::move(tp)),
      embedding_(kVocabulary, o.hidden, embedding_options(o, tp_)),
      rotary_(o.hidden / o.heads),
      head_(o.hidden, kVocabulary, head_options(o, tp_)) {
  add_child("embedding", embedding_);
  for (int i = 0; i < o.layers; ++i) add_layer(i);
  add_child("head", head_);
  name_tree("");
  if (tp_.size() > 1) slice_ = vocab_slice(head_.weight().shape[0], *tp_.group);
}

void Gpt::add_layer(int i) {
  const std::string name = "layers." + std::to_string(i);
  const Options& o = options_;
  if (o.experts == 0) {
    add_child(name, layers_.add(std::make_unique<TransformerLayer>(
                        o.hidden, o.ffn, o.heads, layer_options(i + 1))));
    return;
  }
  const ExpertOptions experts{
      o.experts, o.topk,
      1.0 / static_cast<double>(o.microbatches * tp_.size())};
  add_child(name,
            expert_layers_.add(std::make_unique<ExpertLayer>(
                o.hidden, o.ffn, o.heads, layer_options(i + 1), experts)));
}

TransformerLayerOptions Gpt::layer_options(int number) const {
  TransformerLayerOptions options;
  options.num_gqa_groups = options_.kv_heads;
  options.hidden_dropout = options.attention_dropout = options_.dropout;
  options.init_method = normal_init(kSigma);
  options.output_layer_init_method = normal_init(
      kSigma / std::sqrt(2.0 * static_cast<double>(options_.layers)));
  options.layer_number = number;
  options.tp = tp_;
  options.set_parallel_mode = tp_.size() > 1;
  options.params_dtype = options_.dtype();
  options.fuse_wgrad_accumulation = true;
  return options;
}

TransformerLayerCall Gpt::layer_call(std::optional<bool> is_first_microbatch) {
  const Tensor angles = rotary_.forward(options_.seq);
  TransformerLayerCall call;
  call.rotary_pos_emb = RotaryPosEmb{angles, angles};
  call.is_first_microbatch = is_first_microbatch;
  call.checkpoint_core_attention =
      options_.recompute_mode() == Recompute::kSelective;
  return call;
}

double Gpt::forward(const Batch& batch, Context& context,
                    std::optional<bool> is_first_microbatch) {
  const bool recompute = options_.recompute_mode() == Recompute::kFull;
  context.layers.call = layer_call(is_first_microbatch);
  context.expert_layers.call = context.layers.call;
  Tensor x = embedding_.forward(batch.tokens, &context.embedding);
  x = layers_.forward(x, context.layers, recompute);
  x = expert_layers_.forward(x, context.expert_layers, recompute);
  context.logits = head_.forward(x, &context.head);
  context.loss =
      tp_.size() > 1
          ? vocab_parallel_cross_entropy_forward(context.logits, batch.targets,
                                                 mean_loss(), slice_, tp_.group)
          : cross_entropy_forward(context.logits, batch.targets, mean_loss());
  return static_cast<double>(context.loss.loss.data<float>()[0]);
}

void Gpt::backward(const Batch& batch, Context& context, double scale) {
  Tensor d_loss = Tensor::empty(DType::kF32, {1});
  constant_init(scale)(d_loss, 0);
  const Tensor d_logits =
      tp_.size() > 1
          ? vocab_parallel_cross_entropy_backward(d_loss, context.logits,
                                                  batch.targets, context.loss,
                                                  mean_loss(), slice_)
          : cross_entropy_backward(d_loss, context.logits, batch.targets,
                                   context.loss, mean_loss());
  Tensor d = head_.backward(d_logits, context.head);
  d = expert_layers_.backward(d, context.expert_layers);
  d = layers_.backward(d, context.layers);
  embedding_.backward(d, context.embedding);
}

}  // namespace assay::train_gpt
