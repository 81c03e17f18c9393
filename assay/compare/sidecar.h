// Whether a tensor file holds what the dump says it holds.
#pragma once

#include <string_view>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/metrics/standard.h"
#include "assay/metrics/verdict.h"

namespace assay {

struct SidecarCheck {
  bool same_shape = true;
  std::vector<Reason> reasons;  // notes, or what forbids a match
};

// Compares the declared dtype and shape with the file's. A file that holds the
// declared values in a wider float (bf16 saved as float32 .npy) is a note, and
// `tensor` is narrowed to the declared dtype, exactly, so that it is judged by
// the rounding of the dtype that ran. Any other difference is a deciding
// reason. Declared facts that are missing are filled in from the file. `side`
// is "golden" or "target".
SidecarCheck check_sidecar(std::string_view side, SideFacts& declared,
                           Tensor& tensor);

}  // namespace assay
