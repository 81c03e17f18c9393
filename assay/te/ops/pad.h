// Rows or columns of zeros appended to tensors, and taken off again, as
// grouped GEMMs want their groups aligned.
//
// Sources: NVTE padding.h (nvte_multi_padding, nvte_multi_unpadding) and
// fused_attn.h (nvte_multi_tensor_pad_last_dim). Copies, exact, any dtype of
// whole rows of bytes; padding is zero bytes, which is +0 (or code 0, or
// false). Thread-safe. Strided inputs are made contiguous first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "assay/core/tensor.h"

namespace assay::te {

// Each [M_i, ...] to [padded_rows[i], ...], padded_rows[i] >= M_i.
std::vector<Tensor> multi_pad_rows(std::span<const Tensor> tensors,
                                   std::span<const std::int64_t> padded_rows);

// The first rows[i] <= M_i rows of each tensor.
std::vector<Tensor> multi_unpad_rows(std::span<const Tensor> tensors,
                                     std::span<const std::int64_t> rows);

// One tensor [sum of rows, H] that holds groups back to back, group g padded
// to padded_rows[g]: [sum of padded_rows, H]; and back.
Tensor pad_groups(const Tensor& x, std::span<const std::int64_t> rows,
                  std::span<const std::int64_t> padded_rows);
Tensor unpad_groups(const Tensor& x, std::span<const std::int64_t> rows,
                    std::span<const std::int64_t> padded_rows);

// [..., K] to [..., columns], columns >= K.
Tensor pad_last_dim(const Tensor& x, std::int64_t columns);

}  // namespace assay::te
