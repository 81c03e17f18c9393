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

// A tensor of x's kind with another number of rows: memory for codes, scales
// and amax, contents undefined. For rows that do not end within a block the
// shapes are those that a quantiser makes.
QuantizedTensor empty_rows(const QuantizedTensor& x, std::int64_t rows);

// Bytes of codes, scales and amax of both directions, each part padded to a
// multiple of 64.
std::int64_t packed_size(const QuantizedTensor& x);
void pack(const QuantizedTensor& x, std::byte* out);
// The inverse, into what empty_rows() made.
void unpack(const std::byte* bytes, QuantizedTensor& out);

}  // namespace assay::te
