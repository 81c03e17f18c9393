// Watches the numbers of a run: stops at the first NaN or infinity with the
// name of the module it came from, and counts what quantising loses.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "assay/base/error.h"
#include "assay/te/modules/observer.h"

namespace assay::te {

// Row-major index of the first NaN or infinity; nullopt where there is none.
// float32, bfloat16 or float16. Thread-safe.
std::optional<std::int64_t> first_non_finite(const Tensor& tensor);

// "layers.1.layernorm_mlp: output: NaN at [3, 0, 17], expected finite values"
class NonFiniteError : public Error {
 public:
  NonFiniteError(std::string_view module, std::string_view what,
                 const Tensor& tensor, std::int64_t index);
  const std::string& module() const { return module_; }

 private:
  std::string module_;
};

// Throws NonFiniteError where there is one.
void require_finite(std::string_view module, std::string_view what,
                    const Tensor& tensor);

// Of elements that were quantised.
struct QuantizationCounts {
  std::int64_t elements = 0;  // looked at; the two below are among them
  // Beyond the largest code by more than rounding: |x| is past the point where
  // rounding without a limit would go to the next value (448: past 464).
  std::int64_t saturated = 0;
  std::int64_t underflowed = 0;  // x is not 0, what is decoded is
  // Not looked at: the operator before quantised its own result, ranks
  // exchanged codes, or only columns were quantised.
  std::int64_t unseen = 0;

  QuantizationCounts& operator+=(const QuantizationCounts& other);
  // Of the elements; 0 where there are none.
  double saturated_share() const;
  double underflow_share() const;
};

// Compares the rowwise codes with what they were made from; `source` may be
// null. The same counts for any number of threads. Thread-safe.
QuantizationCounts count_quantization(const Tensor* source,
                                      const QuantizedTensor& quantized);

// To be installed with ObserverScope. Results, and operands before they are
// quantised (NVFP4 has no code for NaN: it would be 6), are looked through.
class NumericsMonitor : public ModuleObserver {
 public:
  void on_tensor(const Module& module, std::string_view what,
                 const Tensor& tensor) override;
  void on_quantized(const Module& module, Role role, const Tensor* source,
                    const QuantizedTensor& quantized) override;

  // Since the last reset.
  const QuantizationCounts& counts(Role role) const {
    return counts_[static_cast<std::size_t>(role)];
  }
  QuantizationCounts total() const;
  void reset() { counts_ = {}; }

 private:
  std::array<QuantizationCounts, 5> counts_;  // by Role
};

// Throws NonFiniteError naming the module whose parameter has a gradient that
// is not finite: "layers.0.proj: gradient of weight: ...".
void require_finite_gradients(Module& root);

}  // namespace assay::te
