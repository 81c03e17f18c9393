// The result of a GEMM as FP8 codes: NVTE's fp8_output and fp8_grad.
//
// Per-tensor scaling alone. Delayed scaling: codes of the GEMM's fp32 values
// with the scale of earlier steps, and their amax goes to the history
// (docs/modules.md). Current scaling: the result is rounded to its dtype, then
// quantised, as NVTE does where the scale is not known before.
#pragma once

#include <optional>
#include <string_view>

#include "assay/te/ops/gemm.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// What to ask the GEMM for; nullopt: its result is quantised afterwards. Throws
// Error{kUsage} naming `module` for a quantiser of another scaling mode.
std::optional<Fp8Output> fp8_output_of(std::string_view module,
                                       const Quantizer& quantizer);
// The codes of a result that was made so; rowwise.
QuantizedTensor fp8_result(Quantizer& quantizer, const GemmResult& result);

}  // namespace assay::te
