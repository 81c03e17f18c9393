// TransformerLayer: attention and MLP with their residual connections, the
// encoder and decoder layer of TransformerEngine's module of that name.
//
//   h = x + branch(self_attention(x))          branch: residual_branch.h
//   h = h + branch(inter_attention(h, encoder))   decoder only, no drop path
//   y = h + branch(layernorm_mlp(h))
// with these changes:
//   apply_residual_connection_post_layernorm  the residual is the norm's result
//   output_layernorm          self_attention has no norm, y = layernorm(y)
//   parallel_attention_mlp    y = x + branch(self_attention(x) +
//                             layernorm_mlp(x)), each with its own bias
// The biases of proj and fc2 are added in the branch (NVTE's return_bias) but
// with parallel_attention_mlp. Sums of two gradients are formed in fp32 and
// rounded once to the activations' dtype.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "assay/te/modules/layernorm_mlp.h"
#include "assay/te/modules/multihead_attention.h"
#include "assay/te/modules/residual_branch.h"

namespace assay::te {

enum class LayerType : std::uint8_t { kEncoder, kDecoder };

// Names and defaults are NVTE's.
struct TransformerLayerOptions {
  std::int64_t num_gqa_groups = 0;  // 0: num_attention_heads
  float layernorm_epsilon = 1e-5f;
  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;
  InitMethod init_method;               // absent: normal_init(0.023)
  InitMethod output_layer_init_method;  // of proj and fc2; absent: the same
  int layer_number = 1;
  std::int64_t kv_channels = 0;  // 0: hidden_size / num_attention_heads
  AttentionMask self_attn_mask_type = AttentionMask::kCausal;
  WindowSize window_size = {};
  std::optional<bool> bottom_right_diagonal = std::nullopt;
  AttentionMask enc_dec_attn_mask_type = AttentionMask::kNone;
  WindowSize enc_dec_window_size = {};
  std::optional<bool> enc_dec_bottom_right_diagonal = std::nullopt;
  TensorParallel tp = {};  // with set_parallel_mode
  DType params_dtype = DType::kF32;
  bool fuse_wgrad_accumulation = false;
  bool delay_wgrad_compute = false;
  bool apply_residual_connection_post_layernorm = false;
  bool output_layernorm = false;
  bool parallel_attention_mlp = false;
  LayerType layer_type = LayerType::kEncoder;
  double drop_path_rate = 0;
  bool set_parallel_mode = false;
  bool fuse_qkv_params = false;
  bool rotary_pos_interleaved = false;
  bool zero_centered_gamma = false;
  bool qkv_weight_interleaved = true;
  bool bias = true;
  Activation activation = Activation::kGelu;
  ActivationParams activation_params = {};
  Normalization normalization = Normalization::kLayerNorm;
  QkvFormat attn_input_format = QkvFormat::kSbhd;
  QkNormType qk_norm_type = QkNormType::kNone;
  float qk_norm_eps = 1e-6f;
  bool qk_norm_before_rope = false;
  SoftmaxType softmax_type = SoftmaxType::kVanilla;
  Device device = Device::kCpu;
  std::string name = {};
};

struct TransformerLayerCall {
  // What NVTE's forward takes for self attention: attention_mask,
  // self_attn_mask_type, window_size, cu_seqlens_q ... inference_params.
  AttentionCall self_attention = {};
  // Of the decoder's other attention: enc_dec_attn_mask (attention_mask and
  // attention_mask_kv), enc_dec_attn_mask_type, enc_dec_window_size ...
  AttentionCall inter_attention = {};
  std::optional<Tensor> encoder_output = std::nullopt;
  std::optional<bool> is_first_microbatch = std::nullopt;
  bool checkpoint_core_attention = false;  // of both attentions
  std::optional<RotaryPosEmb> rotary_pos_emb = std::nullopt;  // self attention
  // False for a first layer whose input has no gradient to be computed.
  bool input_requires_grad = true;
};

class TransformerLayer : public Module {
 public:
  struct Gradients {
    Tensor d_hidden_states;
    std::optional<Tensor> d_encoder_output;  // decoder
    // Where the bias was given to the attention.
    std::optional<Tensor> d_core_attention_bias;
    std::optional<Tensor> d_inter_attention_bias;
  };
  struct Context {
    MultiheadAttention::Context self_attention, inter_attention;
    LayerNormMLP::Context mlp;
    NormModule::Context layernorm;
    ResidualBranch::Saved self_branch, inter_branch, mlp_branch;
    Shape output;  // empty: nothing is saved
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // Children: self_attention, inter_attention (decoder), layernorm_mlp,
  // layernorm (output_layernorm). Throws Error{kUsage} for sizes that cannot
  // be cut and for options that contradict each other, as NVTE's assertions.
  TransformerLayer(std::int64_t hidden_size, std::int64_t ffn_hidden_size,
                   std::int64_t num_attention_heads,
                   const TransformerLayerOptions& options = {});

  // hidden_states [s, b, h], bshd [b, s, h], thd [t, h]; with sequence
  // parallelism this rank's rows of the first dimension. `context` null:
  // inference, without dropout and drop path.
  Tensor forward(const Tensor& hidden_states, Context* context = nullptr,
                 const TransformerLayerCall& call = {});
  // `context` is used up.
  Gradients backward(const Tensor& d_output, Context& context);

  MultiheadAttention& self_attention() { return *self_attention_; }
  // Null for an encoder.
  MultiheadAttention* inter_attention() { return inter_attention_.get(); }
  LayerNormMLP& layernorm_mlp() { return *mlp_; }
  // Of both attentions' cores.
  void set_context_parallel_group(std::shared_ptr<Communicator> group,
                                  CpCommType comm = CpCommType::kP2P);

 private:
  void check_options() const;
  MultiheadAttentionOptions attention_options() const;
  void make_attention(std::int64_t heads);
  void make_mlp(std::int64_t ffn);
  Tensor attend(const Tensor& x, Context* context,
                const TransformerLayerCall& call);
  Tensor attend_encoder(const Tensor& h, Context* context,
                        const TransformerLayerCall& call);
  Tensor backward_mlp(const Tensor& dy, Context& context);
  Tensor backward_encoder(const Tensor& dh, Context& context, Gradients& out);
  void backward_self(const Tensor& dh, Context& context, Gradients& out);

  std::int64_t hidden_size_;
  TransformerLayerOptions options_;
  bool post_layernorm_;  // residuals
  std::unique_ptr<MultiheadAttention> self_attention_, inter_attention_;
  std::unique_ptr<LayerNormMLP> mlp_;
  std::unique_ptr<NormModule> layernorm_;
  std::optional<ResidualBranch> branch_, inter_branch_;
};

}  // namespace assay::te
