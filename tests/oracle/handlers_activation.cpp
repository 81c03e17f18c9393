// Reference vectors of the activations: act_*, scaled_act_*.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/te/ops/activation.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

// act_unary_*, act_gated_*: "<name>_y" and "<name>_dx", with their float64
// counterparts.
void run_plain(const Case& c, Answers& answers) {
  const Tensor x = c.input("x"), dy = c.input("dy");
  c.states("N", c.dim("dy", 0));
  c.states("H", c.dim("dy", -1));
  for (int i = 0; i < kActivationCount; ++i) {
    const auto act = static_cast<Activation>(i);
    const std::string name(te::activation_name(act));
    if (!c.has_array(name + "_y")) continue;
    const Tensor y = te::activation_forward(act, x);
    const Tensor dx = te::activation_backward(act, dy, x);
    answers.give(name + "_y", y);
    answers.give(name + "_dx", dx);
    answers.give(name + "_y_f64", y);
    answers.give(name + "_dx_f64", dx);
  }
}

// act_fp8_*: the fp32 results, scaled and cast, and their largest magnitude.
void run_fp8(const Case& c, Answers& answers) {
  const Tensor x = c.input("x");
  const double scale = c.scalar("scale");
  c.states("scale", scale);
  const DType format = c.fp8_format();
  for (int i = 0; i < kActivationCount; ++i) {
    const auto act = static_cast<Activation>(i);
    const std::string name(te::activation_name(act));
    if (!c.has_array(name + "_code")) continue;
    Shape shape = x.shape();
    if (is_gated(act)) shape.back() /= 2;
    Tensor y = Tensor::empty(DType::kF32, shape);
    te::activation_rows_f32(act, x, 0, shape[0], {}, y.mutable_data<float>());
    Tensor code = Tensor::empty(format, shape);
    Tensor amax = Tensor::zeros(DType::kF32, {1});
    for (std::int64_t k = 0; k < y.numel(); ++k) {
      const float v = y.data<float>()[k];
      amax.mutable_data<float>()[0] =
          std::fmax(amax.data<float>()[0], std::fabs(v));
      const float scaled = v * static_cast<float>(scale);
      store_from_double(format, scaled, code.mutable_data(), k);
    }
    answers.give(name + "_code", code);
    answers.give(name + "_amax", amax);
  }
}

void run_scaled(const Case& c, Answers& answers) {
  const Tensor x = c.input("x"), scales = c.array("act_scales"),
               dy = c.input("dy");
  const std::vector<double> factors = c.values("act_scales");
  c.states("rows", c.dim("dy", 0));
  c.states("hidden", c.dim("dy", -1));
  c.states_flag("act_scales_all_one",
                std::all_of(factors.begin(), factors.end(),
                            [](double v) { return v == 1; }));
  ActivationParams params;
  const Parameters clamped = c.object("clamped_swiglu");
  params.limit = static_cast<float>(clamped.number("limit"));
  params.alpha = static_cast<float>(clamped.number("alpha"));
  params.linear_offset =
      static_cast<float>(clamped.number("glu_linear_offset"));
  const Parameters situ = c.object("situglu");
  params.beta1 = static_cast<float>(situ.number("beta1"));
  params.beta2 = static_cast<float>(situ.number("beta2"));
  for (const Activation act :
       {Activation::kSwiglu, Activation::kSituglu, Activation::kClampedSwiglu,
        Activation::kSRelu}) {
    const std::string name(te::activation_name(act));
    te::ActivationOptions options;
    options.params = params;
    Tensor in = x;
    if (is_gated(act)) {
      options.glu_interleave_size = c.integer("glu_interleave_size");
    } else {
      in.view.shape = dy.shape();  // the first R * H values of the buffer
    }
    answers.give(name + "_y",
                 te::scaled_activation_forward(act, in, scales, options));
    const auto grads =
        te::scaled_activation_backward(act, dy, in, scales, options);
    answers.give(name + "_dx", grads.dx);
    answers.give(name + "_dscales", grads.act_scales);
  }
}

const Registration kPlain{"act_", run_plain};
const Registration kFp8{"act_fp8_", run_fp8};
const Registration kScaled{"scaled_act_", run_scaled};

}  // namespace
}  // namespace assay::oracle
