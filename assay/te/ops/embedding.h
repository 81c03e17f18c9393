// Rows of a table looked up by token, and the gradient of the table, over a
// vocabulary that may be cut across ranks.
//
// Sources: torch.nn.functional.embedding; Megatron-Core VocabParallelEmbedding
// for the slice. Forward copies rows exactly. Backward sums the rows of d_out
// that belong to one id in fp64, in the order of the tokens (operator
// "embedding": the other precisions are running sums), and rounds once.
// Results do not depend on the number of threads. Thread-safe. Strided inputs
// are made contiguous first. No tokens: an empty result, a zero gradient.
#pragma once

#include <cstdint>
#include <optional>

#include "assay/core/tensor.h"
#include "assay/numerics/internal_precision.h"

namespace assay::te {

struct EmbeddingOptions {
  // The table holds rows [vocab_offset, vocab_offset + rows) of a vocabulary
  // of vocab_size; ids outside that slice give zero rows and no gradient: the
  // rank that has them does. 0: the table is the whole vocabulary.
  std::int64_t vocab_offset = 0, vocab_size = 0;
  // An id whose row forward reads as any other and that has no gradient, as
  // torch's padding_idx; negative ones count from the end of the vocabulary.
  std::optional<std::int64_t> padding_id;
  InternalPrecision precision = InternalPrecision::kF32;
};

// table [rows, H] f32, bf16 or f16; ids [...] i32 or i64. Gives [..., H] in the
// table's dtype. An id that is not in [0, vocab_size) is an Error{kUsage} that
// names its place and value: nothing is read beyond the table.
Tensor embedding_forward(const Tensor& table, const Tensor& ids,
                         const EmbeddingOptions& options = {});

// d_out [..., H]: a fresh gradient [rows, H] in the dtype of d_out, zero where
// no token points.
Tensor embedding_backward(const Tensor& d_out, const Tensor& ids,
                          std::int64_t rows,
                          const EmbeddingOptions& options = {});

// The same added to `gradient` [rows, H] (f32, bf16 or f16, contiguous) in
// place: rows that a token points to become round(gradient + sum), the others
// are not touched.
void embedding_backward_accumulate(const Tensor& d_out, const Tensor& ids,
                                   Tensor& gradient,
                                   const EmbeddingOptions& options = {});

}  // namespace assay::te
