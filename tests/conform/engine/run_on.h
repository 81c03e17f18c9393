// Runs of the adapters of a spec's module, as their tests make them.
#pragma once

#include <string>
#include <utility>

#include "assay/base/error.h"
#include "assay/conform/adapter.h"

namespace assay::conform {

// Runs the adapter with every input on `device`.
inline AdapterResult run_on(Device device, AdapterCall call) {
  call.device = device;
  for (auto& [name, tensor] : call.inputs) tensor.device = device;
  const Adapter* adapter = find_adapter(call.module);
  if (!adapter) throw Error(Code::kUsage, "no adapter " + call.module);
  return adapter->run(call);
}

// `defaults` with some of them replaced.
inline AdapterCall call_of(std::string module, Parameters defaults,
                           const Parameters& other, TensorMap inputs) {
  AdapterCall call;
  call.module = std::move(module);
  call.parameters = std::move(defaults);
  for (const auto& [name, value] : other) call.parameters[name] = value;
  call.inputs = std::move(inputs);
  return call;
}

}  // namespace assay::conform
