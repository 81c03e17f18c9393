// Quantised tensors as outputs of a case, and the quantisers of an operator
// that has no module around it.
#pragma once

#include <optional>
#include <string>

#include "assay/conform/engine/engine.h"
#include "assay/te/quantize/quantized_tensor.h"
#include "assay/te/recipe/recipe_state.h"

namespace assay::conform {

// Outputs "<name>.row.codes", "<name>.row.scale_inv", and the same of the
// columns, under put_step()'s names: codes in their own dtype, so that one step
// apart is one ulp; scales in ScaleLayout::kCompact. NVFP4 has
// "<name>.row.amax" beside them.
void put_quantized(AdapterResult& result, const AdapterCall& call, int step,
                   const std::string& name, const te::QuantizedTensor& tensor);

// The quantisers that a linear layer has for its input (forward) and its
// grad_output (backward), and what delayed scaling remembers between steps.
class OperatorQuantizers {
 public:
  explicit OperatorQuantizers(const te::Recipe& recipe);

  te::Quantizer& input() { return forward_.at(0); }
  te::Quantizer& grad_output() { return backward_.at(0); }

  // What the end of a step does: histories move, scales follow.
  void update();
  // Outputs scale_fwd, amax_history_fwd, scale_bwd, amax_history_bwd: the
  // columns of the two. Nothing under recipes without a history.
  void put_histories(AdapterResult& result);

 private:
  te::RecipeState forward_, backward_;
};

}  // namespace assay::conform
