#include <functional>
#include <tuple>

#include "assay/te/recipe/recipe.h"

namespace assay::te {

static bool operator==(const MMParams& a, const MMParams& b) {
  return a.use_split_accumulator == b.use_split_accumulator;
}

static bool operator==(const QParams& a, const QParams& b) {
  return a.power_2_scale == b.power_2_scale && a.amax_epsilon == b.amax_epsilon;
}

namespace {

template <typename Result, typename... Args>
bool same_function(const std::function<Result(Args...)>& a,
                   const std::function<Result(Args...)>& b) {
  if (a.target_type() != b.target_type()) return false;
  // All functions of one signature have one type.
  using Pointer = Result (*)(Args...);
  const auto *p = a.template target<Pointer>(),
             *q = b.template target<Pointer>();
  return !p || !q || *p == *q;
}

auto key(const recipe::DelayedScaling& r) {
  return std::tie(r.margin, r.fp8_format, r.amax_history_len,
                  r.amax_compute_algo, r.reduce_amax, r.fp8_dpa, r.fp8_mha,
                  r.backward_override, r.unfused_update);
}

auto key(const recipe::Float8CurrentScaling& r) {
  return std::tie(r.use_power_2_scales, r.fp8_format, r.fp8_gemm_fprop,
                  r.fp8_gemm_dgrad, r.fp8_gemm_wgrad, r.fp8_dpa, r.fp8_mha,
                  r.backward_override, r.fp8_quant_fwd_inp,
                  r.fp8_quant_fwd_weight, r.fp8_quant_bwd_grad);
}

auto key(const recipe::Float8BlockScaling& r) {
  return std::tie(r.use_f32_scales, r.fp8_format, r.x_block_scaling_dim,
                  r.w_block_scaling_dim, r.grad_block_scaling_dim,
                  r.fp8_gemm_fprop, r.fp8_gemm_dgrad, r.fp8_gemm_wgrad,
                  r.fp8_dpa, r.fp8_mha, r.backward_override,
                  r.fp8_quant_fwd_inp, r.fp8_quant_fwd_weight,
                  r.fp8_quant_bwd_grad);
}

auto key(const recipe::MXFP8BlockScaling& r) {
  return std::tie(r.margin, r.fp8_format, r.fp8_dpa, r.fp8_mha,
                  r.backward_override, r.enable_2d_quantization);
}

auto key(const recipe::NVFP4BlockScaling& r) {
  return std::tie(r.disable_rht, r.disable_stochastic_rounding,
                  r.disable_2d_quantization, r.row_scaled_activation,
                  r.nvfp4_4over6, r.nvfp4_4over6_e4m3_use_256,
                  r.nvfp4_4over6_err_mode, r.fp4_format, r.fp8_format,
                  r.fp8_dpa, r.fp8_mha, r.backward_override, r.random_seed);
}

auto key(const recipe::Custom& r) {
  return std::tie(r.fp8_format, r.fp8_dpa, r.fp8_mha, r.backward_override,
                  r.quantization_alignment);
}

// The functions, which no key can hold.
template <typename R>
bool same_functions(const R&, const R&) {
  return true;
}
bool same_functions(const recipe::DelayedScaling& a,
                    const recipe::DelayedScaling& b) {
  return same_function(a.amax_function, b.amax_function) &&
         same_function(a.scaling_factor_compute_algo,
                       b.scaling_factor_compute_algo);
}
bool same_functions(const recipe::Custom& a, const recipe::Custom& b) {
  return same_function(a.qfactory, b.qfactory);
}

}  // namespace

bool same_recipe(const Recipe& a, const Recipe& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        const auto& y = std::get<std::decay_t<decltype(x)>>(b);
        return key(x) == key(y) && same_functions(x, y);
      },
      a);
}

}  // namespace assay::te
