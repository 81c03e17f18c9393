// Products of rows that other ranks have, or want: gather + GEMM and GEMM +
// reduce-scatter, one after the other or each piece on its way while the next
// is multiplied.
//
// Source: NVTE's communication overlap (ub_overlap_ag, ub_overlap_rs; methods
// ring_exchange and pipeline). Rows are independent of one another, and parts
// are summed in the order of the ranks as ever, so every method gives the bits
// of kNone, with one exception: the GEMM kernels choose their unit by the
// values of a whole product (kernels/gemm.h), and a piece may hold none of the
// tiny elements that make the whole leave the bf16 unit.
//
// Transfers are moved on by a thread of their own (background.h): time is
// gained where the machine has a core for it, or a network that needs none.
// Pieces are whole products: shorter ones multiply a little more slowly.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "assay/te/ops/gemm.h"
#include "assay/te/parallel/communicator.h"

namespace assay::te {

enum class OverlapMethod : std::uint8_t {
  kNone,
  // A piece for each rank. Gather: the piece that is there is multiplied while
  // it goes on to the next rank and one arrives from the previous. Scatter: the
  // piece of the next rank first, one's own last.
  kRingExchange,
  // Scatter alone: each rank's piece in num_splits.
  kPipeline,
};
// "none", "ring_exchange" or "pipeline"; Error{kUsage} for anything else.
OverlapMethod parse_overlap_method(std::string_view text);

struct GemmOverlap {
  OverlapMethod method = OverlapMethod::kNone;
  int num_splits = 4;  // of kPipeline; fewer where there are not so many rows
};

struct GatheredGemm {
  Tensor d;
  // b of all ranks, for another product: plain b only.
  std::optional<Tensor> b;
};

// gather(b) times a: gemm(a, all_gather_first_dim(b), layout, options), with b
// this rank's rows. Quantised: rowwise data travel, the requirements are those
// of the gather. kTN or kNN. Of the options, with an overlap: alpha, out_dtype,
// bias, round_bias_to_bf16, precision. Collective; Error{kUsage} on every rank.
GatheredGemm all_gather_gemm(const GemmOperand& a, const GemmOperand& b,
                             GemmLayout layout, Communicator& group,
                             const GemmOptions& options = {},
                             const GemmOverlap& overlap = {});

// reduce_scatter_first_dim(gemm(a, b, layout, options)): this rank's rows of
// the sum over ranks. Each rank's part is rounded to the dtype of D, which
// travels; then fp32 in the order of the ranks, rounded once. The first
// dimension of b must be a multiple of the ranks, quantised rows of each must
// be whole blocks. Options as above but for bias, which belongs after the sum.
Tensor gemm_reduce_scatter(const GemmOperand& a, const GemmOperand& b,
                           GemmLayout layout, Communicator& group,
                           const GemmOptions& options = {},
                           const GemmOverlap& overlap = {});

}  // namespace assay::te
