#include "assay/te/recipe/recipe_state.h"

#include <algorithm>
#include <string>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/recipe/nvfp4_roles.h"

namespace assay::te {
namespace {

// Fills a state, one overload a recipe.
class Builder {
 public:
  Builder(RecipeState& state, const RecipeStateOptions& options)
      : state_(state), options_(options) {}

  void operator()(const recipe::DelayedScaling& r) {
    recipe::DelayedScalingRequest request{
        r.fp8_format,        r.margin,        r.amax_history_len,
        r.amax_compute_algo, r.amax_function, r.scaling_factor_compute_algo,
        r.reduce_amax};
    std::vector<std::size_t> slots;
    for (std::size_t i = 0; i < state_.roles.size(); ++i) slots.push_back(i);
    add_group(request, slots, r.unfused_update);
  }

  void operator()(const recipe::Float8CurrentScaling& r) {
    for (const QuantizerRole& role : state_.roles) {
      const QParams p =
          parameters(r, role.role).value_or(QParams{r.use_power_2_scales, 0});
      add(std::make_unique<CurrentScalingQuantizer>(
          CurrentScalingOptions{format_of(r.fp8_format, role), p.power_2_scale,
                                p.amax_epsilon, reduction(), std::nullopt}));
    }
  }

  void operator()(const recipe::Float8BlockScaling& r) {
    for (const QuantizerRole& role : state_.roles) {
      const QParams p =
          parameters(r, role.role).value_or(QParams{!r.use_f32_scales, 0});
      add(std::make_unique<Block128Quantizer>(Block128Options{
          format_of(r.fp8_format, role), block_dim(r, role.role),
          p.power_2_scale, p.amax_epsilon}));
    }
  }

  void operator()(const recipe::MXFP8BlockScaling& r) {
    for (const QuantizerRole& role : state_.roles) {
      const bool linear =
          role.module_type == "linear" || role.module_type == "grouped_linear";
      const bool tiles =
          r.enable_2d_quantization && linear && role.role == Role::kWeight;
      add(std::make_unique<MXFP8Quantizer>(format_of(r.fp8_format, role),
                                           tiles));
    }
  }

  void operator()(const recipe::NVFP4BlockScaling& r) {
    for (const QuantizerRole& role : state_.roles) {
      NVFP4Options nvfp4 = nvfp4_options(r, role.role);
      nvfp4.random_seed = r.random_seed + state_.quantizers.size();
      nvfp4.amax_reduction = reduction();
      auto quantizer = std::make_unique<NVFP4Quantizer>(nvfp4);
      if (nvfp4.row_scaled) quantizer->set_usage({true, false});
      add(std::move(quantizer));
    }
  }

  void operator()(const recipe::Custom& r) {
    for (std::size_t i = 0; i < state_.roles.size(); ++i) {
      recipe::QuantizerRequest made = r.qfactory(state_.roles[i]);
      if (const auto* request =
              std::get_if<recipe::DelayedScalingRequest>(&made)) {
        add_group(*request, {i}, false);
        continue;
      }
      auto& quantizer = std::get<std::unique_ptr<Quantizer>>(made);
      require(
          quantizer != nullptr, "CustomRecipe", "qfactory",
          "nothing for role " + std::string(role_name(state_.roles[i].role)),
          "a quantiser or a DelayedScalingRequest");
      add(std::move(quantizer));
    }
  }

 private:
  // Of the slot that comes next.
  std::shared_ptr<AmaxReduction> reduction() const {
    const auto& some = options_.reduced_slots;
    const bool reduced =
        some.empty() || std::find(some.begin(), some.end(),
                                  state_.quantizers.size()) != some.end();
    return reduced ? options_.amax_reduction : nullptr;
  }

  static DType format_of(Format format, const QuantizerRole& role) {
    return format_dtype(format, direction_of(role.role));
  }

  template <typename R>
  static std::optional<QParams> parameters(const R& r, Role role) {
    if (direction_of(role) == Direction::kBackward) return r.fp8_quant_bwd_grad;
    return role == Role::kWeight ? r.fp8_quant_fwd_weight : r.fp8_quant_fwd_inp;
  }

