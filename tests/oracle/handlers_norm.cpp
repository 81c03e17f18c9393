// Reference vectors of LayerNorm and RMSNorm: norm_*.
#include <cmath>

#include "assay/numerics/element.h"
#include "assay/te/ops/norm.h"
#include "assay/te/ops/norm_rows.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

void give(Answers& answers, const std::string& name, const Tensor& ours) {
  answers.give(name, ours);
  answers.give(name + "_f64", ours);
}

// Codes and amax of the fp32 z.
void give_fp8(const Case& c, const Tensor& x, const Tensor& gamma,
              const Tensor* beta, const te::NormOptions& options,
              Answers& answers) {
  const te::NormRows rows("norm", x, gamma, beta, options, DType::kF32);
  Tensor z = Tensor::empty(DType::kF32, x.shape());
  rows.forward(0, rows.rows(), z.mutable_data());
  const auto scale = static_cast<float>(c.scalar("fp8_scale"));
  Tensor codes = Tensor::empty(DType::kE4M3FN, x.shape());
  Tensor amax = Tensor::zeros(DType::kF32, {1});
  for (std::int64_t i = 0; i < z.numel(); ++i) {
    const float v = z.data<float>()[i];
    amax.mutable_data<float>()[0] =
        std::fmax(amax.data<float>()[0], std::fabs(v));
    store_from_double(DType::kE4M3FN, static_cast<double>(v * scale),
                      codes.mutable_data(), i);
  }
  answers.give("z_e4m3", codes);
  answers.give("z_amax", amax);
}

void run(const Case& c, Answers& answers) {
  const Tensor x = c.input("x"), gamma = c.input("gamma"), dz = c.input("dz");
  const bool layernorm =
      c.choice<bool>("norm", {{"LayerNorm", true}, {"RMSNorm", false}});
  c.states("N", c.dim("x", 0));
  c.states("H", c.dim("x", 1));
  if (layernorm) c.states_flag("residual_add", false);
  te::NormOptions options;
  options.eps = static_cast<float>(c.number("eps"));
  options.zero_centered_gamma = c.flag("zero_centered_gamma");
  const Tensor beta = layernorm ? c.input("beta") : Tensor();
  const te::NormForward forward =
      layernorm ? te::layernorm_forward(x, gamma, beta, options)
                : te::rmsnorm_forward(x, gamma, options);
  te::NormBackward backward;
  if (layernorm)
    backward = te::layernorm_backward(dz, x, forward.mean, forward.rsigma,
                                      gamma, options);
  else if (c.flag("residual_add"))
    backward = te::rmsnorm_backward_add(dz, x, c.input("residual_grad"),
                                        forward.rsigma, gamma, options);
  else
    backward = te::rmsnorm_backward(dz, x, forward.rsigma, gamma, options);
  give(answers, "z", forward.z);
  give(answers, "rsigma", forward.rsigma);
  give(answers, "dx", backward.dx);
  give(answers, "dgamma", backward.dgamma);
  if (layernorm) {
    give(answers, "mu", forward.mean);
    give(answers, "dbeta", backward.dbeta);
  }
  if (c.has_array("z_e4m3"))
    give_fp8(c, x, gamma, layernorm ? &beta : nullptr, options, answers);
}

const Registration kNorms{"norm_", run};

}  // namespace
}  // namespace assay::oracle
