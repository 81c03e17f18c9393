// Scopes that say in which recipe modules compute, and in which their weights
// are made: NVTE's autocast and quantized_model_init.
//
// Scopes belong to a thread and nest; the innermost counts. Delayed scaling is
// updated when the outermost enabled scope ends (forward) and at the end of
// the backward of the first module that ran in it (backward).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "assay/te/recipe/recipe_state.h"

namespace assay::te {

// Histories that modules have filled in one outermost scope.
class AutocastRegion {
 public:
  struct Entry {
    std::shared_ptr<RecipeState> forward, backward;
    std::shared_ptr<AmaxReduction> reduction;
  };
  // False where the states are there already. The first entry's module has
  // the last backward of the region.
  bool add(const Entry& entry);
  bool empty() const { return entries_.empty(); }
  // Reduces and updates what was registered, in the order of registration;
  // collective over each entry's group.
  void update_forward();
  void update_backward();

 private:
  void update(std::shared_ptr<RecipeState> Entry::*states);
  std::vector<Entry> entries_;
};

// What a module asks when its forward begins.
struct AutocastState {
  bool enabled = false;
  bool calibrating = false;  // record maxima, compute in high precision
  std::shared_ptr<const Recipe> recipe;
  std::shared_ptr<AmaxReduction> amax_reduction;
  std::shared_ptr<AutocastRegion> region;  // of the outermost enabled scope
};
const AutocastState& autocast_state();

// NVTE's get_default_recipe() where everything is supported.
Recipe default_recipe();

struct AutocastOptions {
  bool enabled = true;
  // With enabled = false: delayed scaling's maxima are recorded, no scale
  // changes. With true it has no effect, as in NVTE.
  bool calibrating = false;
  Recipe recipe = default_recipe();
  // Maxima of delayed scaling are the maximum over this group (reduce_amax).
  // Current scaling and NVFP4 take that over the tensor parallel group, where
  // tensors are cut along the sequence.
  std::shared_ptr<AmaxReduction> amax_reduction;
};

class Autocast {
 public:
  // Throws Error{kUsage} for a recipe that does not validate.
  explicit Autocast(const AutocastOptions& options);
  explicit Autocast(Recipe recipe)
      : Autocast(AutocastOptions{.recipe = std::move(recipe)}) {}
  // end(), unless an exception passes or it was called.
  ~Autocast() noexcept(false);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  // Leaves the scope. Throws Error{kUsage} where it is not the innermost open
  // one of the thread.
  void end();

 private:
  void leave();
  AutocastState before_;
  const Autocast* around_;
  bool outermost_ = false, open_ = true;
  int exceptions_;
};

// Puts a state back for as long as it lives, without updating anything when it
// ends: recomputation runs under the state of the first pass.
class RestoredAutocast {
 public:
  explicit RestoredAutocast(AutocastState state);
  ~RestoredAutocast();
  RestoredAutocast(const RestoredAutocast&) = delete;
  RestoredAutocast& operator=(const RestoredAutocast&) = delete;

 private:
  AutocastState before_;
};

struct QuantizedModelInitOptions {
  bool enabled = true;
  Recipe recipe = default_recipe();
  // Keeps Parameter::high_precision_init.
  bool preserve_high_precision_init_val = false;
};

// The innermost scope's options; null outside of any, or where it is disabled.
const QuantizedModelInitOptions* quantized_model_init();

// Weights of linear layers made while it lives are stored quantised; norms and
// biases are not.
class QuantizedModelInit {
 public:
  explicit QuantizedModelInit(QuantizedModelInitOptions options);
  explicit QuantizedModelInit(Recipe recipe)
      : QuantizedModelInit(
            QuantizedModelInitOptions{.recipe = std::move(recipe)}) {}
  ~QuantizedModelInit();
  QuantizedModelInit(const QuantizedModelInit&) = delete;
  QuantizedModelInit& operator=(const QuantizedModelInit&) = delete;

 private:
  QuantizedModelInitOptions options_;
  const QuantizedModelInitOptions* before_;
};

}  // namespace assay::te
