// Operators that answer which elements they chose: topk, sort, argmax, max of
// a dimension. Of equal elements they may choose any; an index is right where
// it selects the value that the golden's does.
#pragma once

#include <optional>
#include <string>

#include "assay/compare/comparison.h"
#include "assay/precheck/inputs.h"

namespace assay::precheck {

struct Selection {
  const std::string& api;
  const CallInputs& inputs;
  const conform::TensorMap& golden;  // what either side gave
  const conform::TensorMap& device;
};

// The tensor of the answer that holds such indices: "output.1" of topk, "" of
// an operator that chooses nothing.
std::string chosen_indices(const std::string& api);

// Looks again at a mismatch of chosen_indices(). Where every index that
// differs selects an element equal to the golden's (NaN is equal to NaN), and
// none is chosen twice where the golden's are not, the row is a match that
// says so; with stable=True, which promises an order, it stays. Pooling whose
// window is not looked at is incomplete. A row that stays gets a note on how
// many indices select other values.
void judge_selection(const Selection& selection, Row& row);

// The gradient of the first argument by the device's own choice, in float64,
// where it differs from the golden's among equal elements only; nullopt where
// it does not differ, is wrong, or the operator hands no gradient to what it
// chose.
std::optional<Tensor> gradient_of_choice(const Selection& selection);

}  // namespace assay::precheck
