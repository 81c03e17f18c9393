// Kernels of the block formats MXFP8 and NVFP4: quantise strips of a matrix,
// decode them, rotate vectors by a Hadamard matrix. (The amax of a tensor:
// cast.h; transposes: movement.h.)
//
// Every instruction set gives the same bits. One call works on one strip and
// is not parallel itself; different strips may run at the same time. Inputs
// are float32, bfloat16 or float16 in the byte order of this machine; nothing
// needs alignment. Every output is overwritten.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/core/device.h"
#include "assay/core/dtype.h"
#include "assay/core/philox.h"
#include "assay/numerics/nvfp4_scale.h"

namespace assay {

// Up to 32 rows of a row-major matrix, quantised to MXFP8 along the rows, down
// the columns, or both. Strides are in elements: codes lie as the input does
// but with `code_stride`. Blocks at the right and lower edge may be partial.
struct Mxfp8Strip {
  DType input = DType::kBF16;
  DType format = DType::kE4M3FN;  // or kE5M2
  // One scale for each 32 x 32 tile, written for both directions.
  bool square = false;
  // Codes may go past the caches: for results larger than they are.
  bool stream = false;
  const std::byte* x = nullptr;
  std::int64_t rows = 0;     // 1 .. 32
  std::int64_t columns = 0;  // >= 1
  std::int64_t stride = 0;
  std::int64_t code_stride = 0;
  std::uint8_t* row_codes = nullptr;   // null: no row-wise result
  std::uint8_t* row_scales = nullptr;  // block b of row r: [r * stride + b]
  std::int64_t row_scale_stride = 0;
  std::uint8_t* column_codes = nullptr;   // null: no column-wise result
  std::uint8_t* column_scales = nullptr;  // one a column
};

// MXFP8 codes to float32, bfloat16 or float16: code * scale, rounded once.
// Row-wise: one row, block b of 32 has scales[b]. Column-wise: `rows` <= 32
// rows that follow each other and share the scales, one a column.
struct Mxfp8Row {
  DType format = DType::kE4M3FN;  // or kE5M2
  DType output = DType::kBF16;
  bool columnwise = false;
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::byte* out = nullptr;
};

// How the 4-over-6 variant measures the error of its two candidates.
enum class FourOverSix : std::uint8_t { kNone, kMae, kMse };

// Random bytes of stochastic rounding. Sequence: nvfp4_random().
struct RandomStream {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::uint64_t first_block = 0;  // the number of the run's first block
};

// The sixteen bytes of block `block` of a run; element i takes byte i % 4,
// lowest first, of word i / 4.
constexpr std::array<std::uint32_t, 4> nvfp4_random(const RandomStream& r,
                                                    std::uint64_t block) {
  const std::uint64_t n = r.first_block + block;
  const auto low = [](std::uint64_t v) {
    return static_cast<std::uint32_t>(v);
  };
  const auto high = [](std::uint64_t v) {
    return static_cast<std::uint32_t>(v >> 32);
  };
  return philox4x32({low(n), high(n), low(r.offset), high(r.offset)},
                    {low(r.seed), high(r.seed)});
}

// Consecutive blocks of 16 elements, quantised to NVFP4: 8 bytes of codes and
// one scale a block.
struct Nvfp4Run {
  DType input = DType::kBF16;
  const std::byte* x = nullptr;
  std::int64_t blocks = 0;
  // That many runs follow each other at x; the results of each, and its random
  // bytes, lie `block_stride` blocks behind those of the one before.
  std::int64_t runs = 1, block_stride = 0;
  // The run is a matrix of sixteen rows, and each 16 x 16 tile of it has one
  // scale, written for each of its rows.
  bool square = false;
  float amax = 0;                  // of the tensor or, row-scaled, of the row
  Nvfp4Global global;              // nvfp4_global(amax)
  const float* factors = nullptr;  // nvfp4_factor() of the 127 scale codes
  FourOverSix four_over_six = FourOverSix::kNone;
  const RandomStream* random = nullptr;  // null: nearest
  std::uint8_t* codes = nullptr;
  std::uint8_t* scales = nullptr;
};

// A run of NVFP4 blocks to float32, bfloat16 or float16: e2m1 * decode scale
// in fp32, rounded once.
struct Nvfp4Decode {
  DType output = DType::kBF16;
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  std::int64_t blocks = 0;
  float amax = 0;
  float scale_max = 448.0f;
  std::byte* out = nullptr;
};

struct BlockQuantKernels {
  const char* isa;
  void (*mxfp8_quantize)(const Mxfp8Strip& strip);
  void (*mxfp8_decode)(const Mxfp8Row& row);
  void (*nvfp4_quantize)(const Nvfp4Run& run);
  void (*nvfp4_decode)(const Nvfp4Decode& run);
  // Each of `vectors` runs of 16 bfloat16 elements, in place: times
  // diag(signs) * H16 / 4 with the Sylvester matrix H16, in fp32 by four
  // butterfly stages of distance 1, 2, 4, 8, rounded to bfloat16 at the end.
  // Bit i of `sign_mask` set: element i is negated first.
  void (*hadamard16)(std::uint16_t* x, std::int64_t vectors,
                     std::uint16_t sign_mask);
  // The same down each of `columns` columns of sixteen rows `stride` apart,
  // into sixteen rows `out_stride` apart.
  void (*hadamard16_columns)(const std::uint16_t* x, std::int64_t stride,
                             std::int64_t columns, std::uint16_t sign_mask,
                             std::uint16_t* out, std::int64_t out_stride);
};

// Thread-safe.
const BlockQuantKernels& block_quant_kernels(Device device);
std::span<const BlockQuantKernels* const> all_block_quant_kernels();

}  // namespace assay
