// The base of modules that quantise: quantisers of both directions, made for
// the recipe of the Autocast scope they first ran in and kept while it stays
// the same, and the bookkeeping of a pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/te/modules/autocast.h"
#include "assay/te/modules/module.h"
#include "assay/te/modules/tensor_parallel_config.h"

namespace assay::te {

// What a module keeps for one recipe. Contexts share it: a backward works with
// the quantisers of its forward even where the recipe has changed since.
struct QuantizerStates {
  std::shared_ptr<const Recipe> recipe;
  std::shared_ptr<RecipeState> forward, backward;
};

class QuantizedModule : public Module {
 public:
  // Slots: (input, weight, output) and (grad_output, grad_input) for each of
  // `gemms` products. `module_type`: "linear", "grouped_linear", "dpa".
  QuantizedModule(std::string type, std::string name, int gemms,
                  std::string module_type = "linear");

  // Null before the first pass in a scope.
  const std::shared_ptr<QuantizerStates>& quantizer_states() const {
    return states_;
  }
  // Makes the states without a pass, as NVTE's init_fp8_metadata: for loading,
  // and for weights that are stored quantised. Nothing where they are there for
  // the same recipe; histories of delayed scaling go on under changed settings.
  void init_quantizers(std::shared_ptr<const Recipe> recipe);

  // scale_fwd [slots], amax_history_fwd [length, slots], scale_bwd,
  // amax_history_bwd of delayed scaling; with a Custom recipe's n-th history
  // ".n" behind. random_offset_bwd of NVFP4 (random_offsets.h), which NVTE
  // does not have and a state to be loaded may lack. Other recipes have none.
  // Sizes do not grow.
  std::vector<NamedTensor> extra_state() override;
  // Histories of another length lose their last rows or get rows of zeros.
  void check_extra_state(std::span<const NamedTensor> state) const override;
  // Into the histories there are, or kept for the pass that makes them, which
  // throws where its recipe has others.
  void load_extra_state(std::span<const NamedTensor> state) override;

 protected:
  // Called when quantisers were made anew: caches of the old ones are void.
  virtual void on_new_quantizers() {}
  void on_loaded() override {
    if (states_) on_new_quantizers();
  }
  // Under current scaling and NVFP4, a tensor that is cut across a tensor
  // parallel group by sequence parallelism has one scale there: the input of a
  // column-parallel, the grad_output of a row-parallel layer (NVTE). Both
  // modes may be set, for different products. Before the first pass.
  void reduce_amax_over_sequence(std::size_t gemm, ParallelMode mode,
                                 const TensorParallel& tp);

 private:
  void load_into(QuantizerStates& states);
  int gemms_;
  std::string module_type_;
  std::shared_ptr<AmaxReduction> reduction_;
  std::vector<std::size_t> reduced_forward_, reduced_backward_;  // slots
  std::shared_ptr<QuantizerStates> states_;
  std::vector<NamedTensor> pending_state_;
};

// One forward of a module, from its first quantisation to its result: what the
// scope says, the quantisers, registration for the update at the region's end,
// and the exchange of scales where the pass is a recomputation.
class QuantizedPass {
 public:
  // `training`: a context is filled; else no history is updated at the end.
  QuantizedPass(QuantizedModule& module, bool training);
  ~QuantizedPass();
  QuantizedPass(const QuantizedPass&) = delete;
  QuantizedPass& operator=(const QuantizedPass&) = delete;

  bool quantizing() const { return states_ && !calibrating_; }
  bool calibrating() const { return calibrating_; }
  bool training() const { return training_; }
  const Recipe& recipe() const { return *states_->recipe; }
  BackwardOverride backward_override() const;
  // Null outside of Autocast.
  const std::shared_ptr<QuantizerStates>& states() const { return states_; }
  // 3 gemm + {0, 1, 2}: input, weight, output.
  Quantizer& forward(std::size_t slot) const;
  // Records max |x| in the slot's history where it has one.
  void calibrate(std::size_t slot, const Tensor& x) const;
  // What the backward must call when it is done: updates the backward
  // histories of the region if this pass was the first in it.
  std::function<void()> backward_finish() const;

 private:
  void restore(const QuantizedModule& module, const Recipe& recipe);
  void stash(const QuantizedModule& module) const;
  std::shared_ptr<QuantizerStates> states_;
  std::shared_ptr<AutocastRegion> region_;
  bool calibrating_ = false, training_ = false, first_ = false;
  // Of a pass that is run again: the histories of now.
  std::vector<DelayedScalingState> histories_of_now_;
};

}  // namespace assay::te
