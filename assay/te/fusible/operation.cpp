#include "assay/te/fusible/operation.h"

#include <utility>

#include "assay/te/check.h"

namespace assay::te::ops {

Quantizer* ForwardStep::next_quantizer(const Shape& output) const {
  return next ? next->operation->input_quantizer(*next, output) : nullptr;
}

Quantizer* BackwardStep::previous_quantizer() const {
  if (!previous || !previous->context->needs_backward) return nullptr;
  return previous->operation->grad_quantizer(*previous->context);
}

BasicOperation::BasicOperation(std::string type, int gemms,
                               std::string module_type)
    : QuantizedModule(std::move(type), "", gemms, std::move(module_type)),
      gemms_(gemms) {}

void BasicOperation::check_extra_state(
    std::span<const NamedTensor> state) const {
  if (has_gemms()) {
    QuantizedModule::check_extra_state(state);
  } else {
    Module::check_extra_state(state);
  }
}

void CompoundOperation::add_operation(BasicOperation& operation) {
  add_child("basic_ops." + std::to_string(operations_.size()), operation);
  operations_.push_back(&operation);
}

}  // namespace assay::te::ops
