// Packed sequences ("thd": tokens of all sequences back to back) cut for
// context parallelism, and padded to one length.
//
// Source: NVTE fused_attn.h (cp_thd_get_partitioned_indices, thd_read_half,
// thd_sequence_order_to_cp_rank_order and back, convert_thd_to_bshd and back).
// `cu_seqlens` i32 [B + 1]: 0, then the running sum of lengths, not
// descending. Copies, exact, any dtype of whole rows. Thread-safe. Strided
// inputs are made contiguous first.
#pragma once

#include <cstdint>

#include "assay/core/tensor.h"

namespace assay::te {

// The tokens of rank `rank` of `world`: each sequence in 2 world chunks of
// equal length, of which the rank has chunk `rank` and chunk 2 world - 1 - rank
// (so that causal work is shared evenly). i32 [T / world]. Throws Error{kUsage}
// where a length is no multiple of 2 world.
Tensor thd_partition_indices(const Tensor& cu_seqlens, std::int64_t world,
                             std::int64_t rank);

// x [T, ...] in the order of sequences to the order of ranks (rank 0's tokens,
// then rank 1's ...), and back.
Tensor thd_to_rank_order(const Tensor& x, const Tensor& cu_seqlens,
                         std::int64_t world);
Tensor thd_from_rank_order(const Tensor& x, const Tensor& cu_seqlens,
                           std::int64_t world);

// The first (half 0) or second half of every sequence, [T / 2, ...]. Lengths
// must be even.
Tensor thd_read_half(const Tensor& x, const Tensor& cu_seqlens, int half);

// [T, ...] to [B, max_length, ...], zeros behind shorter sequences; and back.
Tensor thd_to_bshd(const Tensor& x, const Tensor& cu_seqlens,
                   std::int64_t max_length);
Tensor bshd_to_thd(const Tensor& x, const Tensor& cu_seqlens);

}  // namespace assay::te
