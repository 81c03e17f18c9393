#include "assay/conform/engine/recipe_contract.h"

#include <string>

#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/recipe/nvte_dtype.h"
#include "assay/te/recipe/recipe.h"

namespace assay::conform {
namespace {

Value name_of(te::Format format) {
  return std::string(te::format_name(format));
}

Value name_of(te::BackwardOverride override) {
  switch (override) {
    case te::BackwardOverride::kNone:
      return {};
    case te::BackwardOverride::kHighPrecision:
      return "high_precision";
    case te::BackwardOverride::kDequantized:
      return "dequantized";
  }
  return {};
}

Value name_of(const te::MMParams& params) {
  return Object{{"use_split_accumulator", params.use_split_accumulator}};
}

// Ranges are whole numbers in NVTE.
Value range_of(te::Format format, te::Direction direction) {
  const float largest = te::format_max(te::format_dtype(format, direction));
  return static_cast<std::int64_t>(largest);
}

Object dtypes() {
  Object members;
  for (const te::NvteDType& entry : te::nvte_dtypes())
    members[std::string(entry.name)] = entry.code;
  return members;
}

Object formats() {
  Object members;
  for (const te::Format format : {te::Format::kE2M1, te::Format::kE4M3,
                                  te::Format::kE5M2, te::Format::kHybrid})
    members[std::string(te::format_name(format))] =
        List{range_of(format, te::Direction::kForward),
             range_of(format, te::Direction::kBackward)};
  return members;
}

// The fields that every recipe has.
template <typename R>
Object common(const R& recipe) {
  return {{"fp8_format", name_of(recipe.fp8_format)},
          {"fp8_dpa", recipe.fp8_dpa},
          {"fp8_mha", recipe.fp8_mha},
          {"backward_override", name_of(recipe.backward_override)}};
}

// Those of the per-tensor and block recipes whose GEMMs are configurable.
template <typename R>
Object with_gemms(const R& recipe) {
  Object fields = common(recipe);
  fields["fp8_gemm_fprop"] = name_of(recipe.fp8_gemm_fprop);
  fields["fp8_gemm_dgrad"] = name_of(recipe.fp8_gemm_dgrad);
  fields["fp8_gemm_wgrad"] = name_of(recipe.fp8_gemm_wgrad);
  return fields;
}

Object delayed() {
  const te::recipe::DelayedScaling recipe;
  Object fields = common(recipe);
  fields["margin"] = recipe.margin;
  fields["amax_history_len"] = recipe.amax_history_len;
  fields["amax_compute_algo"] =
      recipe.amax_compute_algo == te::AmaxAlgorithm::kMax ? "max"
                                                          : "most_recent";
  // A function where one is set; none is the default rule.
  fields["scaling_factor_compute_algo"] =
      recipe.scaling_factor_compute_algo ? Value("function") : Value();
  fields["reduce_amax"] = recipe.reduce_amax;
  return fields;
}

Object current() {
  const te::recipe::Float8CurrentScaling recipe;
  Object fields = with_gemms(recipe);
  fields["use_power_2_scales"] = recipe.use_power_2_scales;
  return fields;
}

Object block() {
  const te::recipe::Float8BlockScaling recipe;
  Object fields = with_gemms(recipe);
  fields["use_f32_scales"] = recipe.use_f32_scales;
  fields["x_block_scaling_dim"] = recipe.x_block_scaling_dim;
  fields["w_block_scaling_dim"] = recipe.w_block_scaling_dim;
  fields["grad_block_scaling_dim"] = recipe.grad_block_scaling_dim;
  return fields;
}

Object mxfp8() {
  const te::recipe::MXFP8BlockScaling recipe;
  Object fields = common(recipe);
  fields["margin"] = recipe.margin;
  fields["enable_2d_quantization"] = recipe.enable_2d_quantization;
  return fields;
}

Object nvfp4() {
  const te::recipe::NVFP4BlockScaling recipe;
  Object fields = common(recipe);
  fields["disable_rht"] = recipe.disable_rht;
  fields["disable_stochastic_rounding"] = recipe.disable_stochastic_rounding;
  fields["disable_2d_quantization"] = recipe.disable_2d_quantization;
  fields["row_scaled_activation"] = recipe.row_scaled_activation;
  fields["nvfp4_4over6"] = recipe.nvfp4_4over6;
  fields["nvfp4_4over6_e4m3_use_256"] = recipe.nvfp4_4over6_e4m3_use_256;
  fields["nvfp4_4over6_err_mode"] = recipe.nvfp4_4over6_err_mode;
  fields["fp4_format"] = name_of(recipe.fp4_format);
  return fields;
}

Object custom() {
  const te::recipe::Custom recipe;
  Object fields = common(recipe);
  fields["quantization_alignment"] = recipe.quantization_alignment;
  return fields;
}

Object current_quantizer() {
  const te::CurrentScalingOptions options;
  return {{"force_pow_2_scales", options.pow2},
          {"amax_epsilon", double{options.epsilon}}};
}

Object block_quantizer() {
  const te::Block128Options options;
  return {{"force_pow_2_scales", options.pow2},
          {"amax_epsilon", double{options.epsilon}},
          {"block_scaling_dim", options.block_dim}};
}

Object nvfp4_quantizer() {
  const te::NVFP4Options options;
  return {{"with_rht", options.rht},
          {"with_2d_quantization", options.with_2d},
          {"stochastic_rounding", options.stochastic_rounding},
          {"row_scaled_nvfp4", options.row_scaled},
          {"nvfp4_use_4over6", options.four_over_six != FourOverSix::kNone},
          {"nvfp4_e4m3_max", static_cast<std::int64_t>(options.scale_max)},
          {"with_random_sign_mask", options.rht_sign_mask != 0}};
}

}  // namespace

Object recipe_contract() {
  const te::MXFP8Options mxfp8_options;
  const Object defaults = {
      {"DelayedScaling", delayed()},
      {"Float8CurrentScaling", current()},
      {"Float8BlockScaling", block()},
      {"MXFP8BlockScaling", mxfp8()},
      {"NVFP4BlockScaling", nvfp4()},
      {"CustomRecipe", custom()},
      {"Float8CurrentScalingQuantizer", current_quantizer()},
      {"Float8BlockQuantizer", block_quantizer()},
      {"MXFP8Quantizer",
       Object{{"with_2d_quantization", mxfp8_options.with_2d}}},
      {"NVFP4Quantizer", nvfp4_quantizer()}};
  return {{"enums", Object{{"DType", dtypes()}, {"Format", formats()}}},
          {"defaults", defaults}};
}

}  // namespace assay::conform
