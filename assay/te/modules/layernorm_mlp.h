// LayerNormMLP: y = act(norm(x) W1^T + b1) W2^T + b2, TransformerEngine's
// module of that name.
//
// Kept for backward: x with the norm's statistics, and fc1's output h in the
// activations' dtype, which the derivative needs; with `checkpoint` x alone.
// What follows from them element by element - the norm's result, the
// activation's, and their codes - is made again in backward, bit for bit.
//
// Activation and quantiser are one operator, as are the activation's
// derivative, the gradient of b1 and the quantiser before fc1's gradients
// (quantize/fused.h has the rounding points). b1's gradient sums the fp32
// values and is rounded to the activations' dtype.
#pragma once

#include "assay/te/modules/layernorm_linear.h"
#include "assay/te/ops/activation.h"

namespace assay::te {

// bias, return_bias (fc2's), init_method (fc1's) and the rest as in Linear and
// LayerNormLinear. parallel_mode and row_blocks follow from the others,
// parameters_split and save_original_input are refused.
struct LayerNormMLPOptions : NormLinearOptions {
  Activation activation = Activation::kGelu;
  // limit, alpha, linear_offset of clamped_swiglu; beta1, beta2 of situglu.
  ActivationParams activation_params = {};
  InitMethod output_layer_init_method;  // fc2's; absent: normal, 0.023
  // fc1 column-parallel, fc2 row-parallel over tp.
  bool set_parallel_mode = false;
  // h is computed again in backward: one GEMM more.
  bool checkpoint = false;
};

class LayerNormMLP : public QuantizedModule {
 public:
  struct Context {
    NormLinearCore::Saved fc1;
    std::optional<Tensor> h;  // absent under checkpoint
    LinearCore::Saved fc2;    // without its input
    std::unique_ptr<Quantizer> fc2_requantizer;
    std::function<void()> finish;
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // layer_norm_weight, layer_norm_bias [hidden]; fc1_weight [ffn, hidden],
  // fc1_bias [ffn]; fc2_weight [hidden, ffn], fc2_bias [hidden].
  //
  // Gated activations: fc1 has 2 ffn rows, [gate; linear]. Across tp_size
  // ranks, rank r of fc1 holds rows [r ffn / n, (r + 1) ffn / n) of gate and
  // then the same rows of linear, so that its columns of fc2 are its own; the
  // parameter says so with partition_stride 2. A state dict of all ranks is cut
  // in that way, not into n consecutive blocks (cut() in parameter_init.h).
  //
  // Throws Error{kUsage} for sizes that are not positive or cannot be cut.
  LayerNormMLP(std::int64_t hidden_size, std::int64_t ffn_hidden_size,
               const LayerNormMLPOptions& options = {});

  // x [..., hidden] to the same shape. `context` null: inference. Throws
  // Error{kUsage} under a recipe with backward_override, as NVTE.
  NormLinearOutput forward(const Tensor& x, Context* context = nullptr,
                           const LinearCall& call = {});
  // As LayerNormLinear::backward.
  Tensor backward(const Tensor& dy, Context& context,
                  const Tensor* d_layernorm_output = nullptr);

  bool need_backward_dw() const override {
    return fc1_->has_delayed() || fc2_->has_delayed();
  }
  Parameter& fc1_weight() { return fc1_parameters_->weight(); }
  Parameter& fc2_weight() { return fc2_parameters_->weight(); }
  Parameter* fc1_bias() { return fc1_parameters_->bias(); }
  Parameter* fc2_bias() { return fc2_parameters_->bias(); }

 protected:
  void on_new_quantizers() override;
  void own_backward_dw() override;

 private:
  void make_parameters(std::int64_t hidden, std::int64_t ffn);
  Shape activated_shape(const Tensor& h) const;
  LinearInput activated(const Tensor& h, Quantizer* quantizer) const;
  LinearGrad grad_of_h(const Tensor& da, const Tensor& h,
                       const LinearCore::Saved& fc1);

  LayerNormMLPOptions options_;
  ActivationOptions activation_;
  std::optional<NormCore> norm_;
  std::optional<LinearParameters> fc1_parameters_, fc2_parameters_;
  std::optional<LinearCore> fc1_, fc2_;
  std::optional<NormLinearCore> norm_fc1_;
};

}  // namespace assay::te
