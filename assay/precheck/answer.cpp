#include "assay/precheck/answer.h"

namespace assay::precheck {

using conform::CaseRun;
using conform::TensorMap;

const Tensor* find(const TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

const TensorMap& tensors_of(const CaseRun& run) {
  static const TensorMap kNone;
  return run.outcome.outputs.empty() ? kNone : run.outcome.outputs[0];
}

// A text of contract.<field>.<name>, "" where there is none.
std::string contract_text(const CaseRun& run, std::string_view field,
                          const std::string& name) {
  const auto found = run.outcome.contract.find(std::string(field));
  if (found == run.outcome.contract.end()) return "";
  const conform::Value* value = found->second.find(name);
  return value && value->is_text() ? value->text() : "";
}

std::string argument_of(const std::string& name) {
  return name.starts_with(kGradient) ? name.substr(kGradient.size()) : name;
}

std::string dtype_name(DType dtype) { return std::string(traits(dtype).name); }

}  // namespace assay::precheck
