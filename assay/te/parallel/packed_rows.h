// Rows of a quantised tensor as one run of bytes, as they travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// What sender and receiver must have alike, as text: modes, formats, layouts,
// directions, K, dtype, device; not rows and not scales.
std::string kind_of(const QuantizedTensor& x);
// The scales that are one for all rows, to the bit, as text: what has to be
// the same where rows of several ranks become one tensor.
std::string common_scales_of(const QuantizedTensor& x);

// Bytes of codes, scales and amax, both directions, of a tensor of x's kind
// with so many rows; each part is padded to a multiple of 64. Where rows do
// not end within a block the shapes are those that a quantiser makes.
std::int64_t packed_size(const QuantizedTensor& x, std::int64_t rows);
// x's own, into packed_size() bytes. Data as slice_rows() leaves them.
void pack(const QuantizedTensor& x, std::byte* out);
// A tensor [rows, K] of x's kind whose parts are those packed from byte
// `begin` of `bytes` (a multiple of 64) on; it shares them.
QuantizedTensor unpack(const QuantizedTensor& x, std::int64_t rows,
                       const Tensor& bytes, std::int64_t begin);

}  // namespace assay::te
