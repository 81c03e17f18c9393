// From a shape that a file claims to a tensor over bytes that are there: the
// checks and the copies that every reader needs.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

#include "assay/core/tensor.h"
#include "assay/formats/file_bytes.h"

namespace assay {

// Product of `shape` times `element_bytes`. Throws Error{kRefused} naming
// `file` and `offset`, with its own text for each of: more than `max_rank`
// dimensions, a negative one, a product beyond 63 bits, and an empty shape
// whose other dimensions multiply to more than 2^40 (no writer makes those;
// they are how a parser is made to overflow).
std::uint64_t payload_bytes(const Shape& shape, std::uint64_t element_bytes,
                            std::string_view file, std::uint64_t offset,
                            std::size_t max_rank = 64);

// A tensor over `part`, which begins with its first element and reaches at
// least to its last; the caller has checked that. `part` belongs to
// `owner`. Zero-copy, unless the bytes are in the other byte order or not
// aligned to the element: then a copy of `part`. `strides` as in TensorView.
Tensor tensor_over(std::span<const std::byte> part,
                   const std::shared_ptr<const void>& owner, DType dtype,
                   Shape shape, Shape strides,
                   std::endian order = std::endian::little);

// The elements of `codes` (one e2m1 code a byte, as ml_dtypes stores them)
// packed two a byte, element 2i low. Throws Error{kRefused} naming `file` when
// a byte is above 15.
Tensor pack_e2m1(const Tensor& codes, std::string_view file);

}  // namespace assay
