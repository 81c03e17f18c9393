// Watching what modules compute: for checks of NaN, for statistics of FP8
// saturation, for dumps. Without an observer it costs a null test.
#pragma once

#include <string_view>

#include "assay/core/tensor.h"
#include "assay/te/recipe/recipe.h"

namespace assay::te {

class Module;

class ModuleObserver {
 public:
  virtual ~ModuleObserver() = default;
  // Results: "output" after a forward, "grad_input" after a backward. May
  // throw, which ends the pass.
  virtual void on_tensor(const Module& module, std::string_view what,
                         const Tensor& tensor) = 0;
  // What a GEMM is about to read. `source` is null where the tensor was
  // quantised by the operator that made it and never existed in high precision.
  virtual void on_quantized(const Module& module, Role role,
                            const Tensor* source,
                            const QuantizedTensor& quantized) = 0;
};

// While it lives, modules of this thread report to `observer`. Nests: the
// innermost alone is told.
class ObserverScope {
 public:
  explicit ObserverScope(ModuleObserver& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  ModuleObserver* before_;
};

void observe(const Module& module, std::string_view what, const Tensor& tensor);
void observe(const Module& module, Role role, const Tensor* source,
             const QuantizedTensor& quantized);

}  // namespace assay::te
