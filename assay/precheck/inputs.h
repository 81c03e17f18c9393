// What a call is replayed with: the tensors and arguments of a worker's
// request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/conform/cases.h"
#include "assay/precheck/plan.h"

namespace assay::precheck {

struct CallInputs {
  conform::Object arguments;  // docs/worker-protocol.md, "API calls"
  conform::TensorMap tensors;
  bool backward = false;
  std::vector<std::string> gradients;  // results whose gradient is given
  std::string autocast;
  // Names of tensors that the trace has no elements of.
  std::vector<std::string> generated;
};

// Complex128 as the protocol stores it, float64 with one more dimension, and
// back: Error{kRefused} where it is none.
Tensor as_pairs(const Tensor& tensor);
Tensor as_complex(const Tensor& pairs);

// Elements where the trace kept them, else generate(). Gradients of results:
// the recorded ones; where the trace has no backward pass, standard normal
// ones for every floating-point result that requires one. Thread-safe. Throws
// Error: a tensor that cannot be read or made.
CallInputs make_inputs(const Trace& trace, const PlannedCall& planned);

// The parameters of a request; `precision` is "given" or "float64", `runs` how
// often it is computed.
conform::Object parameters_of(const PlannedCall& planned,
                              const CallInputs& inputs,
                              const std::string& precision, int runs);

// The same tensors; those of a floating-point dtype in float64, every element
// times 1 + delta, |delta| at most the unit roundoff of the dtype that it had,
// or that `autocast` gives it, drawn from `seed`. Complex ones stay: no file
// holds what is wider.
conform::TensorMap perturbed(const conform::TensorMap& tensors,
                             std::uint64_t seed,
                             std::optional<DType> autocast = std::nullopt);

}  // namespace assay::precheck
