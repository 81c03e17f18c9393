// The quantisers of one direction of one module, with what they remember.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assay/te/recipe/recipe.h"

namespace assay::te {

// Histories with the same rule, and the rule. `slots` are positions in
// RecipeState::quantizers, in the order of the history's columns.
struct DelayedGroup {
  std::shared_ptr<DelayedScalingState> state;
  DelayedUpdateOptions options;
  bool reduce_amax = true;
  std::vector<std::size_t> slots;
};

struct RecipeState {
  std::vector<QuantizerRole> roles;
  // One a role. Those that scale with histories share the states below.
  std::vector<std::unique_ptr<Quantizer>> quantizers;
  // One for DelayedScaling, one a request for Custom, else none.
  std::vector<DelayedGroup> delayed;

  Quantizer& at(std::size_t slot) { return *quantizers[slot]; }
};

struct RecipeStateOptions {
  // Of recipes that take an amax from the tensor: current scaling and NVFP4,
  // for the roles that need one scale on all processes. May be null.
  std::shared_ptr<AmaxReduction> amax_reduction;
  // The positions of those roles. Empty: all of them.
  std::vector<std::size_t> reduced_slots = {};
};

// One quantiser for each role, all of one direction: the formats of forward
// roles are those of the forward pass. Usages are left at both directions,
// but for row-scaled NVFP4, which has no columns. Throws Error{kUsage} for a
// recipe that does not validate, roles of two directions, or a factory that
// gives nothing.
//
//   DelayedScaling        a slot of one history, in the order of the roles
//   Float8CurrentScaling  its own QParams a role
//   Float8BlockScaling    1 x 128 or 128 x 128 as the role's dim says
//   MXFP8BlockScaling     32 x 32 tiles for weights of linear layers if asked
//   NVFP4BlockScaling     see nvfp4_roles.h
//   Custom                what the factory gives
RecipeState make_recipe_state(const Recipe& r,
                              std::span<const QuantizerRole> roles,
                              const RecipeStateOptions& options = {});

// (input, weight, output) a GEMM, or (grad_output, grad_input): the order of
// the slots in NVTE's histories.
std::vector<QuantizerRole> gemm_roles(Direction direction, int gemms,
                                      const std::string& module_type = "linear",
                                      const std::string& name = "");

// Every history of `states` (of one direction, of a region): reduced over the
// group where its recipe asks for it, and updated.
void update_delayed_scaling(std::span<RecipeState* const> states,
                            AmaxReduction* reduction = nullptr);

}  // namespace assay::te
