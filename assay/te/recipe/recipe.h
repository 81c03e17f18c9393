// Recipes: which quantiser each role of a layer gets. The names, fields and
// defaults are those of NVTE's common.recipe.
//
// Defaults that NVTE takes from the environment are taken from it when a recipe
// is made. What the constructor is given takes effect; in NVTE the arguments
// use_power_2_scales and use_f32_scales do not reach the quantisers of linear
// layers, only the variables read at import do (docs/numerics.md, trap T3).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "assay/te/quantize/delayed_state.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// Element formats of the forward and of the backward pass.
enum class Format : std::uint8_t {
  kE4M3,        // e4m3 both: 448
  kE5M2,        // e5m2 both: 57344; no recipe takes it
  kHybrid,      // e4m3 forward, e5m2 backward
  kE2M1,        // e2m1: NVFP4's elements
  kE4M3Fnuz,    // e4m3fnuz both: 240. Not in NVTE: the formats of AMD MI300
  kHybridFnuz,  // e4m3fnuz forward, e5m2fnuz backward: 240, 57344
};
std::string_view format_name(Format format);  // "E4M3", "HYBRID" ...

enum class Direction : std::uint8_t { kForward, kBackward };
DType format_dtype(Format format, Direction direction);

// What is saved for the backward pass, and what its GEMMs run on.
enum class BackwardOverride : std::uint8_t {
  kNone,           // quantised operands
  kHighPrecision,  // the original tensors, in their dtype
  kDequantized,    // the decoded rowwise data
};

// Roles of one GEMM's tensors.
enum class Role : std::uint8_t {
  kInput,
  kWeight,
  kOutput,
  kGradOutput,
  kGradInput,
};
std::string_view role_name(Role role);  // "input", "grad_output" ...
constexpr Direction direction_of(Role role) {
  return role < Role::kGradOutput ? Direction::kForward : Direction::kBackward;
}

struct QuantizerRole {
  Role role = Role::kInput;
  std::string module_type = "linear";  // "linear", "grouped_linear", "dpa"
  std::string name;                    // of the module; free text
};

// False: a GPU may sum in reduced precision; sums here are always fp32.
struct MMParams {
  bool use_split_accumulator = true;
};

struct QParams {
  bool power_2_scale = false;
  float amax_epsilon = 0;
};

