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
#include <string_view>
#include <vector>

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// Rows that one scale belongs to along M, in the compact layout: cuts are
// multiples of it. 1 where a scale belongs to one row or to the whole tensor.
std::int64_t rows_of_a_scale(const QuantizedData& q);

// Throws Error{kUsage} naming `op` where x's rows do not end where the blocks
// of its directions do: more rows below them would share the last block.
void require_whole_blocks(std::string_view op, const QuantizedTensor& x);

// Consecutive groups of rows[g] rows, each a quantised tensor of shape
// [rows[g], K] with the bytes of its own. Throws Error{kUsage} where the counts
// do not sum to M or a cut crosses a block.
std::vector<QuantizedTensor> slice_rows(const QuantizedTensor& x,
                                        std::span<const std::int64_t> rows);

// The parts one below the other, [sum of rows, K]. Throws Error{kUsage} where
// that is not what one quantiser makes of the whole: parts of different modes,
// formats, layouts, directions or K; per-tensor scales or NVFP4 amaxes that
// differ; a part before the last that ends within a block. Parts without rows
// have no say in scales. The amax of a per-tensor scale is the largest of the
// parts (NaN skipped), or absent. At least one part.
QuantizedTensor concatenate_rows(std::span<const QuantizedTensor> parts);

}  // namespace assay::te
