// Linear: y = x W^T + b, TransformerEngine's module of that name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/te/modules/linear_core.h"
#include "assay/te/modules/random.h"

namespace assay::te {

// What modules with linear layers share; names and defaults are NVTE's.
struct LinearOptions {
  bool bias = true;
  // The bias is not added: the caller does, by bias(). Where there is one.
  bool return_bias = false;
  DType params_dtype = DType::kF32;
  InitMethod init_method;  // absent: normal_init(0.023)
  ParallelMode parallel_mode = ParallelMode::kNone;
  TensorParallel tp = {};
  // Rows of the weight under names of their own, in this order: {"query", 64}
  // gives query_weight [64, in] and query_bias. Their sizes (of all ranks) add
  // up to out_features; every one is cut by itself.
  std::vector<std::pair<std::string, std::int64_t>> parameters_split = {};
  // A column-parallel weight is that many blocks of rows, each cut by itself: 2
  // where the rows are [gate; linear], so that every rank has its part of both.
  int row_blocks = 1;
  bool fuse_wgrad_accumulation = false;
  bool delay_wgrad_compute = false;
  bool save_original_input = false;
  Device device = Device::kCpu;
  std::string name = {};
};

// Names, and cuts, of the parameters of one linear layer of a module; and the
// layer itself. What LinearOptions ask for, for modules that contain one.
class LinearParameters {
 public:
  // Adds "weight" and "bias", with `prefix` before ("fc1_weight"), or the split
  // names, to `module` by `add`. Sizes are those of all ranks.
  using Add = std::function<Parameter&(std::string, Parameter)>;
  LinearParameters(const std::string& module_name, const Add& add,
                   const std::string& prefix, std::int64_t in_features,
                   std::int64_t out_features, const LinearOptions& options);
  LinearParameters(const LinearParameters&) = delete;
  LinearParameters& operator=(const LinearParameters&) = delete;

  Parameter& weight() { return *weight_; }
  Parameter* bias() { return bias_; }
  bool is_split() const { return !split_weights_.empty(); }
  // Nothing where there is no split. Before a forward: the whole needs a
  // gradient where a part does, in fp32 where a part has a main_grad (`fuse`).
  void follow_parts(bool fuse);
  // After a backward: gives the parts their rows of the gradients that have
  // come to the whole.
  void distribute_gradients(bool fuse);

 private:
  Parameter* weight_ = nullptr;
  Parameter* bias_ = nullptr;
  std::unique_ptr<Parameter> whole_weight_, whole_bias_;  // of a split
  std::vector<Parameter*> split_weights_, split_biases_;
};

class Linear : public QuantizedModule {
 public:
  struct Context {
    LinearCore::Saved saved;
    std::function<void()> finish;
    void visit_tensors(const TensorVisitor& visit) const {
      saved.visit_tensors(visit);
    }
  };

  // weight [out, in], bias [out], of this rank: column-parallel layers have
  // out / tp_size rows, row-parallel ones in / tp_size columns and the whole
  // bias. Within QuantizedModelInit the weight is stored quantised. Throws
  // Error{kUsage} for sizes that are not positive or cannot be cut.
  Linear(std::int64_t in_features, std::int64_t out_features,
         const LinearOptions& options = {});

  // x [..., in] to [..., out], float32, bfloat16 or float16; outside of
  // Autocast of the parameters' dtype. `context` null: inference.
  Tensor forward(const Tensor& x, Context* context = nullptr,
                 const LinearCall& call = {});
  // dy [..., out] to dx [..., in] in x's dtype; gradients are added to the
  // parameters. `context` is used up.
  Tensor backward(const Tensor& dy, Context& context);

  // The same for codes: x quantised as this layer's input is (in the directions
  // that it needs), dy as its grad_output is.
  Tensor forward(LinearInput x, Context* context, const LinearCall& call = {});
  Tensor backward(LinearGrad dy, Context& context);
  // NVTE's fp8_output and fp8_grad: y or dx as codes, by the quantisers of the
  // slots output and grad_input (fp8_result.h). Throws Error{kUsage} for other
  // recipes, outside of Autocast, and where the sum runs over ranks. Observers
  // see neither: they exist in no high precision.
  QuantizedTensor forward_fp8(LinearInput x, Context* context,
                              const LinearCall& call = {});
  QuantizedTensor backward_fp8(LinearGrad dy, Context& context);

  bool need_backward_dw() const override { return core_->has_delayed(); }
  // Null where there is none.
  Parameter* bias() { return parameters_.bias(); }
  Parameter& weight() { return parameters_.weight(); }
  std::int64_t in_features() const { return in_features_; }
  std::int64_t out_features() const { return out_features_; }

 protected:
  void on_new_quantizers() override;
  void own_backward_dw() override;

 private:
  Tensor run_forward(LinearInput x, Context* context, const LinearCall& call,
                     const LinearEpilogue& epilogue);
  Tensor run_backward(LinearGrad dy, Context& context,
                      const LinearGradEpilogue& epilogue);
  std::int64_t in_features_, out_features_;
  LinearOptions options_;
  LinearParameters parameters_;
  std::optional<LinearCore> core_;
};

}  // namespace assay::te
