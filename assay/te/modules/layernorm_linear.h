// LayerNormLinear: y = norm(x) W^T + b, TransformerEngine's module of that
// name.
#pragma once

#include <optional>

#include "assay/te/modules/linear.h"
#include "assay/te/modules/norm_linear_core.h"

namespace assay::te {

// What modules that begin with a norm ask for beside their linear layers; names
// and defaults are NVTE's.
struct NormLinearOptions : LinearOptions {
  Normalization normalization = Normalization::kLayerNorm;
  float eps = 1e-5f;
  bool zero_centered_gamma = false;
  // The norm's result is given back too: the residual connection of a model
  // that takes it there. It is then made in high precision, and rounded before
  // it is quantised.
  bool return_layernorm_output = false;
  // ... gathered over the sequence.
  bool return_layernorm_output_gathered = false;

  NormModuleOptions norm() const;
  bool returns_norm() const {
    return return_layernorm_output || return_layernorm_output_gathered;
  }
};

struct NormLinearOutput {
  Tensor output;
  std::optional<Tensor> layernorm_output;
};

class LayerNormLinear : public QuantizedModule {
 public:
  struct Context {
    NormLinearCore::Saved saved;
    std::function<void()> finish;
    void visit_tensors(const TensorVisitor& visit) const {
      saved.visit_tensors(visit);
    }
  };

  // layer_norm_weight [in], layer_norm_bias [in] (LayerNorm), then weight and
  // bias as Linear has them. Row-parallel is refused: the norm needs whole
  // rows. save_original_input too: x is what is kept.
  LayerNormLinear(std::int64_t in_features, std::int64_t out_features,
                  const NormLinearOptions& options = {});

  // x [..., in] to [..., out] in x's dtype; outside of Autocast x has the
  // parameters' dtype. `context` null: inference.
  NormLinearOutput forward(const Tensor& x, Context* context = nullptr,
                           const LinearCall& call = {});
  // dy [..., out] and, where the norm's result was given back, its gradient
  // (null: none) to dx [..., in]; gradients are added to the parameters.
  // `context` is used up.
  Tensor backward(const Tensor& dy, Context& context,
                  const Tensor* d_layernorm_output = nullptr);

  bool need_backward_dw() const override { return linear_->has_delayed(); }
  // Null where there is none.
  Parameter* bias() { return parameters_->bias(); }
  Parameter& weight() { return parameters_->weight(); }

 protected:
  void on_new_quantizers() override;
  void own_backward_dw() override;

 private:
  NormLinearOptions options_;
  std::optional<NormCore> norm_;
  std::optional<LinearParameters> parameters_;
  std::optional<LinearCore> linear_;
  std::optional<NormLinearCore> core_;
};

// What LayerNormLinear and LayerNormMLP do with a norm's result: the tensor to
// give back, and the gradient that comes for it cut to this rank's rows.
Tensor layernorm_output(const Tensor& z, const NormLinearOptions& options);
Tensor local_layernorm_grad(const Tensor& dz, const NormLinearOptions& options);

}  // namespace assay::te
