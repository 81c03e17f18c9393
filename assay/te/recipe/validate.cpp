// What a recipe may hold, field by field.
#include <cmath>

#include "assay/te/check.h"
#include "assay/te/recipe/nvfp4_roles.h"
#include "assay/te/recipe/recipe.h"

namespace assay::te {
namespace {

// The checks of one recipe: its name, then the fields.
struct Check {
  std::string_view recipe;

  void that(bool ok, std::string_view field, const std::string& found,
            const std::string& expected) const {
    require(ok, recipe, field, found, expected);
  }
  void format(Format format) const {
    const bool fp8 = format != Format::kE5M2 && format != Format::kE2M1;
    that(fp8, "fp8_format", std::string(format_name(format)),
         "E4M3, HYBRID or their fnuz forms");
  }
  // Formats of a recipe that exists in OCP's formats only.
  void ocp_format(Format format) const {
    const bool ocp = format == Format::kE4M3 || format == Format::kHybrid;
    that(ocp, "fp8_format", std::string(format_name(format)), "E4M3 or HYBRID");
  }
  void off(bool value, std::string_view field) const {
    that(!value, field, "true", "false");
  }
  void parameters(const std::optional<QParams>& p,
                  std::string_view field) const {
    if (!p) return;
    that(p->amax_epsilon >= 0 && std::isfinite(p->amax_epsilon), field,
         "amax_epsilon " + std::to_string(p->amax_epsilon), "0 or more");
  }
  void dim(int value, std::string_view field) const {
    that(value == 1 || value == 2, field, std::to_string(value), "1 or 2");
  }
  void split(const MMParams& p, std::string_view field) const {
    that(p.use_split_accumulator, field, "use_split_accumulator false",
         "true: partial sums of blocks are fp32");
  }
};

void check(const Check& c, const recipe::DelayedScaling& r) {
  c.format(r.fp8_format);
  c.that(r.amax_history_len >= 1, "amax_history_len",
         std::to_string(r.amax_history_len), "1 or more");
  c.that(r.margin >= -64 && r.margin <= 64, "margin", std::to_string(r.margin),
         "-64 to 64");
  c.that(r.backward_override == BackwardOverride::kNone, "backward_override",
         "set", "none");
}

void check(const Check& c, const recipe::Float8CurrentScaling& r) {
  c.format(r.fp8_format);
  c.parameters(r.fp8_quant_fwd_inp, "fp8_quant_fwd_inp");
  c.parameters(r.fp8_quant_fwd_weight, "fp8_quant_fwd_weight");
  c.parameters(r.fp8_quant_bwd_grad, "fp8_quant_bwd_grad");
}

void check(const Check& c, const recipe::Float8BlockScaling& r) {
  c.format(r.fp8_format);
  c.dim(r.x_block_scaling_dim, "x_block_scaling_dim");
  c.dim(r.w_block_scaling_dim, "w_block_scaling_dim");
  c.dim(r.grad_block_scaling_dim, "grad_block_scaling_dim");
  const int two = (r.x_block_scaling_dim == 2) + (r.w_block_scaling_dim == 2) +
                  (r.grad_block_scaling_dim == 2);
  c.that(two <= 1, "block_scaling_dim", std::to_string(two) + " of them 2",
         "at most one: no GEMM multiplies 128 x 128 by 128 x 128 blocks");
  c.split(r.fp8_gemm_fprop, "fp8_gemm_fprop");
  c.split(r.fp8_gemm_dgrad, "fp8_gemm_dgrad");
  c.split(r.fp8_gemm_wgrad, "fp8_gemm_wgrad");
  c.off(r.fp8_dpa, "fp8_dpa");
  c.off(r.fp8_mha, "fp8_mha");
  c.parameters(r.fp8_quant_fwd_inp, "fp8_quant_fwd_inp");
  c.parameters(r.fp8_quant_fwd_weight, "fp8_quant_fwd_weight");
  c.parameters(r.fp8_quant_bwd_grad, "fp8_quant_bwd_grad");
}

void check(const Check& c, const recipe::MXFP8BlockScaling& r) {
  c.ocp_format(r.fp8_format);
}

void check(const Check& c, const recipe::NVFP4BlockScaling& r) {
  c.that(r.fp4_format == Format::kE2M1, "fp4_format",
         std::string(format_name(r.fp4_format)), "E2M1");
  c.that(r.fp8_format == Format::kE4M3, "fp8_format",
         std::string(format_name(r.fp8_format)), "E4M3");
  for (const auto& [field, text] :
       {std::pair{"nvfp4_4over6", r.nvfp4_4over6},
        std::pair{"nvfp4_4over6_e4m3_use_256", r.nvfp4_4over6_e4m3_use_256}})
    c.that(is_nvfp4_scope(text), field, "\"" + text + "\"",
           "none, weights, activations or all");
  c.that(nvfp4_error_mode(r).has_value(), "nvfp4_4over6_err_mode",
         "\"" + r.nvfp4_4over6_err_mode + "\"", "MAE or MSE");
  const bool activations = nvfp4_in_scope(r.nvfp4_4over6, Role::kInput);
  c.that(!activations || r.disable_rht || r.row_scaled_activation,
         "nvfp4_4over6", "\"" + r.nvfp4_4over6 + "\" with the transform",
         "disable_rht where activations take it");
}

void check(const Check& c, const recipe::Custom& r) {
  c.that(r.qfactory != nullptr, "qfactory", "none", "a function");
  c.that(r.quantization_alignment >= 1, "quantization_alignment",
         std::to_string(r.quantization_alignment), "1 or more");
}

}  // namespace

void validate(const Recipe& r) {
  std::visit([&](const auto& one) { check({recipe_name(r)}, one); }, r);
}

}  // namespace assay::te
