// DotProductAttention: softmax(scale Q K^T + bias, mask) V, TransformerEngine's
// module of that name.
//
// The arithmetic, masks and rounding points are those of te/ops/attention.h;
// under a recipe with fp8_dpa those of te/ops/attention_fp8.h, with the slots
// of NVTE's histories: forward 9, of which 2 is q, k and v, 3 the output, 8
// the softmax; backward 6, of which 0 is dq, dk and dv, 3 d_out, 5 dp.
//   DelayedScaling         every slot by its history
//   Float8CurrentScaling   every slot by its tensor. (NVTE's fused kernels
//                          need the scales of s and dp beforehand and take
//                          those of the last step.)
//   MXFP8BlockScaling      q, k, v and d_out, each by itself in blocks along
//                          the channels; s, dp and results are not quantised
//   Custom                 as the factory says, module_type "dpa"
// fp8_mha changes nothing: q, k and v come rounded to the activations' dtype
// and are quantised here (NVTE has the projection write codes: one rounding
// less). Float8BlockScaling and NVFP4BlockScaling have no fp8_dpa. Over a group
// of context parallelism k and v travel quantised by slot 2 and everything else
// is as without fp8_dpa (parallel/context_parallel.h, kv_quantizer).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "assay/te/modules/attention_call.h"
#include "assay/te/modules/quantized_module.h"
#include "assay/te/modules/recompute.h"
#include "assay/te/ops/attention_fp8.h"
#include "assay/te/parallel/context_parallel.h"

namespace assay::te {

struct DotProductAttentionOptions {
  std::int64_t num_gqa_groups = 0;  // 0: num_attention_heads
  double attention_dropout = 0;
  QkvFormat qkv_format = QkvFormat::kSbhd;
  AttentionMask attn_mask_type = AttentionMask::kCausal;
  WindowSize window_size = {};
  // Absent: top left under kCausal and kPaddingCausal (whatever is said), else
  // bottom right.
  std::optional<bool> bottom_right_diagonal = std::nullopt;
  // Heads are cut over the group. Dropout draws from kModelParallelRandom
  // there, so that ranks drop differently.
  TensorParallel tp = {};
  // Sequences are cut over the group (parallel/context_parallel.h). The
  // gradient of softmax_offset is 1 / size of the group's, so that, as for any
  // parameter, the sum over the ranks is the whole.
  std::shared_ptr<Communicator> cp_group = nullptr;
  CpCommType cp_comm_type = CpCommType::kP2P;
  int layer_number = 1;  // of a KvCache, from 1
  AttentionType attention_type = AttentionType::kSelf;
  std::optional<float> softmax_scale = std::nullopt;  // 1 / sqrt(channels of k)
  SoftmaxType softmax_type = SoftmaxType::kVanilla;
  bool return_max_logit = false;
  Device device = Device::kCpu;
  std::string name = {};
};

class DotProductAttention : public QuantizedModule {
 public:
  struct Output {
    Tensor out;        // [s, b, heads * v], bshd likewise, thd [t, heads * v]
    Tensor max_logit;  // f32 [heads]; return_max_logit only
  };

  struct Context {
    AttentionInputs inputs;
    AttentionOptions options;
    std::optional<AttentionResult> result;
    std::optional<AttentionFp8Result> fp8;
    std::optional<ContextParallelResult> cp;
    std::shared_ptr<QuantizerStates> states;    // of fp8
    std::shared_ptr<RecomputePoint> recompute;  // checkpoint_core_attention
    std::function<void()> finish;
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // The parameter softmax_offset, float32 [heads of this rank], initially 0,
  // exists with SoftmaxType::kLearnable alone. Throws Error{kUsage} for sizes
  // that are not positive or cannot be cut.
  DotProductAttention(std::int64_t num_attention_heads, KvChannels kv_channels,
                      const DotProductAttentionOptions& options = {});

  // q [s, b, heads, k], k [s2, b, groups, k], v [s2, b, groups, v] of this
  // rank's heads; bshd and thd likewise. Query head h uses the keys of group h
  // / (heads / groups). `context` null: inference, without dropout.
  Output forward(const Tensor& q, const Tensor& k, const Tensor& v,
                 Context* context = nullptr, const AttentionCall& call = {});
  // d_out as `out`; the gradient of softmax_offset is added to the parameter
  // and left out of the result. `context` is used up.
  AttentionGradients backward(const Tensor& d_out, Context& context);

  // From the next forward on; null: no group. A backward takes the group of its
  // forward to be still there.
  void set_context_parallel_group(std::shared_ptr<Communicator> group,
                                  CpCommType comm = CpCommType::kP2P);
  int cp_size() const;
  int cp_rank() const;

  std::int64_t heads() const { return heads_; }
  std::int64_t groups() const { return groups_; }
  const DotProductAttentionOptions& options() const { return options_; }

 private:
  AttentionOptions options_of(const AttentionCall& call, bool training) const;
  void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v,
                    QkvFormat format) const;
  AttentionInputs inputs_of(const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionOptions& options,
                            const AttentionCall& call);
  Output infer_with_cache(const Tensor& q, const Tensor& k, const Tensor& v,
                          AttentionOptions options, const AttentionCall& call);
  AttentionResult run(Context& context, bool training);
  AttentionResult run_in_parallel(Context& context, bool training);
  AttentionGradients gradients(const Tensor& d_out, const Context& context);

  std::int64_t heads_, groups_;  // of this rank
  KvChannels channels_;
  DotProductAttentionOptions options_;
  Parameter* softmax_offset_ = nullptr;
};

// Whether attention is quantised in the current Autocast scope.
bool fp8_attention_enabled();
// Of q, k and v in the forward state.
inline constexpr std::size_t kAttentionQkvSlot = 2;
// The steps of FP8 attention by the quantisers of one pass.
AttentionFp8Roles attention_fp8_roles(const QuantizerStates& states);

}  // namespace assay::te
