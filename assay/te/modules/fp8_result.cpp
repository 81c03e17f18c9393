#include "assay/te/modules/fp8_result.h"

#include "assay/te/check.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/hybrid.h"

namespace assay::te {

std::optional<Fp8Output> fp8_output_of(std::string_view module,
                                       const Quantizer& quantizer) {
  require(
      quantizer.mode() == ScalingMode::kTensor &&
          !dynamic_cast<const HybridQuantizer*>(&quantizer),
      module, "fp8_output",
      "under " + std::string(scaling_mode_name(quantizer.mode())) + " scaling",
      "a recipe with one scale a tensor");
  const auto* delayed =
      dynamic_cast<const DelayedScalingQuantizer*>(&quantizer);
  if (!delayed) return std::nullopt;
  return Fp8Output{delayed->format(),
                   delayed->state()->scale.data<float>()[delayed->slot()]};
}

QuantizedTensor fp8_result(Quantizer& quantizer, const GemmResult& result) {
  if (!result.fp8) {
    quantizer.set_usage({true, false});
    return quantizer.quantize(result.d);
  }
  const auto& delayed = dynamic_cast<DelayedScalingQuantizer&>(quantizer);
  delayed.state()->record(delayed.slot(),
                          *result.fp8->rowwise->amax.data<float>());
  return *result.fp8;
}

}  // namespace assay::te
