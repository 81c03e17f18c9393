// One weight and its three products: what Linear, LayerNormLinear and
// LayerNormMLP have in common.
//
//   fprop  y  = x W^T (+ b)      x rowwise,  W rowwise
//   dgrad  dx = dy W             dy rowwise, W columnwise
//   wgrad  dW = dy^T x           dy, x columnwise
// (NVTE's general_gemm calls; docs/numerics.md.) Outside of Autocast the
// operands are the tensors themselves. Inside, x, W and dy are quantised once
// each, in the directions that the products to come need: per-tensor formats
// in one, block formats in two. The bias is added in the GEMM, in fp32; its
// gradient is the sum of dy before dy is quantised. Where the sum over K runs
// over ranks (row parallel) the bias is added after it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "assay/te/modules/quantized_module.h"
#include "assay/te/modules/tensor_parallel_config.h"
#include "assay/te/ops/gemm.h"

namespace assay::te {

// What a module's forward may be told beside its input.
struct LinearCall {
  // Absent: the weight is quantised anew and not kept. true: quantised and
  // kept. false: the kept one is used (where it has what the pass needs).
  std::optional<bool> is_first_microbatch;
  // False for a first layer: no gradient of the input is computed.
  bool input_requires_grad = true;
};

// An input, already quantised where an operator made it so; the tensor may
// then be absent. With sequence parallelism: this rank's rows.
struct LinearInput {
  std::optional<Tensor> tensor;
  std::optional<QuantizedTensor> quantized;
};
// A gradient of the output; where it is quantised already, with the sums over
// its rows that the bias needs (absent: those of the decoded codes).
struct LinearGrad {
  std::optional<Tensor> tensor;
  std::optional<QuantizedTensor> quantized;
  std::optional<Tensor> bias_grad;
};

// What the forward GEMM does besides, for operations fused into it:
// y = alpha x W^T + add + bias, all in fp32 and rounded once; with pre_gelu
// that is rounded into it, and y = gelu of the unrounded values. Not where the
// sum over K runs over ranks.
struct LinearEpilogue {
  float alpha = 1;
  const Tensor* bias = nullptr;  // instead of the layer's own
  const Tensor* add = nullptr;   // of y's shape
  Tensor* pre_gelu = nullptr;
  // y as codes of the layer's output quantiser (fp8_result.h), in the place of
  // the tensor that is given back. Within Autocast.
  std::optional<QuantizedTensor>* fp8 = nullptr;

  bool empty() const {
    return alpha == 1 && !bias && !add && !pre_gelu && !fp8;
  }
};
// dx = alpha dy W + add, dW = alpha dy^T x. `add` and `fp8` not where the sum
// of dx runs over ranks.
struct LinearGradEpilogue {
  float alpha = 1;
  const Tensor* add = nullptr;                    // of dx's shape
  std::optional<QuantizedTensor>* fp8 = nullptr;  // dx as codes
};

class LinearCore {
 public:
  struct Options {
    ParallelMode mode = ParallelMode::kNone;
    TensorParallel tp = {};
    // Keeps x itself for backward, which quantises it there: less memory where
    // x is kept by somebody else anyway. Not with histories of maxima.
    bool save_original_input = false;
    // Weight gradients are added to main_grad (float32) in the GEMM: always,
    // where NVTE overwrites it in a first micro-batch (zero_grad() before).
    bool fuse_wgrad_accumulation = false;
    // Weight gradients wait for run_delayed().
    bool delay_wgrad_compute = false;
    std::string prefix = {};  // of the weight in messages: "fc1_"
  };

  // What backward needs of a forward.
  struct Saved {
    DType dtype = DType::kF32;  // of the activations
    bool need_dgrad = true, need_wgrad = true;
    std::int64_t rows = -1;  // of y; -1: nothing is saved
    BackwardOverride override = BackwardOverride::kNone;
    std::shared_ptr<QuantizerStates> states;  // null: not quantised
    std::optional<Tensor> input;
    std::optional<QuantizedTensor> input_quantized;
    bool input_is_local = false;  // to be gathered over the sequence
    std::optional<Tensor> weight;
    std::shared_ptr<const QuantizedTensor> weight_quantized;
    // Without the weights: they are the parameter's, or one copy for all.
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // Weight and bias (may be null) are parameters of `module`, of this rank's
  // shapes; `gemm` is the number of the module's product: its slots.
  LinearCore(QuantizedModule& module, std::size_t gemm, Parameter& weight,
             Parameter* bias, Options options);

