// The vector GEMM's units of the machine the program runs on.
#pragma once

#include <string_view>
#include <vector>

#include "assay/kernels/gemm_unit.h"

namespace assay {

struct GemmVectorUnits {
  const char* isa;
  GemmUnit f32;
  GemmEpilogueFn epilogue;
};

// Best first; empty where the machine has none of the compiled sets.
std::vector<const GemmVectorUnits*> simd_gemm_units();

}  // namespace assay
