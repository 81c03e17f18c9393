// The engine's side of a conformance module: builds what the parameters ask
// for, runs it forward and backward, gives back tensors and contract. One file
// for each module in conform/engine/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/cases.h"
#include "assay/conform/value.h"
#include "assay/te/parallel/communicator.h"
#include "assay/te/recipe/recipe.h"

namespace assay::conform {

// What a worker is asked to compute. Accessors throw Error{kUsage} naming the
// module and what is missing or of another type.
struct AdapterCall {
  std::string module;
  Parameters parameters;
  TensorMap inputs;  // on `device`, strided where the case wants it
  int steps = 1;
  std::uint64_t seed = 0;
  Device device = Device::kCpu;
  te::Communicator* group = nullptr;  // null: one process

  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  DType dtype(std::string_view name = "dtype") const;
  bool has(std::string_view name) const;  // a parameter of that name
  const Tensor& input(const std::string& name) const;
  const Tensor* find_input(const std::string& name) const;
};

// The recipe that the parameter `recipe` names: none, delayed (history of 4),
// current, block, mxfp8, nvfp4 (without stochastic rounding: its draws are not
// comparable between implementations). Nullopt for "none". NVFP4's Hadamard
// transform stays on.
std::optional<te::Recipe> recipe_of(const AdapterCall& call);

struct AdapterResult {
  TensorMap outputs;
  Object contract;
};

// `version`: of what the adapter returns; a golden made by another is stale.
struct Adapter {
  std::string_view module;
  int version;
  // Throws Error: kUnsupported where the implementation lacks something that
  // the case asks for, any other where it refuses the arguments.
  AdapterResult (*run)(const AdapterCall& call);
};

std::span<const Adapter> engine_adapters();
// Null where the engine has none.
const Adapter* find_adapter(std::string_view module);

}  // namespace assay::conform
