// Collectives of tensors, plain and quantised.
//
// Sums: every rank's part is exchanged in its own dtype, widened to fp32, added
// in the order of the ranks (rank 0 first) and rounded once, on whichever rank
// owns the piece. A result is thus the same bits on every rank and for any
// transport; against one process it differs by one reordered sum. f32, bf16 and
// f16; Device::kReference adds in fp64. "First dimension" is that of NVTE's
// gather_along_first_dim.
//
// All are collective but the slices. Inputs may be strided, results are fresh
// and contiguous. Before anything is sent the ranks compare shapes, dtypes and
// what they refuse (agreement.h): an Error that concerns one is thrown on all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/te/ops/cross_entropy.h"
#include "assay/te/parallel/communicator.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// [n, ...] of every rank, rank after rank: [size n, ...]. Any dtype; packed
// elements must fill whole bytes on every rank.
Tensor all_gather_first_dim(const Tensor& x, Communicator& group);
// The sum over ranks; this rank's slice [n / size, ...]. Throws Error{kUsage}
// where n is no multiple of size.
Tensor reduce_scatter_first_dim(const Tensor& x, Communicator& group);
// The sum over ranks, on every rank. In place: contiguous and writable.
Tensor all_reduce_sum(const Tensor& x, Communicator& group);
void all_reduce_sum_in_place(Tensor& x, Communicator& group);
// This rank's slice of the first (last) dimension, a copy. Throws Error{kUsage}
// where the dimension is no multiple of size.
Tensor slice_first_dim(const Tensor& x, const Communicator& group);
Tensor slice_last_dim(const Tensor& x, const Communicator& group);
Tensor all_gather_last_dim(const Tensor& x, Communicator& group);
// Throws Error{kUsage} on every rank, naming the ranks, where one of them has
// another shape or dtype: what is called before shapes are relied on.
void require_same_everywhere(const Tensor& x, const char* what,
                             Communicator& group);

// Rows (the first dimension) go where they are wanted: send_counts[r] of them,
// in order, to rank r; receive_counts[r] come from rank r. [sum of
// receive_counts, ...], rank after rank. Any dtype of whole-byte rows. Throws
// Error{kUsage} on every rank where counts do not sum to the rows of x or what
// one rank sends another does not receive.
Tensor all_to_all_rows(const Tensor& x,
                       std::span<const std::int64_t> send_counts,
                       std::span<const std::int64_t> receive_counts,
                       Communicator& group);

// Quantised tensors: codes and scales travel, not the values they stand for.
// Rowwise and columnwise data, where they are, both do; scales come out in the
// layout that they had.

// The result is what quantising the gathered tensor gives, bit for bit, where
// every rank's scale is the same (delayed scaling; current scaling and NVFP4
// with an amax reduced over the group) or belongs to blocks that no cut crosses
// (MXFP8, block 128: rows of each rank a multiple of the block). Where that
// does not hold it throws Error{kUsage} that says why, rather than exchange
// something else; quantized_rows.h has the rules. (Under stochastic rounding
// each rank has drawn for itself.)
QuantizedTensor all_gather_first_dim(const QuantizedTensor& x,
                                     Communicator& group);
// One tensor for each rank that the rows come from, with that rank's scales.
// Counts are rows of the M x K matrix; cuts that cross a block are refused.
// concatenate_rows() (quantized_rows.h) joins them where that can be done.
std::vector<QuantizedTensor> all_to_all_rows(
    const QuantizedTensor& x, std::span<const std::int64_t> send_counts,
    std::span<const std::int64_t> receive_counts, Communicator& group);
// The sum of the values that the ranks' codes stand for: row slices travel as
// codes, are decoded in fp32 (dequantize(), with the scales of the rank that
// made them), summed in the order of the ranks and rounded once to `out`.
// [n / size, ...]. Rowwise data where there are.
Tensor reduce_scatter_first_dim(const QuantizedTensor& x, DType out,
                                Communicator& group);
// Whether the above can be done for this recipe's quantiser and shape of a
// rank's rows.
bool can_gather_quantized(const Quantizer& quantizer, const Shape& local,
                          const Communicator& group);
// x of all ranks, quantised: by this rank and gathered as codes where that can
// be done; else the values are gathered in their dtype and quantised
// afterwards, as NVTE does for formats it cannot gather.
QuantizedTensor all_gather_first_dim(const Tensor& x, Quantizer& quantizer,
                                     Communicator& group);

// The maximum over the group, NaN skipped: for quantisers and for histories.
std::shared_ptr<AmaxReduction> group_amax_reduction(
    std::shared_ptr<Communicator> group);
// Of a vocabulary that is cut across the group.
std::unique_ptr<VocabReducer> group_vocab_reducer(
    std::shared_ptr<Communicator> group);

}  // namespace assay::te
