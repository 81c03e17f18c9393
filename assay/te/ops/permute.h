// Mixture of experts: tokens sorted by expert, and merged again.
//
// Sources: NVTE permutation (moe_permute, moe_unpermute,
// moe_permute_and_pad_with_probs, moe_sort_chunks_by_index), mask and index
// maps. Rows are copied exactly; sums over the copies of a token are formed
// in fp32 (operator "moe_unpermute") and rounded once to the dtype. Results do
// not depend on the number of threads. Thread-safe. Strided inputs are made
// contiguous first. Where a token goes nowhere its merged row is zero.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "assay/core/tensor.h"
#include "assay/numerics/internal_precision.h"

namespace assay::te {

// Where the rows go. T tokens, W columns of a token's probabilities: experts
// of a mask map, choices (top-k) of an index map.
struct RowMap {
  std::int64_t tokens = 0, width = 0;
  std::int64_t rows = 0;  // of the permuted tensor, padding included
  // i32 [T, 2W + 1]. The last element n of a token's row counts its copies; the
  // first n are their permuted rows, the n from W on the columns they belong
  // to. Unused elements are -1. Mask map: rows descending, as NVTE's kernel
  // sorts (and thus adds) them; index map: choices ascending.
  Tensor slots;
  Tensor source;  // i32 [rows]: the token of each permuted row, -1 for padding
  // Mask maps: i64 [W], rows of each expert without and with padding, both
  // after num_out_tokens has cut.
  Tensor tokens_per_expert, padded_tokens_per_expert;
};

// `routing_map` [T, E] bool or u8, non-zero where token t goes to expert e.
// Rows: experts in order, the tokens of an expert in order. `num_out_tokens`
// < 0: as many rows as routed; else exactly as many: routed rows beyond it are
// dropped, missing ones are padding. With `alignment` > 0 each expert's rows
// are padded to a multiple of it (num_out_tokens must be negative then).
RowMap row_map_from_mask(const Tensor& routing_map,
                         std::int64_t num_out_tokens = -1,
                         std::int64_t alignment = 0);

// `indices` [T, K] i32 or i64: the expert of each choice, -1 for none; other
// negative ones are an Error{kUsage}. Rows: a stable sort of the flattened
// indices, as torch.argsort(stable=True) gives it. `num_out_tokens` as above.
RowMap row_map_from_indices(const Tensor& indices,
                            std::int64_t num_out_tokens = -1);

struct Permuted {
  Tensor rows;   // [map.rows, H], dtype of the tokens; padding rows zero
  Tensor probs;  // [map.rows], dtype of the probs; padding zero. May be empty
};

// tokens [T, H] of any dtype (FP8 codes, or the scales of block-scaled rows,
// too). `probs` [T, W]: permuted along; a row whose probability is 0 is then
// written as zeros, as NVTE does: such slots pad a routing map.
Permuted moe_permute_forward(const Tensor& tokens, const RowMap& map,
                             const std::optional<Tensor>& probs = {});

struct MergeOptions {
  InternalPrecision precision = InternalPrecision::kF32;
};

struct PermuteGradients {
  Tensor tokens;  // [T, H]
  Tensor probs;   // [T, W], zero where not routed. May be empty
};

// d_rows [map.rows, H] f32, bf16, f16: the sum over a token's copies. With
// `d_probs` [map.rows] also the gradient of the probabilities.
PermuteGradients moe_permute_backward(const Tensor& d_rows, const RowMap& map,
                                      const std::optional<Tensor>& d_probs = {},
                                      MergeOptions options = {});

// rows [map.rows, H] to [T, H]: sum over copies of weight * row, weight 1 or
// `merging_probs` [T, W] (f32, bf16, f16, widened to fp32).
Tensor moe_unpermute_forward(const Tensor& rows, const RowMap& map,
                             const std::optional<Tensor>& merging_probs = {},
                             MergeOptions options = {});

struct UnpermuteGradients {
  Tensor rows;           // [map.rows, H], padding rows zero
  Tensor merging_probs;  // [T, W], zero where not routed. May be empty
};

// d_out [T, H]. With `merging_probs` the input `rows` of the forward pass is
// needed: d_rows = prob * d_out, d_prob = <d_out, row> in fp32.
UnpermuteGradients moe_unpermute_backward(
    const Tensor& d_out, const RowMap& map,
    const std::optional<Tensor>& rows = {},
    const std::optional<Tensor>& merging_probs = {}, MergeOptions options = {});

// x [sum of split_sizes, H] cut into chunks of rows; chunk `order[i]` becomes
// the i-th. `order` is a permutation, else Error{kUsage}. With `probs` [rows]
// those too. Any dtype.
Permuted moe_sort_chunks_forward(const Tensor& x,
                                 std::span<const std::int64_t> split_sizes,
                                 std::span<const std::int64_t> order,
                                 const std::optional<Tensor>& probs = {});

// The inverse: gradients back in the order of the input.
Permuted moe_sort_chunks_backward(const Tensor& d_out,
                                  std::span<const std::int64_t> split_sizes,
                                  std::span<const std::int64_t> order,
                                  const std::optional<Tensor>& d_probs = {});

}  // namespace assay::te
