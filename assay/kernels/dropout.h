// Kernels of dropout: a mask of one bit an element drawn from Philox4x32-10,
// and its application.
//
// Source: NVTE (docs/numerics.md, dropout). Chunk c of 16 elements takes the
// four words at positions offset .. offset + 3 of the stream with key `seed`
// and subsequence c, as cuRAND numbers them. An element is dropped where its
// byte is below the threshold. Bytes 2, 0 of words 0 .. 3 belong to elements 0
// .. 7 in this order, bytes 3, 1 to elements 8 .. 15.
#pragma once

#include <cstdint>
#include <span>

#include "assay/core/device.h"
#include "assay/core/dtype.h"

namespace assay {

inline constexpr std::int64_t kDropoutChunk = 16;

struct DropoutDraw {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::uint32_t threshold = 0;  // 0 .. 255, in 1/256
};

struct DropoutKernels {
  const char* isa;
  // Bit i of mask[c] is element i of chunk begin + c: 1 is kept. Overwrites
  // `count` words.
  void (*draw)(const DropoutDraw& draw, std::int64_t begin, std::int64_t count,
               std::uint16_t* mask);
  // y = scale x where the bit is 1, else +0 whatever x is: one rounding from
  // fp32. `mask` begins with the bit of x[0], on a byte; n elements of float32,
  // bfloat16 or float16.
  void (*apply)(DType dtype, const void* x, const std::uint8_t* mask,
                std::int64_t n, float scale, void* y);
};

// The same bits from every table.
const DropoutKernels& dropout_kernels(Device device);
std::span<const DropoutKernels* const> all_dropout_kernels();

}  // namespace assay
