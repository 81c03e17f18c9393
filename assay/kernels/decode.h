// Blocks of any dtype as the types the kernels take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "assay/core/dtype.h"

namespace assay {

// `in` is contiguous, in the byte order of this machine, without alignment;
// n counts elements, of complex dtypes components. Thread-safe.

// Exact but for 64-bit integers beyond 2^53, which round to nearest even.
void decode_f64(DType dtype, const std::byte* in, std::int64_t n, double* out);

// True where every value of `dtype` is an f32: floats and integers that are
// narrow enough.
bool fits_f32(DType dtype);
// Exact; dtypes with fits_f32.
void decode_f32(DType dtype, const std::byte* in, std::int64_t n, float* out);

// True for the dtypes of 8 bits or fewer: all their values are bf16.
bool fits_bf16(DType dtype);
// Exact, to bf16 codes; dtypes with fits_bf16.
void decode_bf16(DType dtype, const std::byte* in, std::int64_t n,
                 std::uint16_t* out);

}  // namespace assay
