// Matrix products of quantised operands.
#include <string>

#include "assay/te/ops/gemm.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

using te::GemmOptions;
using te::GemmResult;
using te::QuantizedData;
using te::QuantizedTensor;
using te::ScalingMode;

// y [M, N] = x [M, K] w [N, K]^T; `packed` codes to a byte.
void check_sizes(const Case& c, const std::string& x, const std::string& w,
                 std::int64_t packed = 1) {
  c.states("M", c.dim(x, 0));
  c.states("N", c.dim(w, 0));
  c.states("K", packed * c.dim(x, 1));
}

GemmOptions to(DType dtype) {
  GemmOptions options;
  options.out_dtype = dtype;
  return options;
}

// Rowwise codes of a matrix that stands for fp32.
QuantizedTensor rowwise(ScalingMode mode, Tensor codes, Tensor scales) {
  QuantizedTensor q;
  q.dtype = DType::kF32;
  q.shape = codes.shape();
  q.rowwise = QuantizedData{.mode = mode,
                            .format = codes.dtype(),
                            .data = std::move(codes),
                            .scale_inv = std::move(scales)};
  return q;
}

QuantizedTensor per_tensor(const Case& c, const std::string& name) {
  return rowwise(ScalingMode::kTensor,
                 c.as(name + "_code", c.fp8_format(name + "_format")),
                 c.array(name + "_scale_inv"));
}

void run_fp8(const Case& c, Answers& answers) {
  check_sizes(c, "x_code", "w_code");
  const QuantizedTensor x = per_tensor(c, "x"), w = per_tensor(c, "w"),
                        dy = per_tensor(c, "dy");
  const Tensor bias = c.array("bias");
  GemmOptions options = to(DType::kF32);
  answers.give("y_f64", te::gemm_fprop(x, w, options).d);
  answers.give("dx_f64", te::gemm_dgrad(dy, w, options).d);
  answers.give("dw_f64", te::gemm_wgrad(dy, x, options).d);
  options.bias = &bias;
  answers.give("y_bias_f64", te::gemm_fprop(x, w, options).d);
  options.gelu = true;
  answers.give("y_bias_gelu_f64", te::gemm_fprop(x, w, options).d);
  GemmOptions fp8 = to(DType::kF32);
  fp8.fp8_output = te::Fp8Output{DType::kE4M3FN,
                                 static_cast<float>(c.scalar("y_fp8_scale"))};
  const GemmResult y = te::gemm_fprop(x, w, fp8);
  answers.give("y_e4m3", y.fp8->rowwise->data);
  answers.give("y_amax_f64", y.fp8->rowwise->amax);
}

ScalingMode block_mode(const Case& c, const std::string& name) {
  return c.choice<ScalingMode>(
      name + "_scaling",
      {{"1D", ScalingMode::kBlock1D}, {"2D", ScalingMode::kBlock2D}});
}

void run_block(const Case& c, Answers& answers) {
  check_sizes(c, "x_code", "w_code");
  if (block_mode(c, "x") == ScalingMode::kBlock2D)
    c.one_of("order", {"t = partial*s_w; acc = fma(t,s_x,acc)"});
  else
    c.one_of("order", {"t = partial*s_x; acc = fma(t,s_w,acc)"});
  c.describes({"exact_partials", "pow2_scales"});
  const auto side = [&](const std::string& name) {
    return rowwise(block_mode(c, name),
                   c.as(name + "_code", c.fp8_format(name + "_format")),
                   c.array(name + "_scale_inv"));
  };
  const QuantizedTensor x = side("x"), w = side("w");
  const Tensor y = te::gemm_fprop(x, w, to(DType::kF32)).d;
  answers.give("y", y);
  answers.give("y_f64", y);
  answers.give("y_bf16", te::gemm_fprop(x, w, to(DType::kBF16)).d);
}

QuantizedTensor mx(const Case& c, const std::string& name, DType format) {
  QuantizedTensor q = rowwise(ScalingMode::kMXFP8, c.as(name + "_row", format),
                              c.as(name + "_row_scale", DType::kE8M0));
  q.columnwise =
      QuantizedData{.mode = ScalingMode::kMXFP8,
                    .format = format,
                    .columnwise = true,
                    .data = c.as(name + "_col", format),
                    .scale_inv = c.as(name + "_col_scale", DType::kE8M0)};
  return q;
}

void run_mx(const Case& c, Answers& answers) {
  check_sizes(c, "x_row", "w_row");
  const DType forward = c.fp8_format("x_w_format");
  const QuantizedTensor x = mx(c, "x", forward), w = mx(c, "w", forward),
                        dy = mx(c, "dy", c.fp8_format("dy_format"));
  const GemmOptions options = to(DType::kF32);
  answers.give("y_f64", te::gemm_fprop(x, w, options).d);
  answers.give("dx_f64", te::gemm_dgrad(dy, w, options).d);
  answers.give("dw_f64", te::gemm_wgrad(dy, x, options).d);
}

void run_nvfp4(const Case& c, Answers& answers) {
  check_sizes(c, "x_code", "w_code", 2);
  c.one_of("alpha", {"amax_x*amax_w/(36*448*448)"});
  const auto side = [&](const std::string& name) {
    QuantizedTensor q =
        rowwise(ScalingMode::kNVFP4, c.as(name + "_code", DType::kE2M1),
                c.as(name + "_scale", DType::kE4M3FN));
    q.rowwise->amax = c.array(name + "_amax");
    return q;
  };
  const Tensor y = te::gemm_fprop(side("x"), side("w"), to(DType::kF32)).d;
  answers.give("y", y);
  answers.give("y_f64", y);
}

const Registration kFp8{"gemm_fp8_", run_fp8};
const Registration kBlock{"gemm_block128_", run_block};
const Registration kMx{"gemm_mxfp8_", run_mx};
const Registration kNvfp4{"gemm_nvfp4_", run_nvfp4};

}  // namespace
}  // namespace assay::oracle
