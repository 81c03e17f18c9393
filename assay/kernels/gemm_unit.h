// What the GEMM driver needs of an instruction set: how operands are laid out
// in panels, and the product of two panels.
//
// A panel holds `rows` (or `columns`) consecutive outer indices of an operand
// for all k, in an order of the unit's own, so that the part for k in [k0, k1),
// k0 a multiple of kGemmScaleBlock, starts at byte k0 * rows * element. k is
// padded with zeros to a multiple of k_step, outers to the panel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "assay/kernels/gemm.h"

namespace assay {

// Of the finite nonzero elements that were packed: exponents of the smallest
// and the largest (2^e <= |x| < 2^(e+1)), and whether one was subnormal or did
// not fit the panel's format.
struct GemmRange {
  int min_exponent = 1000, max_exponent = -1000;
  bool lost = false;
  void merge(const GemmRange& other) {
    min_exponent = std::min(min_exponent, other.min_exponent);
    max_exponent = std::max(max_exponent, other.max_exponent);
    lost |= other.lost;
  }
};

// Packs outers [first, first + panel) for all k into `panel`, each element
// multiplied by 2^shift.
using GemmPackFn = void (*)(const GemmView& view, std::int64_t first, int shift,
                            std::byte* panel, GemmRange& range);

// Scales of the first block of a micro tile, padded to it; those of the next
// block are `stride` further on.
struct GemmTileScales {
  const float* row;
  std::int64_t row_stride;
  const float* column;
  std::int64_t column_stride;
  bool column_first;
};

struct GemmUnit {
  const char* name;
  int rows, columns;  // of a micro tile
  int k_step;
  // Of k between visits to the sums in memory: a column panel of so many k
  // fits the first-level cache.
  std::int64_t chunk;
  std::size_t element;  // bytes of one
  int prefetch;         // see tile
  GemmPackFn pack_rows, pack_columns;
  // acc (rows x columns, contiguous) = or += the products of k (a multiple of
  // k_step) elements. `next` is what will be read after this and the other
  // tiles of its column: `prefetch` bytes of it are fetched for every k_step.
  void (*tile)(const std::byte* row_panel, const std::byte* column_panel,
               std::int64_t k, bool add, const std::byte* next, float* acc);
  // The same in blocks of 128 k, each scaled, see GemmBlockScales.
  void (*scaled_tile)(const std::byte* row_panel, const std::byte* column_panel,
                      std::int64_t k, bool add, const std::byte* next,
                      const GemmTileScales& scales, float* acc);
  // Around the tiles of one thread: sets up and frees the unit's state.
  void (*enter)();
  void (*leave)();
};

// A strip of micro tiles beside one another, whose sums become D and the rest:
// row by row, so that D is written along its rows.
struct GemmStrip {
  std::int64_t row, column;  // of D
  int rows, columns;         // of D, at most those of the tiles
  int tile_columns;          // of a micro tile
  const float* acc;          // the first micro tile
  std::int64_t next;         // floats from one micro tile to the next
  bool stream;               // D is large: keep it out of the caches
};
inline constexpr int kGemmBlockSide = 512;  // of D, at most
using GemmEpilogueFn = void (*)(const GemmEpilogue& e, std::int64_t n,
                                const GemmStrip& strip, float& amax,
                                double* column_sums);

// The fp32 unit and the epilogue of an instruction set, and the unit for bf16
// panels, null where there is none.
struct GemmUnits {
  const GemmUnit* f32;
  const GemmUnit* bf16;
  GemmEpilogueFn epilogue;
};

void run_gemm(const GemmUnits& units, const GemmProblem& problem);

}  // namespace assay
