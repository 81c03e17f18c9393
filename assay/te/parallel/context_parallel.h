// Attention over sequences that are cut across the ranks of a group.
//
// Sources: NVTE context_parallel.py and DotProductAttention.set_context_
// parallel_group; Ring Attention (Liu et al., arXiv:2310.01889); DeepSpeed
// Ulysses (Jacobs et al., arXiv:2309.14509) for a2a. Of the 2 n chunks of each
// sequence rank r of n holds chunks r and 2 n - 1 - r, in this order, which
// evens out causal work: rows [s / n, ...] of sbhd, [b, s / n, ...] of bshd,
// and of thd what thd_partition_indices (te/ops/sequence.h) lists. Lengths in
// cu_seqlens are those of whole sequences, every padded one a multiple of 2 n
// (sbhd, bshd: s is; padding masks give the valid tokens of each sequence);
// chunks may hold no valid token at all.
//
// What travels, by cp_comm_type:
//   p2p         k and v go round a ring while the block present is computed;
//               results over the blocks are merged by their log-sum-exp. In
//               backward the fp32 gradients of k and v follow them round.
//   all_gather  k and v of all ranks to each; each query has one call, so
//               nothing is merged. Gradients of k and v are reduce-scattered
//               in fp32.
//   a2a         all heads of a part of the sequence become a part of the heads
//               of all of it; heads of q and of k are multiples of n.
// Masks none, padding, causal, padding_causal (the bottom-right ones where
// queries are as many as keys, where they are the same); windows, ALiBi, sinks
// and dropout are those of the whole sequence. Refused: arbitrary masks, pre-
// and post-scale biases, dropout with a2a.
//
// Rounding, beside that of attention itself (te/ops/attention.h): p2p rounds
// each block's out to the dtype, merges in fp32 (each merge formed in fp64)
// and rounds the sum once: within u sum_s w_s |out_s| + u |out| of one call's,
// u the roundoff of the dtype and w_s <= 1, sum 1, the blocks' weights, which
// carry the fp32 rounding of both lse (|lse| 2^-24 each). Its
// gradients are sums, in fp32 in ring order, of blocks' gradients in the
// dtype, rounded once. all_gather sums the two calls of a rank and then the
// ranks the same way for dk and dv. a2a gives the bits of one call on the
// heads of the rank. Bits depend on the number of ranks (but not of threads).
#pragma once

#include <optional>
#include <string_view>

#include "assay/te/ops/attention.h"
#include "assay/te/parallel/communicator.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

enum class CpCommType : std::uint8_t { kP2P, kAllGather, kA2A };

// "p2p", "all_gather", "a2a"; throws Error{kUsage} for others, "a2a+p2p" too.
CpCommType parse_cp_comm_type(std::string_view text);

struct ContextParallelOptions {
  CpCommType comm = CpCommType::kP2P;
  // Not null: k and v [tokens, heads * dim] are quantised once, row-wise, and
  // their codes and scales travel; every rank, the one they come from too,
  // uses the decoded values. Gradients are those of the decoded values. p2p
  // and all_gather only. Used in forward alone, so that its state moves once.
  Quantizer* kv_quantizer = nullptr;
};

struct ContextParallelResult {
  AttentionResult attention;  // of the rank's queries; max_logit: of all ranks'
  // What travelled, of the rank's own keys; backward needs it where it is.
  std::optional<QuantizedTensor> k, v;
};

// `inputs` are the rank's parts, in one format for q, k and v. Collective: all
// ranks give the same options, cu_seqlens and shapes; shapes and dtypes that
// differ are an Error{kUsage} on every rank.
ContextParallelResult context_parallel_forward(const AttentionInputs& inputs,
                                               const AttentionOptions& options,
                                               const ContextParallelOptions& cp,
                                               Communicator& group);

// Gradients of the rank's q, k and v; d_softmax_offset is the sum over all
// ranks. Collective.
AttentionGradients context_parallel_backward(
    const Tensor& d_out, const AttentionInputs& inputs,
    const ContextParallelResult& forward, const AttentionOptions& options,
    const ContextParallelOptions& cp, Communicator& group);

}  // namespace assay::te
