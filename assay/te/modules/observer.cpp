#include "assay/te/modules/observer.h"

#include <utility>

namespace assay::te {
namespace {

thread_local ModuleObserver* current = nullptr;

}  // namespace

ObserverScope::ObserverScope(ModuleObserver& observer)
    : before_(std::exchange(current, &observer)) {}

ObserverScope::~ObserverScope() { current = before_; }

void observe(const Module& module, std::string_view what,
             const Tensor& tensor) {
  if (current) current->on_tensor(module, what, tensor);
}

void observe(const Module& module, Role role, const Tensor* source,
             const QuantizedTensor& quantized) {
  if (current) current->on_quantized(module, role, source, quantized);
}

}  // namespace assay::te
