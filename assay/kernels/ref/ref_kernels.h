// The plain kernels: the oracle of every other set, and what runs where no
// vector instructions do.
#pragma once

#include "assay/kernels/kernels.h"

namespace assay {

extern const KernelTable kRefKernels;

// Parts of the table, one file each.
ChunkState ref_pair_f64(const double* x, const double* y, std::int64_t n,
                        ChunkSums& out);
ChunkState ref_pair_f32(const float* x, const float* y, std::int64_t n,
                        ChunkSums& out);
ChunkState ref_pair_bf16(const std::uint16_t* x, const std::uint16_t* y,
                         std::int64_t n, ChunkSums& out);
ChunkState ref_pair_f16(const std::uint16_t* x, const std::uint16_t* y,
                        std::int64_t n, ChunkSums& out);
bool ref_detail_f64(const double* x, const double* y, std::int64_t n,
                    const DetailParams& params, DetailSums& out);
bool ref_detail_f32(const float* x, const float* y, std::int64_t n,
                    const DetailParams& params, DetailSums& out);
bool ref_detail_bf16(const std::uint16_t* x, const std::uint16_t* y,
                     std::int64_t n, const DetailParams& params,
                     DetailSums& out);
bool ref_detail_f16(const std::uint16_t* x, const std::uint16_t* y,
                    std::int64_t n, const DetailParams& params,
                    DetailSums& out);

}  // namespace assay
