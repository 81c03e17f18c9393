// How tests run an adapter of the engine.
#pragma once

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

}  // namespace assay::conform
