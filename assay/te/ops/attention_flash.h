// Tiled attention: linear memory, logits recomputed in backward.
//
// Online softmax over tiles of 64 keys by up to 64 queries (Dao et al.,
// "FlashAttention", 2022; backward as in "FlashAttention-2", 2023). Rounding
// points, with T the element type of the tiles (kernels/attention_tiles.h;
// bf16 inputs: bf16 where the machine has a bf16 unit, else fp32):
//   logits and dP in fp32; p against the running maximum, summed in fp32 and
//   rounded to T for the product with v; backward: p and dS rounded to T; all
//   products summed in fp32; out rounded once.
// Logits are natural; the maximum (backward: lse) is subtracted before log2(e)
// multiplies, so that the greatest logit weighs 1 however great it is. Backward
// rebuilds p from the fp32 lse that forward stored: beside the error of the
// logits themselves, each p then has a relative error of |lse| * 2^-24 (6e-4
// at |lse| = 1e4), which dv and dS inherit. From |lse| = 2^24 lse holds the
// maximum alone: keys that share it each get p = 1. A row whose logits are all
// -inf has no weight: zero out, lse -inf, no gradient, as a row without keys.
// A head of bf16 whose operands hold a NaN, an infinity or a subnormal runs in
// fp32 tiles: the bf16 units flush subnormals, and only fp32 tiles leave
// excluded pairs out of a product. In forward it is that head alone; in
// backward one such head takes every head of the call to fp32 tiles with it.
// What bf16 units still flush is below 2^-126 of p, dS or a sum. The bits do
// not depend on the number of threads.
#pragma once

#include <span>

#include "assay/kernels/attention.h"
#include "assay/kernels/attention_tiles.h"

namespace assay::te {

// One output a head. Heads that share k and v should follow each other.
void flash_attention_forward(const AttentionTileChoice& tiles,
                             std::span<const AttentionHead> heads,
                             std::span<const AttentionOutput> outputs);

// One gradient a head. Heads that share d_bias should follow each other: they
// run one after the other.
void flash_attention_backward(const AttentionTileChoice& tiles,
                              std::span<const AttentionHead> heads,
                              std::span<const AttentionGradient> gradients);

}  // namespace assay::te
