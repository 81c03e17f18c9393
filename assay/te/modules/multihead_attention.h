// MultiheadAttention: projections of q, k and v, attention, and the projection
// of its result; TransformerEngine's module of that name.
//
//   self    layernorm_qkv or qkv     -> q, k, v
//   cross   layernorm_query or query_layer -> q;  key_value -> k, v (of the
//           encoder's output)
//   q, k -> norms (q_norm, k_norm) and RoPE, in the order asked for
//   core_attention -> proj
// Where q, k and v lie in a fused projection: qkv_order.h; the default is three
// parameters query_*, key_*, value_* of one GEMM, in this order. Each step
// rounds as the module or operator that makes it; q, k and v are copied out of
// the projection, exact. Over a tensor parallel group the gradients of q_norm
// and k_norm are of the rank's heads alone, and marked to be summed
// (Parameter::sequence_parallel; NVTE leaves that to the caller).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "assay/te/modules/dot_product_attention.h"
#include "assay/te/modules/head_norm.h"
#include "assay/te/modules/layernorm_linear.h"
#include "assay/te/modules/linear.h"
#include "assay/te/modules/qkv_order.h"
#include "assay/te/ops/rope.h"

namespace assay::te {

// Names and defaults are NVTE's.
struct MultiheadAttentionOptions {
  std::int64_t kv_channels = 0;  // 0: hidden_size / num_attention_heads
  double attention_dropout = 0.1;
  float layernorm_epsilon = 1e-5f;
  InitMethod init_method;               // absent: normal_init(0.023)
  InitMethod output_layer_init_method;  // of proj; absent: the same
  int layer_number = 1;
  AttentionMask attn_mask_type = AttentionMask::kCausal;
  WindowSize window_size = {};
  std::optional<bool> bottom_right_diagonal = std::nullopt;
  // Heads are cut over the group, with set_parallel_mode: qkv is column-, proj
  // row-parallel.
  TensorParallel tp = {};
  bool set_parallel_mode = false;
  std::int64_t num_gqa_groups = 0;  // 0: num_attention_heads
  bool fuse_wgrad_accumulation = false;
  bool delay_wgrad_compute = false;
  DType params_dtype = DType::kF32;
  bool return_bias = false;  // of proj
  bool return_layernorm_output = false;
  bool input_layernorm = false;
  AttentionType attention_type = AttentionType::kSelf;
  // One parameter for q, k and v. Without it qkv_weight_interleaved is false.
  bool fuse_qkv_params = false;
  bool zero_centered_gamma = false;
  bool qkv_weight_interleaved = true;
  bool rotary_pos_interleaved = false;
  bool bias = true;
  Normalization normalization = Normalization::kLayerNorm;
  QkvFormat qkv_format = QkvFormat::kSbhd;
  QkNormType qk_norm_type = QkNormType::kNone;
  float qk_norm_eps = 1e-6f;
  bool qk_norm_before_rope = false;
  SoftmaxType softmax_type = SoftmaxType::kVanilla;
  std::optional<float> softmax_scale = std::nullopt;
  Device device = Device::kCpu;
  std::string name = {};
};

// q's and k's angles: rope_frequencies().
using RotaryPosEmb = std::pair<Tensor, Tensor>;

struct MultiheadAttentionCall : AttentionCall {
  // Cross attention: [s2, b, h] (bshd likewise, thd [t, h]).
  std::optional<Tensor> encoder_output = std::nullopt;
  std::optional<bool> is_first_microbatch = std::nullopt;
  std::optional<RotaryPosEmb> rotary_pos_emb = std::nullopt;
  // False for a first layer: no gradient of hidden_states is computed.
  bool input_requires_grad = true;
};

class MultiheadAttention : public Module {
 public:
  struct Output {
    Tensor output;  // as hidden_states; without proj's bias
                    // where return_bias
    std::optional<Tensor> layernorm_output;  // return_layernorm_output only
  };
  struct Gradients {
    Tensor d_hidden_states;
    std::optional<Tensor> d_encoder_output;
    std::optional<Tensor> d_core_attention_bias;
  };
  struct Context {
    LayerNormLinear::Context layernorm_linear;
    Linear::Context linear, key_value, proj;
    HeadNorm::Context q_norm, k_norm;
    std::optional<RotaryPosEmb> rotary_pos_emb;
    RopeOptions q_rope, k_rope;
    DotProductAttention::Context core;
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // Children are named as above. Throws Error{kUsage} for sizes that cannot be
  // cut and for options that contradict each other.
  MultiheadAttention(std::int64_t hidden_size, std::int64_t num_attention_heads,
                     const MultiheadAttentionOptions& options = {});

  // hidden_states [s, b, h] (bshd [b, s, h], thd [t, h]); with sequence
  // parallelism this rank's rows of the first dimension. `context` null:
  // inference, without dropout.
  Output forward(const Tensor& hidden_states, Context* context = nullptr,
                 const MultiheadAttentionCall& call = {});
  // d_layernorm_output: where it was returned and used. `context` is used up.
  Gradients backward(const Tensor& d_output, Context& context,
                     const Tensor* d_layernorm_output = nullptr);

  DotProductAttention& core_attention() { return *core_attention_; }
  // proj's; null where there is none.
  Parameter* bias() { return proj_->bias(); }

 private:
  void make_projections();
  LinearOptions linear_options(const char* name) const;
  NormLinearOptions layernorm_options(const char* name) const;
  Tensor project_input(const Tensor& x, Context* context,
                       const MultiheadAttentionCall& call,
                       std::optional<Tensor>* normalised);
  QkvTensors project(const Tensor& x, Context* context,
                     const MultiheadAttentionCall& call,
                     std::optional<Tensor>* normalised);
  void rotate(QkvTensors& qkv, Context& context,
              const MultiheadAttentionCall& call) const;
  void normalise(QkvTensors& qkv, Context* context);
  void normalise_backward(AttentionGradients& g, Context& context);

  std::int64_t hidden_size_, heads_;  // of all ranks
  MultiheadAttentionOptions options_;
  QkvOrder order_;
  std::unique_ptr<LayerNormLinear> layernorm_linear_;
  std::unique_ptr<Linear> linear_, key_value_, proj_;
  std::unique_ptr<HeadNorm> q_norm_, k_norm_;
  std::unique_ptr<DotProductAttention> core_attention_;
};

}  // namespace assay::te
