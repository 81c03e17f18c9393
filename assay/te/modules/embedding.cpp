#include "assay/te/modules/embedding.h"

#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"
#include "assay/te/modules/parameter_init.h"
#include "assay/te/ops/residual.h"
#include "assay/te/ops/transpose.h"
#include "assay/te/parallel/collectives.h"

namespace assay::te {

EmbeddingTable::EmbeddingTable(std::string name, Parameter weight)
    : Module("Embedding", std::move(name)),
      weight_(add_parameter("weight", std::move(weight))) {}

void TokenEmbedding::Context::visit_tensors(const TensorVisitor& visit) const {
  for (const Tensor* t : {&ids, &positions, &mask})
    if (t->view.data) visit(*t);
}

TokenEmbedding::TokenEmbedding(std::int64_t vocab_size,
                               std::int64_t hidden_size,
                               const TokenEmbeddingOptions& options)
    : Module("TokenEmbedding", options.name),
      vocab_size_(vocab_size),
      options_(options) {
  require(vocab_size > 0, name(), "vocab_size", std::to_string(vocab_size),
          "a positive size");
  require(hidden_size > 0, name(), "hidden_size", std::to_string(hidden_size),
          "a positive size");
  require(options.max_sequence_length >= 0, name(), "max_sequence_length",
          std::to_string(options.max_sequence_length), "0 or more");
  require_value(options.embedding_dropout >= 0 && options.embedding_dropout < 1,
                name(), "embedding_dropout", options.embedding_dropout,
                "at least 0 and below 1");
  require(!cuts_sequence() || options.format != QkvFormat::kThd, name(),
          "sequence_parallel", "true with thd", "sbhd or bshd");
  const int ranks = options.tp.size(), rank = options.tp.rank();
  slice_.rows = shard_size(name(), "vocab_size", vocab_size, ranks);
  slice_.offset = rank * slice_.rows;
  slice_.vocab_size = vocab_size;
  const InitMethod init =
      options.init_method ? options.init_method : normal_init(0.023);
  const auto table = [&](std::int64_t rows) {
    return initialised(options.params_dtype, {rows, hidden_size},
                       options.device, init);
  };
  Parameter words = make_parameter(cut(table(vocab_size), 0, ranks, rank));
  words.tensor_model_parallel = options.tp.group != nullptr;
  words.partition_dim = options.tp.group ? 0 : -1;
  word_ = std::make_unique<EmbeddingTable>(name() + ".word_embeddings",
                                           std::move(words));
  add_child("word_embeddings", *word_);
  if (options.max_sequence_length == 0) return;
  Parameter positions = make_parameter(table(options.max_sequence_length));
  positions.sequence_parallel = cuts_sequence();
  position_ = std::make_unique<EmbeddingTable>(name() + ".position_embeddings",
                                               std::move(positions));
  add_child("position_embeddings", *position_);
}

// [b, s] in the order of the result's first dimensions.
Tensor TokenEmbedding::ordered(const Tensor& ids, const char* what) const {
  require_dtype(name(), what, ids, {DType::kI32, DType::kI64});
  require_rank(name(), what, ids, options_.format == QkvFormat::kThd ? 1 : 2);
  return options_.format == QkvFormat::kSbhd ? swap_first_dims(ids) : ids;
}

Tensor TokenEmbedding::positions_of(const Tensor& ids,
                                    const std::optional<Tensor>& given) const {
  Tensor positions;
  if (given) {
    require_shape(name(), "position_ids", *given, ids.shape());
    positions = ordered(*given, "position_ids");
  } else {
    Tensor counted = Tensor::empty(DType::kI64, ids.shape(), ids.device);
    const std::int64_t length = ids.shape().back();
    auto* to = counted.mutable_data<std::int64_t>();
    for (std::int64_t i = 0; i < counted.numel(); ++i) to[i] = i % length;
    positions = ordered(counted, "position_ids");
  }
  return cuts_sequence() ? slice_first_dim(positions, *options_.tp.group)
                         : positions;
}

VocabParallelEmbeddingOptions TokenEmbedding::cut_options() const {
  VocabParallelEmbeddingOptions o;
  o.slice = slice_;
  o.sequence_parallel = cuts_sequence();
  return o;
}

Tensor TokenEmbedding::forward(const Tensor& ids, Context* context,
                               const std::optional<Tensor>& position_ids) {
  require(position_ || !position_ids, name(), "position_ids", "given",
          "none without position embeddings");
  const Tensor rows = ordered(ids, "ids");
  const Tensor words = values_of(word_weight());
  Tensor x = is_cut() ? vocab_parallel_embedding_forward(
                            words, rows, cut_options(), *options_.tp.group)
                      : embedding_forward(words, rows);
  Tensor positions;
  if (position_) {
    positions = positions_of(ids, position_ids);
    x = residual_add(
        x, embedding_forward(values_of(position_->weight()), positions));
  }
  if (context) {
    *context = {.ids = rows, .positions = positions, .mask = {}};
    if (options_.embedding_dropout > 0) {
      std::optional<RandomScope> scope;
      if (cuts_sequence()) scope.emplace(kModelParallelRandom);
      auto dropped =
          dropout_forward(x, static_cast<float>(options_.embedding_dropout),
                          next_dropout_state());
      x = std::move(dropped.y);
      context->mask = std::move(dropped.mask);
    }
  }
  observe(*this, "output", x);
  return x;
}

void TokenEmbedding::accumulate(Parameter& table, const Tensor& d,
                                const Tensor& ids, bool vocab_parallel) {
  if (!table.requires_grad) return;
  const bool fused = options_.fuse_wgrad_accumulation && table.main_grad;
  std::optional<Tensor>& sum = fused ? table.main_grad : table.grad;
  if (!sum) sum = Tensor::zeros(table.dtype, table.shape, table.device);
  if (vocab_parallel) {
    vocab_parallel_embedding_backward_accumulate(d, ids, *sum, cut_options(),
                                                 *options_.tp.group);
  } else {
    embedding_backward_accumulate(d, ids, *sum);
  }
  table.grad_added_to_main_grad |= fused;
}

void TokenEmbedding::backward(const Tensor& d_output, Context& context) {
  require(!context.ids.shape().empty(), name(), "context",
          "not of a forward pass, or used up", "that of one");
  const Tensor d =
      context.mask.view.data
          ? dropout_backward(d_output, context.mask,
                             static_cast<float>(options_.embedding_dropout))
          : d_output;
  if (position_) accumulate(position_->weight(), d, context.positions, false);
  accumulate(word_weight(), d, context.ids, is_cut());
  context = {};
}

}  // namespace assay::te