  // Where an operator before this layer may quantise its result itself: the
  // quantiser, its directions set. Null where forward() wants the tensor.
  Quantizer* input_quantizer(const QuantizedPass& pass,
                             const Shape& input) const;
  // A quantiser that gives in backward, of the same input, the bits that
  // input_quantizer()'s gives now: an input that can be made again need not be
  // kept. To be had before anything is quantised; set_directions() as the
  // products to come need. Null where backward wants the tensor.
  std::unique_ptr<Quantizer> input_requantizer(const QuantizedPass& pass) const;
  // `saved` null: inference. `add_bias` false: the caller adds it
  // (return_bias).
  Tensor forward(const QuantizedPass& pass, LinearInput x, Saved* saved,
                 const LinearCall& call, bool add_bias = true,
                 const LinearEpilogue& epilogue = {});

  // The output of the forward again, bit for bit, from what it saved (its input
  // rowwise). Not of row-parallel layers, nor under a backward override.
  Tensor forward_again(const Saved& saved) const;

  // The same for what flows back.
  Quantizer* grad_quantizer(const Saved& saved) const;
  // dx, summed over ranks as the mode asks for; no elements where it is not
  // needed. Adds the gradients of weight and bias; what was saved is released.
  Tensor backward(LinearGrad dy, Saved& saved,
                  const LinearGradEpilogue& epilogue = {});

  // The weight gradients put off, one for each backward, oldest first.
  void run_delayed();
  bool has_delayed() const { return !delayed_.empty(); }

  // Stores the weight quantised, as the scope of QuantizedModelInit says.
  void store_quantized(const QuantizedModelInitOptions& options);
  // After the module's quantisers changed.
  void on_new_quantizers();

  // The quantised weight of a pass: the parameter's own, the kept one, or a
  // fresh one.
  std::shared_ptr<const QuantizedTensor> quantized_weight(
      const QuantizedPass& pass, bool columnwise,
      std::optional<bool> is_first_microbatch);

  const Options& options() const { return options_; }

  // Whether the input is this rank's rows of what the product reads.
  bool gathers_input() const;

 private:
  bool gathers_grad() const;
  GemmOptions fprop_options(bool add_bias,
                            const LinearEpilogue& epilogue) const;
  GemmResult plain_product(const Tensor& x, const Tensor& w,
                           const GemmOptions& options) const;
  GemmResult quantized_product(const QuantizedTensor& x, bool local,
                               const QuantizedTensor& w,
                               GemmOptions options) const;
  GemmResult forward_plain(const Tensor& x, Saved* saved,
                           const GemmOptions& options);
  GemmResult forward_quantized(const QuantizedPass& pass, LinearInput x,
                               Saved* saved, const LinearCall& call,
                               GemmOptions options);
  Tensor finish_output(Tensor y, bool add_bias) const;
  bool bias_in_gemm(bool add_bias) const;
  Tensor plain_weight(DType activations) const;
  void save_quantized(const QuantizedPass& pass, LinearInput x, bool local,
                      Saved& saved) const;
  void check_input(const QuantizedPass& pass, const Shape& shape,
                   bool training) const;
  void add_bias_grad(const LinearGrad& dy, DType activations);
  void check_grad(const LinearGrad& dy, const Shape& shape,
                  const Saved& saved) const;
  Tensor input_for_wgrad(const Saved& saved,
                         std::optional<QuantizedTensor>& quantized) const;
  Tensor dgrad(const GemmOperand& dy, const Saved& saved,
               const LinearGradEpilogue& epilogue) const;
  void add_weight_grad(const GemmOperand& dy, const GemmOperand& x,
                       float alpha);
  void wgrad(LinearGrad dy, Saved saved, float alpha);

  QuantizedModule& module_;
  std::size_t gemm_;
  Parameter& weight_;
  Parameter* bias_;
  Options options_;
  std::shared_ptr<const QuantizedTensor> cached_weight_;
  std::shared_ptr<QuantizerStates> cached_for_;  // what quantised it
  std::deque<std::function<void()>> delayed_;
};

// Sets which directions a quantiser fills; per-tensor codes serve every product
// from one.
void set_directions(Quantizer& quantizer, bool rowwise, bool columnwise);
// Of a tensor with both directions, the one that a wgrad reads.
void keep_columnwise(QuantizedTensor& q);

// Throws Error{kUsage} "fc1: input: 12 rows, expected a multiple of 8 ..." for
// a shape that the recipe's GEMMs cannot take (NVTE: assert_dim_for_fp8_exec
// and each recipe's own).
void check_quantizable(std::string_view module, std::string_view argument,
                       const Shape& shape, const Recipe& recipe);

}  // namespace assay::te
