// Rows of fusible operations by their names: "LayerNorm+Linear+GELU+Linear".
#pragma once

#include <cstdint>
#include <string_view>

#include "assay/conform/adapter.h"
#include "assay/te/fusible/sequential.h"

namespace assay::conform {

// What operations are made with, and the width of what passes between them.
struct OperationSite {
  const AdapterCall& call;
  std::int64_t width;  // before the operation; after it when it is made
};

// NVTE's name of an operation, "Linear" ... Parameters: features,
// out_features, dtype, in_place, zero_centered_gamma, glu_interleave_size,
// cache_quantized_input, scale_bias. The first linear operation goes from
// features to out_features, the next one back. Throws Error{kUsage} for a name
// that is none.
te::ops::SequentialItem make_operation(std::string_view name,
                                       OperationSite& site);

// Rows of GroupedLinear are three groups'.
inline constexpr int kOperationGroups = 3;

}  // namespace assay::conform
