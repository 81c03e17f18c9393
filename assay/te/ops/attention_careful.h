// A product over a tile that leaves excluded pairs out instead of multiplying
// them by zero: 0 * NaN is NaN, and a masked NaN must stay where it is.
#pragma once

#include <cstdint>

#include "assay/kernels/attention_tiles.h"

namespace assay::te {

// Which two indices of C[m][n] += A[m][k] B[k][n] are (key, query).
enum class KeepOf { kKN, kMK };

struct CarefulProduct {
  std::int64_t m, n, k;
  const void *a, *b;
  float* c;
  bool accumulate;
  // One word a key, one bit a query; null: the plain product. Only with tables
  // of 4-byte elements.
  const std::uint64_t* keep = nullptr;

  void run(const AttentionTiles& tiles, KeepOf of) const;
};

}  // namespace assay::te
