// One element of a buffer of any dtype, as a number: for code that must be
// right for every dtype and need not be fast.
#pragma once

#include <cstddef>
#include <cstdint>

#include "assay/core/dtype.h"
#include "assay/numerics/float_format.h"

namespace assay {

// In all of these `data` is contiguous, in the byte order of this machine,
// without any alignment. `index` counts elements; in complex dtypes it counts
// components (2i real, 2i + 1 imaginary). e2m1: element 2i is the low nibble.
// The caller has checked the index. Thread-safe, but two e2m1 elements of one
// byte must not be stored at the same time.

// The bit pattern, zero-extended.
std::uint64_t load_code(DType dtype, const std::byte* data, std::int64_t index);
// Stores the low bits of `code`; the other nibble of an e2m1 byte stays.
void store_code(DType dtype, std::uint64_t code, std::byte* data,
                std::int64_t index);

// The value, exact except for 64-bit integers beyond 2^53, which round to
// nearest even. bool: any byte other than 0 is 1.
double load_as_double(DType dtype, const std::byte* data, std::int64_t index);

// load_as_double of elements [begin, begin + count) into out[0 .. count): the
// same values with the dtype looked at once; dtypes of 8 bits or fewer by
// table.
void load_as_doubles(DType dtype, const std::byte* data, std::int64_t begin,
                     std::int64_t count, double* out);

// round_to(dtype, value, overflow), stored. Integers saturate, NaN is 0.
void store_from_double(DType dtype, double value, std::byte* data,
                       std::int64_t index, Overflow overflow);
void store_from_double(DType dtype, double value, std::byte* data,
                       std::int64_t index);

}  // namespace assay
