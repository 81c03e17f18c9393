// One norm and its parameters: what LayerNorm, RMSNorm and the modules that
// begin with a norm have in common.
//
// Formulas and rounding points: ops/norm.h, quantize/fused.h. The result is not
// kept for backward: a second forward from what is kept gives the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "assay/te/modules/module.h"
#include "assay/te/ops/norm.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

enum class Normalization : std::uint8_t { kLayerNorm, kRMSNorm };
// "LayerNorm" or "RMSNorm"; Error{kUsage} for anything else.
Normalization parse_normalization(std::string_view text);

// Names and defaults are NVTE's.
struct NormModuleOptions {
  float eps = 1e-5f;
  // The weight is 1 + the parameter, which then starts at 0.
  bool zero_centered_gamma = false;
  DType params_dtype = DType::kF32;
  // Marks the parameters: x is cut over ranks, their gradients are partial.
  bool sequence_parallel = false;
  // Gradients are added to main_grad where there is one.
  bool fuse_wgrad_accumulation = false;
  Device device = Device::kCpu;
  std::string name = {};
};

class NormCore {
 public:
  // x is shared with the caller, who must not change it before backward.
  struct Saved {
    Tensor x;
    Tensor mean, rsigma;  // float32 [rows]; RMSNorm has no mean
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // Adds prefix + "weight" (ones, or zeros) and for LayerNorm prefix + "bias"
  // (zeros) by `add`. `shape`: the last dimensions of x, which are normalised
  // over together. Throws Error{kUsage} for sizes that are not positive.
  using Add = std::function<Parameter&(std::string, Parameter)>;
  NormCore(const Module& module, const Add& add, const std::string& prefix,
           Shape shape, Normalization kind, const NormModuleOptions& options);

  // z of the shape and dtype of x. `saved` null: nothing is kept.
  Tensor forward(const Tensor& x, Saved* saved) const;
  // The same, quantised by the norm itself.
  QuantizedTensor forward(const Tensor& x, Quantizer& quantizer,
                          Saved* saved) const;
  // dx, plus `add` (null: nothing) before it is rounded; adds the gradients of
  // the parameters, and releases what was saved.
  Tensor backward(const Tensor& dz, Saved& saved, const Tensor* add = nullptr);

  // Whether a gradient of the result is of use for the parameters.
  bool requires_grad() const;

 private:
  Tensor as_rows(const Tensor& x) const;
  NormBackward gradients(const Tensor& dz, const Saved& kept,
                         const Tensor* add) const;
  bool is_rms() const { return kind_ == Normalization::kRMSNorm; }

  const Module& module_;
  Shape shape_;
  Normalization kind_;
  NormModuleOptions options_;
  Parameter* weight_ = nullptr;
  Parameter* bias_ = nullptr;
};

}  // namespace assay::te
