// The GEMM units that multiply bf16: AMX tiles and AVX512_BF16.
//
// Both take the same panels of 32 outers. Rows: for every 32 k, 32 rows of 32
// consecutive k (two AMX tiles). Columns: for every 32 k two tiles of 16
// columns, each 16 pairs (k, k + 1) of 16 columns.
#pragma once

#include "assay/kernels/gemm_unit.h"

namespace assay {

// Null where the machine or the architecture has no such unit.
const GemmUnit* amx_gemm_unit();
const GemmUnit* avx512_bf16_gemm_unit();

inline constexpr int kBf16Panel = 32;
inline constexpr int kBf16Step = 32;  // of k
inline constexpr std::int64_t kBf16Chunk = 512;
// Bytes of one step of a panel.
inline constexpr int kBf16StepBytes = kBf16Panel * kBf16Step * 2;

// Views of bf16, e4m3fn, e5m2 and e2m1 (k contiguous); see GemmPackFn.
void pack_bf16_rows(const GemmView& view, std::int64_t first, int shift,
                    std::byte* panel, GemmRange& range);
void pack_bf16_columns(const GemmView& view, std::int64_t first, int shift,
                       std::byte* panel, GemmRange& range);

}  // namespace assay
