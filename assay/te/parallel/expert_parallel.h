// Tokens to the ranks that have their experts, and their results back.
//
// Sources: NVTE ep.h and te.pytorch.ep_* (prepare, dispatch, combine and their
// gradients); Megatron-Core MoEAlltoAllTokenDispatcher. Of E experts rank r of
// n holds [r E / n, (r + 1) E / n). Rows move exactly (te/ops/permute.h sorts
// them, one all-to-all carries them); the copies of a token are summed on its
// own rank in the order of one process. All of this gives the bits of one
// process that has the tokens of rank 0, then rank 1 ... in one tensor.
//
// Ranks may have different numbers of tokens, none too; an expert may get none.
// Everything here is collective: an Error that concerns one rank is thrown on
// all. Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "assay/te/ops/permute.h"
#include "assay/te/parallel/communicator.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// Where the rows of one routing go: NVTE's handle of a buffer.
struct EpPlan {
  std::int64_t experts = 0, local_experts = 0;
  RowMap map;  // this rank's tokens, sorted by expert of all ranks
  std::vector<std::int64_t> send_counts, receive_counts;  // rows by rank
  // Received rows, chunk s * local_experts + e from rank s for local expert e;
  // and the chunks in the order of experts, of ranks within one.
  std::vector<std::int64_t> chunks, order;
  // Of each local expert: rows, and rows after padding to the alignment.
  std::vector<std::int64_t> tokens_per_expert, padded_tokens_per_expert;
  std::int64_t rows = 0;  // of a dispatched tensor, padding included
};

// `routing`: bool or u8 [T, E], non-zero where token t goes to expert e, or i32
// or i64 [T, K], the expert of each choice, -1 for none. E is a multiple of
// the ranks. `alignment` > 0: the rows of each local expert are padded to a
// multiple of it, with zeros. Throws Error{kUsage} for an expert that is none.
EpPlan ep_prepare(const Tensor& routing, std::int64_t experts,
                  Communicator& group, std::int64_t alignment = 0);

// tokens [T, H] of any dtype to [plan.rows, H] by local expert. `probs` [T, W]
// (W: E or K) go along: a row whose probability is 0 arrives as zeros, as
// moe_permute_forward has it.
Permuted ep_dispatch_forward(const Tensor& tokens, const EpPlan& plan,
                             Communicator& group,
                             const std::optional<Tensor>& probs = {});
// d_rows [plan.rows, H], the gradient of every copy, to that of the tokens;
// d_probs [plan.rows] to [T, W].
PermuteGradients ep_dispatch_backward(const Tensor& d_rows, const EpPlan& plan,
                                      Communicator& group,
                                      const std::optional<Tensor>& d_probs = {},
                                      MergeOptions options = {});

struct EpDispatchedCodes {
  QuantizedTensor rows;  // [plan.rows, H], rowwise; padding: zero bytes
  Tensor probs;          // [plan.rows]. May be empty
};
// The same with the tokens' codes and scales: what quantising the dispatched
// rows gives, bit for bit (but for scales of rows that a zero probability or
// padding makes zero). Tokens are quantised once, row-wise, before they are
// copied. Block scales along the row (MXFP8, block 128) travel with their
// rows; one scale of the tensor (current and delayed scaling, NVFP4's amax)
// must be that of every rank, else Error{kUsage}: reduce the amax over the
// group. What the quantiser itself refuses is thrown on that rank alone; its
// usage stays what it was. The gradient is that of
// ep_dispatch_forward; for combine's gradient in codes, dispatch d_out.
EpDispatchedCodes ep_dispatch_quantized(
    const Tensor& tokens, const EpPlan& plan, Quantizer& quantizer,
    Communicator& group, const std::optional<Tensor>& probs = {});

struct EpCombined {
  Tensor out;   // [T, H]
  Tensor rows;  // [map.rows, H], what came back, for the gradient of the probs
};
// expert_out [plan.rows, H] (f32, bf16, f16) back to the tokens: the sum over a
// token's copies, each times its `merging_probs` [T, W] where given.
EpCombined ep_combine_forward(const Tensor& expert_out, const EpPlan& plan,
                              Communicator& group,
                              const std::optional<Tensor>& merging_probs = {},
                              MergeOptions options = {});

// d_out [T, H] to d expert_out [plan.rows, H], padding rows zero; with
// `merging_probs` also their gradient, for which `rows` of forward is needed.
UnpermuteGradients ep_combine_backward(
    const Tensor& d_out, const EpPlan& plan, Communicator& group,
    const std::optional<Tensor>& rows = {},
    const std::optional<Tensor>& merging_probs = {}, MergeOptions options = {});

}  // namespace assay::te
