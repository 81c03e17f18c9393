// Several tensors, or several groups of rows of one tensor, quantised in one
// call: the experts of a mixture, whose tokens lie one group after the other.
//
// Source: NVTE cast.h, group_quantize and multi_tensor_quantize;
// swizzle.h, multi_tensor_swizzle_scaling_factors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// Group g is the next rows[g] rows of the matrix that x is (leading dimensions
// by the last one), quantised as a tensor of its own of shape [rows[g], K]: own
// amax, own scales. Empty groups give empty data. One parallel loop where the
// quantiser has one. Throws Error{kUsage} where rows are negative or do not
// add up to those of x, and what quantize() throws for a group.
std::vector<QuantizedTensor> quantize_split(Quantizer& quantizer,
                                            const Tensor& x,
                                            std::span<const std::int64_t> rows);

// The groups' values one below the other, in `out`: a [sum of rows, K] matrix.
// All groups must have the same last dimension. Rowwise data where there is.
Tensor dequantize_split(std::span<const QuantizedTensor> groups, DType out);

// Groups that have row-wise data only get column-wise data made of their
// decoded rows (in the dtype that was quantised), as when only the
// row-wise half of a tensor was kept or sent. NVTE cast.h, group_requantize.
void requantize_columnwise(Quantizer& quantizer,
                           std::span<QuantizedTensor> groups);

// with_layout() of every direction of every tensor.
void set_layout(std::span<QuantizedTensor> tensors, ScaleLayout layout);

}  // namespace assay::te
