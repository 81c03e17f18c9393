// Collectives of tensors, plain and quantised.
//
// Sums: every rank's part is exchanged in its own dtype, widened to fp32, added
// in the order of the ranks (rank 0 first) and rounded once, on whichever rank
// owns the piece. A result is thus the same bits on every rank and for any
// transport; against one process it differs by one reordered sum. f32, bf16 and
// f16. "First dimension" is that of NVTE's gather_along_first_dim.
#pragma once

#include <memory>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/te/ops/cross_entropy.h"
#include "assay/te/parallel/communicator.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// [n, ...] of every rank, rank after rank: [size n, ...]. Any dtype.
Tensor all_gather_first_dim(const Tensor& x, Communicator& group);
// The sum over ranks; this rank's slice [n / size, ...]. Throws Error{kUsage}
// where n is no multiple of size.
Tensor reduce_scatter_first_dim(const Tensor& x, Communicator& group);
// The sum over ranks, on every rank.
Tensor all_reduce_sum(const Tensor& x, Communicator& group);
void all_reduce_sum_in_place(Tensor& x, Communicator& group);
// This rank's slice of the first (last) dimension, a copy.
Tensor slice_first_dim(const Tensor& x, const Communicator& group);
Tensor slice_last_dim(const Tensor& x, const Communicator& group);
Tensor all_gather_last_dim(const Tensor& x, Communicator& group);
// Throws Error{kUsage} on every rank, naming the ranks, where one of them has
// another shape or dtype: what is called before shapes are relied on.
void require_same_everywhere(const Tensor& x, const char* what,
                             Communicator& group);

// Codes and scales travel, not the values they stand for. The result is what
// quantising the gathered tensor gives, bit for bit, where every rank's scale
// is the same (delayed scaling; current scaling and NVFP4 with an amax
// reduced over the group) or belongs to blocks that no cut crosses (MXFP8,
// block 128: rows of each rank a multiple of the block). Where that does not
// hold it throws Error{kUsage} that says why, rather than exchange something
// else. Rowwise and columnwise data, where they are, are both gathered;
// transposed layouts (te/quantize/quantized_tensor.h) are put in order.
QuantizedTensor all_gather_first_dim(const QuantizedTensor& x,
                                     Communicator& group);
// Whether the above can be done for this recipe's quantiser and shape; else
// the values are gathered in their dtype and quantised afterwards, as NVTE
// does for formats it cannot gather.
bool can_gather_quantized(const Quantizer& quantizer, const Shape& local,
                          const Communicator& group);

// The maximum over the group, NaN skipped: for quantisers and for histories.
std::shared_ptr<AmaxReduction> group_amax_reduction(
    std::shared_ptr<Communicator> group);
// Of a vocabulary that is cut across the group.
std::unique_ptr<VocabReducer> group_vocab_reducer(
    std::shared_ptr<Communicator> group);

}  // namespace assay::te
