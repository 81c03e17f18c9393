// The cases of a spec: hyperparameters covered pair by pair, and the inputs of
// each, drawn from its seed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "assay/conform/spec.h"
#include "assay/core/tensor.h"

namespace assay::conform {

struct Case {
  std::string module;
  Tier tier = Tier::kSmall;
  // "small-3f09a1c2": tier and a hash of module, parameters, steps and seed;
  // the same as long as those are, whatever other cases there are. Invalid
  // ones: "small-invalid-<name>".
  std::string id;
  Parameters parameters;
  int steps = 1;
  int ranks = 1;  // the parameter `ranks`, where there is one
  std::uint64_t seed = 0;
  bool invalid = false;  // must be refused

  std::string name() const { return module + "/" + id; }
};

// Pinned cases first, then enough others that every pair of values of two
// parameters that the constraints allow together occurs, then the invalid
// ones. The same list for the same spec, everywhere.
std::vector<Case> make_cases(const Spec& spec, Tier tier);

// What an input of a case is, before it is drawn.
struct InputFacts {
  DType dtype = DType::kF32;
  Shape shape;
  std::int64_t bytes = 0;
};
// Of the inputs that are there. Throws Error{kUsage} naming spec, case and
// input, also for more than 4 GiB.
std::map<std::string, InputFacts> input_facts(const Spec& spec, const Case& c);

using TensorMap = std::map<std::string, Tensor>;

// Draws every input of a case: contiguous, on the CPU. A function of spec and
// case alone. Throws Error{kUsage} naming spec and input.
TensorMap make_inputs(const Spec& spec, const Case& c);
// Names of the inputs that the worker is to turn into strided views.
std::vector<std::string> strided_inputs(const Spec& spec, const Case& c);

}  // namespace assay::conform
