// The inner kernels of tiled attention: one table per instruction set, all
// with the same layouts, so that one driver runs them.
//
// Tiles are transposed: rows are keys (or head dimensions), columns are
// queries. Row maxima and sums of the softmax are then vertical, and its
// probabilities leave it in the layouts in which the matrix unit takes them.
//
// Operands of a product C[M x N] += A[M x K] B[K x N]:
//   A: row-major, M x K elements.
//   B: 4-byte elements (fp32): row-major K x N. 2-byte elements (bf16): pairs
//      of rows interleaved, [K / 2][N][2].
//   C: row-major fp32.
// M and N are multiples of 16, K of 32; padding is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/core/dtype.h"

namespace assay {

// Keys of a tile; queries are at most one word of mask bits.
inline constexpr std::int64_t kKeyBlock = 64;
inline constexpr std::int64_t kQueryBlock = 64;
// The exponent argument that stands for "no weight": 2^-inf.
inline constexpr double kLog2E = 1.4426950408889634074;

// `rows` x `columns` elements of `dtype`, to be padded with zeros to
// padded_rows x padded_columns (multiples of 16 and 32).
struct PackSource {
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
  std::int64_t stride = 0;  // elements between rows
  std::int64_t rows = 0, columns = 0;
  std::int64_t padded_rows = 0, padded_columns = 0;
};

// Packed operands of one source S; null: not wanted.
struct PackTargets {
  void* a = nullptr;             // A = S
  void* a_transposed = nullptr;  // A = S^T, padded_rows a multiple of 32
  void* b = nullptr;             // B = S (K = rows), rows multiple of 32
  void* b_transposed = nullptr;  // B = S^T (K = columns)
};

// One tile of keys x columns logits on their way to probabilities:
//   x = scores * scale + added,  p = 2^((x - max) * factor).
// The maximum is subtracted first, so that its own p is 1 however great it is.
// x overflowing downwards stays finite where the score is: a mask of the
// greatest negative number excludes nothing by itself.
struct SoftmaxTile {
  float* scores;  // q . k; clobbered
  std::int64_t keys = kKeyBlock;
  std::int64_t columns = kQueryBlock;
  float scale = 1;
  float factor = 1;                        // log2(e) times what x lacks
  const float* added = nullptr;            // to the scaled scores
  const std::uint64_t* keep = nullptr;     // per key, bit = column; null: all
  const std::uint64_t* dropped = nullptr;  // likewise, bit set: dropped
  float* max;                              // per column, in units of x
  float* sum;
  float* correction;    // out: what earlier sums must be multiplied by
  void* probabilities;  // out: B operand, K = keys
};

// x as above, p = 2^((x - lse) * log2(e)).
struct GradientTile {
  const float* scores;
  float* d_probabilities;  // dO . v; clobbered with dS where want_ds
  std::int64_t keys = kKeyBlock;
  std::int64_t columns = kQueryBlock;
  float scale = 1;
  const float* added = nullptr;
  const std::uint64_t* keep = nullptr;
  const std::uint64_t* dropped = nullptr;
  float keep_scale = 1;
  const float* lse;    // per column; +inf: no gradient
  const float* delta;  // per column, dO . O
  bool want_ds = false;
  void* p_a;   // out: A operand, dropout applied
  void* ds_a;  // out: A operand
  void* ds_b;  // out: B operand, K = keys
};

// `rows` rows of fp32 times factor (times row_factor[r] where given), rounded
// to nearest even.
struct StoreRows {
  const float* from;
  std::int64_t from_stride;
  std::int64_t rows, columns;
  float factor = 1;
  const float* row_factor = nullptr;
  DType dtype = DType::kF32;
  std::byte* to;
  std::int64_t to_stride;  // elements
};

struct AttentionTiles {
  const char* isa;        // "avx512_amx", "avx512_bf16", "avx512", "avx2" ...
  int element_bytes = 4;  // of packed operands
  // Around the work of one thread on a run of tiles.
  void (*enter)();
  void (*leave)();
  // False where S holds a NaN or an infinity, with 2-byte elements also where
  // it holds a subnormal (the dot instructions flush them).
  bool (*pack)(const PackSource& source, const PackTargets& targets);
  void (*product)(std::int64_t m, std::int64_t n, std::int64_t k, const void* a,
                  const void* b, float* c, bool accumulate);
  // True where a correction differs from 1.
  bool (*softmax)(const SoftmaxTile& tile);
  void (*gradient)(const GradientTile& tile);
  // Multiplies column c of a rows x columns tile by factor[c].
  void (*scale_columns)(float* tile, std::int64_t rows, std::int64_t columns,
                        const float* factor);
  // to[c][r] = from[r][c].
  void (*transpose)(const float* from, std::int64_t rows, std::int64_t columns,
                    float* to);
  void (*store)(const StoreRows& store);
  // out[r] = a[r] . b[r] in fp32.
  void (*row_dots)(DType dtype, const std::byte* a, std::int64_t a_stride,
                   const std::byte* b, std::int64_t b_stride, std::int64_t rows,
                   std::int64_t columns, float* out);
};

// All tables of this machine; those of one instruction set with the fastest
// first. Empty where there are no vector kernels.
std::span<const AttentionTiles* const> all_attention_tiles();
// The fastest tables for the set that kernels() runs: one whose packed
// elements hold `dtype` products as the machine's bf16 unit forms them, and
// one in fp32 that takes every input. Null: plain loops only.
struct AttentionTileChoice {
  const AttentionTiles* fast = nullptr;
  const AttentionTiles* general = nullptr;
};
AttentionTileChoice choose_attention_tiles(DType dtype);

}  // namespace assay
