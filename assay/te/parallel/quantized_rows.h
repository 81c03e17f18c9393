// Cutting and joining quantised tensors by rows, without touching a code.
//
// Rows are those of the M x K matrix. A direction can be cut where no block of
// scales is: between any two rows of rowwise 1-D blocks and of per-tensor
// scales, at multiples of 128 rows for 128 x 128 tiles, and of 128 (block 128),
// 32 (MXFP8), 16 (NVFP4) rows for columnwise blocks, which run down the rows;
// NVFP4's 16 x 16 and MXFP8's 32 x 32 tiles are replicated to 1-D blocks.
// Transposed data (te/quantize/quantized_tensor.h) are cut and joined along
// their last dimension. Scales keep their layout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// Consecutive groups of rows[g] rows, each a quantised tensor of shape
// [rows[g], K] (x's own shape but for the first dimension where it has one of
// rows). Throws Error{kUsage} where the counts do not sum to M or a cut crosses
// a block.
std::vector<QuantizedTensor> slice_rows(const QuantizedTensor& x,
                                        std::span<const std::int64_t> rows);

// The parts one below the other. Throws Error{kUsage} where the result is not
// what one quantiser makes of the whole: parts of different modes, formats,
// directions or K; per-tensor scales or NVFP4 amaxes that differ; parts before
// the last that end within a block. At least one part.
QuantizedTensor concatenate_rows(std::span<const QuantizedTensor> parts);

}  // namespace assay::te
