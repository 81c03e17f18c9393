// Embedding: what a model does with token ids before its first layer: rows of
// a table, positions added where they are learnt, dropout.
//
// Source: Megatron-Core LanguageModelEmbedding, whose parameter names these
// are. Rows are copied exactly; the sum with the position is formed in fp32
// and rounded once to the tables' dtype; dropout as te/ops/dropout.h. The
// gradient of a table sums the rows of one id in fp64, in the order of the
// tokens, and rounds once (te/ops/embedding.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "assay/te/modules/module.h"
#include "assay/te/modules/random.h"
#include "assay/te/modules/tensor_parallel_config.h"
#include "assay/te/ops/attention.h"
#include "assay/te/parallel/vocab_parallel.h"

namespace assay::te {

struct TokenEmbeddingOptions {
  std::int64_t max_sequence_length = 0;  // 0: no position embedding
  double embedding_dropout = 0;
  // Of the result: ids [b, s] give [s, b, h] or [b, s, h]; ids [t] give [t, h].
  QkvFormat format = QkvFormat::kSbhd;
  // The word table is cut along the vocabulary over the group. With sequence
  // parallelism (not thd) the result is this rank's part of the first
  // dimension, of which position embeddings give gradients of its tokens only.
  TensorParallel tp = {};
  DType params_dtype = DType::kF32;
  InitMethod init_method;  // absent: normal_init(0.023)
  bool fuse_wgrad_accumulation = false;
  Device device = Device::kCpu;
  std::string name = {};
};

// A table as a module: Megatron has "word_embeddings.weight".
class EmbeddingTable : public Module {
 public:
  EmbeddingTable(std::string name, Parameter weight);
  Parameter& weight() { return weight_; }

 private:
  Parameter& weight_;
};

class TokenEmbedding : public Module {
 public:
  struct Context {
    Tensor ids, positions;  // in the order of the result
    Tensor mask;            // of dropout
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // Children word_embeddings, with weight [vocab_size / tp_size, hidden_size],
  // and position_embeddings, with weight [max_sequence_length, hidden_size].
  // Throws Error{kUsage} for sizes that are not positive, and for a vocabulary
  // that is no multiple of the ranks: pad it.
  TokenEmbedding(std::int64_t vocab_size, std::int64_t hidden_size,
                 const TokenEmbeddingOptions& options = {});

  // ids (and position_ids, default 0 ... s - 1) int32 or int64 [b, s], thd [t].
  // An id out of range is an Error{kUsage} that names its place. `context`
  // null: inference, without dropout.
  Tensor forward(const Tensor& ids, Context* context = nullptr,
                 const std::optional<Tensor>& position_ids = std::nullopt);
  // Adds the gradients of the tables. `context` is used up.
  void backward(const Tensor& d_output, Context& context);

  // What a language model's output may share (lm_head.h).
  Parameter& word_weight() { return word_->weight(); }

 private:
  bool is_cut() const { return options_.tp.size() > 1; }
  bool cuts_sequence() const {
    return is_cut() && options_.tp.sequence_parallel;
  }
  Tensor ordered(const Tensor& ids, const char* what) const;
  Tensor positions_of(const Tensor& ids,
                      const std::optional<Tensor>& given) const;
  VocabParallelEmbeddingOptions cut_options() const;
  void accumulate(Parameter& table, const Tensor& d, const Tensor& ids,
                  bool vocab_parallel);

  std::int64_t vocab_size_;
  TokenEmbeddingOptions options_;
  VocabSlice slice_;
  std::unique_ptr<EmbeddingTable> word_, position_;
};

}  // namespace assay::te
