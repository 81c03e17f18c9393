// Optimizers with state: parameters in groups, what each remembers of earlier
// steps, and the way of that into a checkpoint and back.
//
// Source: NVTE FusedAdam and FusedSGD, whose constructor fields, defaults and
// state names the options have. The arithmetic is that of adam.h and sgd.h, in
// fp32 with one rounding into each tensor. A parameter that is no float32 has a
// master copy where the options ask for one; a float32 one is its own master. A
// quantised parameter always needs one: the new master goes, unrounded, through
// the parameter's quantiser.
//
// Not thread-safe: one optimizer belongs to one thread. Results do not depend
// on the number of threads. Errors are Error{kUsage} and name the parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/te/modules/named_tensor.h"
#include "assay/te/optim/adam.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// Either `value`, which shares its bytes with the model and is updated where
// it is, or `quantized` with the quantiser that makes its new codes. That is
// asked for at every step: a module makes new ones when its recipe changes.
struct OptimizerParameter {
  std::string name;
  Tensor value = {};  // f32, bf16, f16
  std::shared_ptr<QuantizedTensor> quantized = nullptr;
  std::function<Quantizer*()> quantizer = nullptr;
  // Of a quantised one: the values before it was quantised, where the master
  // begins; else it begins with the decoded ones.
  std::optional<Tensor> high_precision_init = std::nullopt;
};

struct ParameterGroup {
  std::vector<OptimizerParameter> parameters;
  // The optimizer's where absent; set_lr() and set_weight_decay() give each
  // group the multiple that its factor says (Megatron's lr_mult, wd_mult).
  std::optional<double> lr = std::nullopt, weight_decay = std::nullopt;
  double lr_mult = 1, wd_mult = 1;
};

// All in one group, with the optimizer's settings.
std::vector<ParameterGroup> one_group(
    std::vector<OptimizerParameter> parameters);

struct StepOptions {
  // Multiplies the gradients first, in place (1 / loss scale).
  float inv_scale = 1;
  // One element; where it is not 0 nothing changes, the step count included.
  const Tensor* found_inf = nullptr;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One gradient a parameter, group after group in their order: f32, bf16 or
  // f16 of the parameter's shape. A gradient that is absent is an error: leave
  // frozen parameters out. False where found_inf held the step back.
  bool step(std::span<Tensor> grads, const StepOptions& options = {});

  std::int64_t step_count() const { return step_count_; }
  std::size_t parameter_count() const { return slots_.size(); }
  void set_lr(double lr);
  void set_weight_decay(double weight_decay);
  double lr(std::size_t group) const;
  double weight_decay(std::size_t group) const;

  // "step" (i64 [1]), and "<parameter>.<state>" with "<...>.scale" beside a
  // scaled one, sharing memory. Learning rates are the schedule's. Its size
  // does not depend on how many steps were made.
  std::vector<NamedTensor> state_dict();
  // Copies the tensors in: with the parameters restored too, training goes on
  // bit by bit as if never interrupted. Changes nothing where a name is
  // missing, unexpected or twice, or a shape or dtype differs.
  void load_state_dict(std::span<const NamedTensor> state);

  // A state in fp32, decoded where it is scaled, joined where it is a
  // remainder; and back (NVTE: get_unscaled_state, set_scaled_state).
  Tensor unscaled_state(const std::string& parameter, const std::string& state);
  void set_scaled_state(const std::string& parameter, const std::string& state,
                        const Tensor& values);

 protected:
  struct State {
    std::string name;
    Tensor data;
    Tensor scale;  // f32 [1] of a scaled one (adam.h), else absent
    bool scaled() const { return scale.view.data != nullptr; }
  };
  struct Slot {
    OptimizerParameter parameter;
    std::size_t group = 0;
    std::vector<State> states;
    State* find(std::string_view name);
    const Shape& shape() const;
    Device device() const;
    bool is_quantized() const { return parameter.quantized != nullptr; }
    bool splits() const;  // the master is the parameter and a remainder
  };
  // How masters are kept: f32, or f16 under a scale; bf16 parameters may keep
  // the low half only.
  struct Masters {
    bool wanted = false;
    DType dtype = DType::kF32;
    bool remainders = false;
  };

  Optimizer(std::string name, std::vector<ParameterGroup> groups, double lr,
            double weight_decay, const Masters& masters);

  // Zeros; scaled where the dtype is f16 or e4m3fn.
  static State zero_state(const Slot& slot, std::string name, DType dtype);
  // Updates the slots, given their gradients in the same order; `step` counts
  // from 1. Quantised parameters are written afterwards, by step().
  virtual void update(std::span<Tensor> grads, std::int64_t step) = 0;

  std::string name_;
  std::vector<ParameterGroup> groups_;
  std::vector<Slot> slots_;

 private:
  void add_master(Slot& slot, const Masters& masters);
  Slot& slot_of(const std::string& parameter, const std::string& state);
  void check_grads(std::span<Tensor> grads) const;

  double lr_, weight_decay_;
  std::int64_t step_count_ = 0;
};

// fp32 working copies of states for one update: the tensor itself where it can
// be updated as it is (f32, bf16), else decoded values that commit() encodes.
class WorkingState {
 public:
  WorkingState(Tensor& data, Tensor& scale);
  Tensor& tensor() { return scale_ != nullptr ? values_ : *data_; }
  void commit();

 private:
  Tensor* data_;
  Tensor* scale_;  // null where the state is not scaled
  Tensor values_;
};

struct FusedAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;  // refused, as by NVTE
  bool bias_correction = true;
  bool adam_w_mode = true;  // decoupled decay; else L2
  bool master_weights = false;
  DType master_weight_dtype = DType::kF32;  // or f16, under a scale
  // f32, bf16, or f16 and e4m3fn (NVTE: uint8) under a scale.
  DType exp_avg_dtype = DType::kF32, exp_avg_sq_dtype = DType::kF32;
  // bf16 parameters keep the low half of their master as i16; needs
  // master_weights in f32.
  bool store_param_remainders = false;
};

// States: exp_avg, exp_avg_sq, and master_param where there is a master.
class FusedAdam : public Optimizer {
 public:
  explicit FusedAdam(std::vector<ParameterGroup> groups,
                     const FusedAdamOptions& options = {});
  // One group: FusedAdam(trainable(model), {.lr = 1e-4}).
  explicit FusedAdam(std::vector<OptimizerParameter> parameters,
                     const FusedAdamOptions& options = {});

 private:
  void update(std::span<Tensor> grads, std::int64_t step) override;
  FusedAdamOptions options_;
};

struct FusedSGDOptions {
  double lr = 1e-3;  // required by NVTE
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool wd_after_momentum = false;
  bool master_weights = false;  // in f32; in NVTE what amp's stash does
};

// States: momentum_buffer (f32) where momentum is not 0, and master_param.
class FusedSGD : public Optimizer {
 public:
  explicit FusedSGD(std::vector<ParameterGroup> groups,
                    const FusedSGDOptions& options = {});
  explicit FusedSGD(std::vector<OptimizerParameter> parameters,
                    const FusedSGDOptions& options = {});

 private:
  void update(std::span<Tensor> grads, std::int64_t step) override;
  FusedSGDOptions options_;
};

}  // namespace assay::te