  static int block_dim(const recipe::Float8BlockScaling& r, Role role) {
    if (direction_of(role) == Direction::kBackward)
      return r.grad_block_scaling_dim;
    return role == Role::kWeight ? r.w_block_scaling_dim
                                 : r.x_block_scaling_dim;
  }

  void add(std::unique_ptr<Quantizer> quantizer) {
    state_.quantizers.push_back(std::move(quantizer));
  }

  // One history for `slots`, which come next in line.
  void add_group(const recipe::DelayedScalingRequest& r,
                 std::vector<std::size_t> slots, bool unfused) {
    DelayedGroup group;
    const auto count = static_cast<std::int64_t>(slots.size());
    group.state =
        std::make_shared<DelayedScalingState>(r.amax_history_len, count);
    group.reduce_amax = r.reduce_amax;
    group.slots = std::move(slots);
    DType format = DType::kE4M3FN;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t slot = group.slots[static_cast<std::size_t>(i)];
      format = format_of(r.fp8_format, state_.roles[slot]);
      add(std::make_unique<DelayedScalingQuantizer>(format, group.state, i));
    }
    group.options = {format_max(format),
                     r.margin,
                     r.amax_compute_algo,
                     r.amax_function,
                     r.scaling_factor_compute_algo,
                     unfused};
    state_.delayed.push_back(std::move(group));
  }

  RecipeState& state_;
  const RecipeStateOptions& options_;
};

// The groups of one rule are updated in one call; rules with functions are
// rules of their own.
bool same_rule(const DelayedUpdateOptions& a, const DelayedUpdateOptions& b) {
  const auto plain = [](const DelayedUpdateOptions& o) {
    return !o.amax_function && !o.scale_function;
  };
  return plain(a) && plain(b) && a.fp8_max == b.fp8_max &&
         a.margin == b.margin && a.algorithm == b.algorithm &&
         a.unfused == b.unfused;
}

}  // namespace

RecipeState make_recipe_state(const Recipe& r,
                              std::span<const QuantizerRole> roles,
                              const RecipeStateOptions& options) {
  validate(r);
  for (const QuantizerRole& role : roles)
    require(direction_of(role.role) == direction_of(roles[0].role),
            "make_recipe_state", "roles",
            std::string(role_name(roles[0].role)) + " and " +
                std::string(role_name(role.role)),
            "roles of one direction");
  RecipeState state;
  state.roles.assign(roles.begin(), roles.end());
  std::visit(Builder(state, options), r);
  return state;
}

std::vector<QuantizerRole> gemm_roles(Direction direction, int gemms,
                                      const std::string& module_type,
                                      const std::string& name) {
  require(gemms >= 0, "gemm_roles", "gemms", std::to_string(gemms),
          "0 or more");
  std::vector<QuantizerRole> roles;
  const auto add = [&](Role role) {
    roles.push_back({role, module_type, name});
  };
  for (int i = 0; i < gemms; ++i) {
    if (direction == Direction::kForward) {
      add(Role::kInput);
      add(Role::kWeight);
      add(Role::kOutput);
    } else {
      add(Role::kGradOutput);
      add(Role::kGradInput);
    }
  }
  return roles;
}

void update_delayed_scaling(std::span<RecipeState* const> states,
                            AmaxReduction* reduction) {
  std::vector<DelayedGroup*> groups;
  for (RecipeState* state : states)
    for (DelayedGroup& group : state->delayed) groups.push_back(&group);
  while (!groups.empty()) {
    const DelayedGroup& first = *groups.front();
    std::vector<DelayedScalingState*> together;
    std::vector<DelayedGroup*> rest;
    for (DelayedGroup* group : groups) {
      const bool joins =
          group == &first || (group->reduce_amax == first.reduce_amax &&
                              same_rule(group->options, first.options));
      if (joins)
        together.push_back(group->state.get());
      else
        rest.push_back(group);
    }
    delayed_bulk_update(together, first.reduce_amax ? reduction : nullptr,
                        first.options);
    groups = std::move(rest);
  }
}

}  // namespace assay::te
