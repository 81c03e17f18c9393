// A tensor's fingerprint: what tells it from every other, and what forms of it
// another tensor may have in common with it.
#pragma once

#include <string>

#include "assay/core/tensor.h"
#include "assay/env/snapshot.h"

namespace assay::env {

// hash        128 bits of dtype, shape and bytes: content_hash() of a capture
// as.values   of the values as float64 whatever the dtype, in their order (64
//             bit integers beyond 2^53: of the integers); -0 is not 0
// as.bfloat16, as.float16  of the values rounded to nearest even: what
//             as.values of the narrower tensor would be. Of floats wider than
//             that.
// as.elements of the values in any order
// as.rows     of the rows (first dimension) in any order; as.each_row has 64
//             bits of each, where there are 1 to 4096 of them
// statistics  max, min, mean, norm of finite elements; nan and inf where there
//             are some
//
// `rows`: with those of rows, which batches have. Any dtype and strides.
// Parallel; thread-safe.
TensorPrint fingerprint(const TensorView& tensor, bool rows);

}  // namespace assay::env
