// Transposes of tensors of any dtype: bytes move, values are not looked at.
//
// Sources: NVTE transpose.h (nvte_transpose, nvte_swap_first_dims,
// nvte_nvfp4_data_transpose). Exact; results are the same for any number of
// threads. Thread-safe. Strided inputs are made contiguous first.
#pragma once

#include "assay/core/tensor.h"

namespace assay::te {

// [..., K], seen as an M x K matrix, to [K, M]. Every dtype; e2m1 needs even M
// and K (two codes share a byte). Throws Error{kUsage} for a 0-d tensor.
Tensor transpose(const Tensor& x);

// [A, B, ...] to [B, A, ...]. Every dtype of whole bytes; e2m1 where the other
// dimensions hold an even number of elements. Throws Error{kUsage} for fewer
// than two dimensions.
Tensor swap_first_dims(const Tensor& x);

}  // namespace assay::te
