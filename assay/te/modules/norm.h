// LayerNorm and RMSNorm as modules: parameters weight and (LayerNorm) bias.
#pragma once

#include "assay/te/modules/norm_core.h"

namespace assay::te {

class NormModule : public Module {
 public:
  struct Context {
    NormCore::Saved saved;
    void visit_tensors(const TensorVisitor& visit) const {
      saved.visit_tensors(visit);
    }
  };

  // x [..., normalized_shape] to the same shape and dtype: float32, bfloat16
  // or float16, whatever dtype the parameters have. `context` null: inference.
  Tensor forward(const Tensor& x, Context* context = nullptr);
  // dy of x's shape and dtype to dx; the gradients are added to the parameters.
  // `context` is used up.
  Tensor backward(const Tensor& dy, Context& context);

 protected:
  NormModule(const char* type, Shape normalized_shape, Normalization kind,
             const NormModuleOptions& options);

 private:
  NormCore core_;
};

class LayerNorm : public NormModule {
 public:
  explicit LayerNorm(Shape normalized_shape,
                     const NormModuleOptions& options = {})
      : NormModule("LayerNorm", std::move(normalized_shape),
                   Normalization::kLayerNorm, options) {}
  explicit LayerNorm(std::int64_t hidden_size,
                     const NormModuleOptions& options = {})
      : LayerNorm(Shape{hidden_size}, options) {}
};

class RMSNorm : public NormModule {
 public:
  explicit RMSNorm(Shape normalized_shape,
                   const NormModuleOptions& options = {})
      : NormModule("RMSNorm", std::move(normalized_shape),
                   Normalization::kRMSNorm, options) {}
  explicit RMSNorm(std::int64_t hidden_size,
                   const NormModuleOptions& options = {})
      : RMSNorm(Shape{hidden_size}, options) {}
};

}  // namespace assay::te
