// Embedding and cross entropy over a vocabulary that is cut across ranks.
//
// Sources: Megatron-Core VocabParallelEmbedding; NVTE parallel_cross_entropy.
// Rank r holds the entries that follow those of ranks 0 .. r - 1; ranks may
// hold different numbers, none too. Ids and targets are the same on every
// rank, which is checked (by a hash; an Error{kUsage} on all ranks names those
// that differ, as does one that any rank finds). Everything is collective but
// the backward functions that take no group.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "assay/te/ops/cross_entropy.h"
#include "assay/te/ops/embedding.h"
#include "assay/te/parallel/communicator.h"

namespace assay::te {

// Entries [offset, offset + rows) of `vocab_size` are this rank's.
struct VocabSlice {
  std::int64_t offset = 0, rows = 0, vocab_size = 0;
};
// From the number that each rank holds. Collective: asked once, kept.
VocabSlice vocab_slice(std::int64_t rows, Communicator& group);

struct VocabParallelEmbeddingOptions {
  VocabSlice slice;
  std::optional<std::int64_t> padding_id;  // as EmbeddingOptions has it
  // The result is this rank's part of the first dimension [s, ...] of the ids,
  // a multiple of the ranks: reduce-scattered instead of all-reduced.
  bool sequence_parallel = false;
  InternalPrecision precision = InternalPrecision::kF32;
};

// table [slice.rows, H], ids [...]: [..., H] (sequence parallel [s / n, ...,
// H]). One rank has a token's row and the others add zeros: the bits of one
// process, but that a -0 may come out as +0.
Tensor vocab_parallel_embedding_forward(
    const Tensor& table, const Tensor& ids,
    const VocabParallelEmbeddingOptions& options, Communicator& group);

// d_out as forward's result, the same on every rank (sequence parallel: its
// part, which is gathered first): the gradient of this rank's table, the bits
// of those rows in one process.
Tensor vocab_parallel_embedding_backward(
    const Tensor& d_out, const Tensor& ids,
    const VocabParallelEmbeddingOptions& options, Communicator& group);
// The same added to `gradient` [slice.rows, H] in place.
void vocab_parallel_embedding_backward_accumulate(
    const Tensor& d_out, const Tensor& ids, Tensor& gradient,
    const VocabParallelEmbeddingOptions& options, Communicator& group);

// te/ops/cross_entropy.h with logits [..., slice.rows]: vocab_offset,
// vocab_size and reducer of the options are set here. Maxima, sums of
// exponentials and the target's logit are reduced in fp32 in the order of the
// ranks; losses are the same bits on every rank and within 2e-6 of one
// process's.
CrossEntropyResult vocab_parallel_cross_entropy_forward(
    const Tensor& logits, const Tensor& target, CrossEntropyOptions options,
    const VocabSlice& slice, const std::shared_ptr<Communicator>& group);
// `logits` become the gradient for d_loss = 1, as there.
CrossEntropyResult vocab_parallel_cross_entropy_forward_in_place(
    Tensor& logits, const Tensor& target, CrossEntropyOptions options,
    const VocabSlice& slice, const std::shared_ptr<Communicator>& group);
// The gradient of this rank's logits. Nothing travels.
Tensor vocab_parallel_cross_entropy_backward(const Tensor& d_loss,
                                             const Tensor& logits,
                                             const Tensor& target,
                                             const CrossEntropyResult& forward,
                                             CrossEntropyOptions options,
                                             const VocabSlice& slice);

}  // namespace assay::te