namespace recipe {

// NVTE_BACKWARD_OVERRIDE; none where it is unset. Throws Error{kUsage} for a
// value that is neither "high_precision" nor "dequantized".
BackwardOverride default_backward_override();
// True where the variable is "1".
bool environment_flag(const char* name);
// The variable, or `otherwise` where it is unset.
std::string environment_text(const char* name, const char* otherwise);

struct DelayedScaling {
  int margin = 0;
  Format fp8_format = Format::kHybrid;
  std::int64_t amax_history_len = 1024;
  AmaxAlgorithm amax_compute_algo = AmaxAlgorithm::kMax;
  AmaxFunction amax_function;                 // instead of the algorithm
  ScaleFunction scaling_factor_compute_algo;  // instead of the default rule
  bool reduce_amax = true;
  bool fp8_dpa = false;
  bool fp8_mha = false;
  BackwardOverride backward_override = default_backward_override();
  bool unfused_update = environment_flag("NVTE_UNFUSED_FP8_UPDATE");
};

struct Float8CurrentScaling {
  bool use_power_2_scales =
      environment_flag("NVTE_FP8_CURRENT_SCALING_POWER_2_SCALES");
  Format fp8_format = Format::kHybrid;
  MMParams fp8_gemm_fprop = {.use_split_accumulator = false};
  MMParams fp8_gemm_dgrad = {};
  MMParams fp8_gemm_wgrad = {};
  bool fp8_dpa = false;
  bool fp8_mha = false;
  BackwardOverride backward_override = default_backward_override();
  // Of one role; where absent: {use_power_2_scales, 0}.
  std::optional<QParams> fp8_quant_fwd_inp = std::nullopt;
  std::optional<QParams> fp8_quant_fwd_weight = std::nullopt;
  std::optional<QParams> fp8_quant_bwd_grad = std::nullopt;
};

struct Float8BlockScaling {
  bool use_f32_scales = environment_flag("NVTE_FP8_BLOCK_SCALING_FP32_SCALES");
  Format fp8_format = Format::kE4M3;
  int x_block_scaling_dim = 1;
  int w_block_scaling_dim = 2;
  int grad_block_scaling_dim = 1;
  MMParams fp8_gemm_fprop = {};
  MMParams fp8_gemm_dgrad = {};
  MMParams fp8_gemm_wgrad = {};
  bool fp8_dpa = false;
  bool fp8_mha = false;
  BackwardOverride backward_override = default_backward_override();
  // Of one role; where absent: {not use_f32_scales, 0}.
  std::optional<QParams> fp8_quant_fwd_inp = std::nullopt;
  std::optional<QParams> fp8_quant_fwd_weight = std::nullopt;
  std::optional<QParams> fp8_quant_bwd_grad = std::nullopt;
};

struct MXFP8BlockScaling {
  int margin = 0;  // unused, as in NVTE
  Format fp8_format = Format::kE4M3;
  bool fp8_dpa = false;
  bool fp8_mha = false;
  BackwardOverride backward_override = default_backward_override();
  // One exponent for each 32 x 32 tile of the weights of linear layers.
  bool enable_2d_quantization = false;
};

struct NVFP4BlockScaling {
  bool disable_rht = environment_flag("NVTE_NVFP4_DISABLE_RHT");
  bool disable_stochastic_rounding =
      environment_flag("NVTE_NVFP4_DISABLE_STOCHASTIC_ROUNDING");
  bool disable_2d_quantization =
      environment_flag("NVTE_NVFP4_DISABLE_2D_QUANTIZATION");
  bool row_scaled_activation =
      environment_flag("NVTE_NVFP4_ROW_SCALED_ACTIVATION");
  // Scopes: "none", "weights", "activations" (of the forward pass), "all".
  std::string nvfp4_4over6 = environment_text("NVTE_NVFP4_4OVER6", "none");
  std::string nvfp4_4over6_e4m3_use_256 =
      environment_text("NVTE_NVFP4_4OVER6_E4M3_USE_256", "all");
  // "MAE" or "MSE", in either case.
  std::string nvfp4_4over6_err_mode =
      environment_text("NVTE_NVFP4_4OVER6_ERR_MODE", "MAE");
  Format fp4_format = Format::kE2M1;
  Format fp8_format = Format::kE4M3;
  bool fp8_dpa = false;
  bool fp8_mha = false;
  BackwardOverride backward_override = default_backward_override();
  // Of stochastic rounding: slot i of a state draws with random_seed + i.
  std::uint64_t random_seed = 0;
};

// Asks for a slot of a history instead of a quantiser.
struct DelayedScalingRequest {
  Format fp8_format = Format::kHybrid;
  int margin = 0;
  std::int64_t amax_history_len = 1024;
  AmaxAlgorithm amax_compute_algo = AmaxAlgorithm::kMax;
  AmaxFunction amax_function;
  ScaleFunction scaling_factor_compute_algo;
  bool reduce_amax = true;
};

using QuantizerRequest =
    std::variant<std::unique_ptr<Quantizer>, DelayedScalingRequest>;

struct Custom {
  // Called once for each slot; null pointers are refused. NVTE passes no role
  // for output and grad_input; here every slot has one.
  std::function<QuantizerRequest(const QuantizerRole& role)> qfactory;
  Format fp8_format = Format::kHybrid;
  bool fp8_dpa = false;
  bool fp8_mha = false;
  BackwardOverride backward_override = default_backward_override();
  std::int64_t quantization_alignment = 128;
};

}  // namespace recipe

using Recipe =
    std::variant<recipe::DelayedScaling, recipe::Float8CurrentScaling,
                 recipe::Float8BlockScaling, recipe::MXFP8BlockScaling,
                 recipe::NVFP4BlockScaling, recipe::Custom>;

std::string_view recipe_name(const Recipe& r);  // "DelayedScaling" ...

// Throws Error{kUsage} "recipe: field: value, expected ..." for what NVTE
// refuses when a recipe is made, and for what no quantiser can do. Called by
// everything that takes a recipe.
void validate(const Recipe& r);

// Whether the same quantisers would be made of both: fields equal, functions
// of the same type (what two closures of one lambda hold is not compared).
bool same_recipe(const Recipe& a, const Recipe& b);

BackwardOverride backward_override(const Recipe& r);
// What rows of a grouped GEMM are padded to: 32 for MXFP8, 128 for NVFP4,
// Custom's own, else 16.
std::int64_t quantization_alignment(const Recipe& r);

}  // namespace assay::te
