// MXFP8 quantisation, its scales and the tiled layout of them.
#include <cmath>
#include <string>

#include "assay/base/error.h"
#include "assay/numerics/element.h"
#include "assay/numerics/mxfp8_scale.h"
#include "assay/te/ops/bias_grad.h"
#include "assay/te/quantize/fused.h"
#include "assay/te/quantize/layout.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/rounding_point.h"
#include "assay/te/quantize/scale_tiles.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

using te::QuantizedData;

void check_sizes(const Case& c) {
  c.states("M", c.dim("x", 0));
  c.states("K", c.dim("x", 1));
}

Tensor flat(Tensor t) {
  t.view.shape = {t.numel()};
  t.view.strides.clear();
  return t;
}

void give_direction(const Case& c, Answers& answers, const std::string& side,
                    const QuantizedData& q, const Shape& shape) {
  answers.give("code_" + side, q.data);
  answers.give("scale_" + side, q.scale_inv);
  const std::string swizzled = "scale_" + side + "_swizzled";
  const QuantizedData tiled =
      te::with_layout(q, shape, te::ScaleLayout::kSwizzled);
  if (c.has_array(swizzled)) answers.give(swizzled, flat(tiled.scale_inv));
  const std::string values = "dequant_" + side + "_f32";
  // From the tiled scales: the way back is checked too.
  if (c.has_array(values))
    answers.give(values, te::dequantize(tiled, shape, DType::kF32));
}

void run_quantize(const Case& c, Answers& answers) {
  check_sizes(c);
  const bool square =
      c.has("block") &&
      c.choice<bool>("block", {{"1x32 rowwise, 32x1 columnwise", false},
                               {"32x32 (2D, replicated)", true}});
  te::MXFP8Quantizer quantizer(c.fp8_format(), square);
  const te::QuantizedTensor q = quantizer.quantize(c.input("x"));
  give_direction(c, answers, "row", *q.rowwise, q.shape);
  give_direction(c, answers, "col", *q.columnwise, q.shape);
}

// dy * dgelu(x) as the reference's host code has it, every operation in fp32.
// Below |dgelu| of about 1e-6 its 0.5 (1 + t) cancels and nothing but that
// cancellation is left, where the engine's own derivative is right to an ulp:
// so the vector can check what follows the activation, not the activation.
// (Fused.DgeluAgainstFp64 checks that one.)
Tensor reference_dgelu(const Tensor& dy, const Tensor& x) {
  Tensor out = Tensor::empty(DType::kF32, x.shape());
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const auto v =
        static_cast<float>(load_as_double(x.dtype(), x.view.data, i));
    const auto g =
        static_cast<float>(load_as_double(dy.dtype(), dy.view.data, i));
    const float t = std::tanh(0.79788456f * v * (1 + 0.044715f * v * v));
    const float d =
        0.5f * v * ((1 - t * t) * (0.79788456f + 0.1070322243f * v * v)) +
        0.5f * (1 + t);
    out.mutable_data<float>()[i] = g * d;
  }
  return out;
}

// The activation of CAST_ACT, by the engine's own names.
Activation activation_of(const Case& c) {
  const std::string name = c.text("function");
  const auto act = te::parse_activation(name);
  if (!act)
    throw Error(Code::kUsage, c.name() + ": parameter \"function\" is \"" +
                                  name + "\", expected an activation");
  return *act;
}

enum class Method { kAct, kDbias, kDbiasDact };

void run_fused(const Case& c, Answers& answers) {
  check_sizes(c);
  te::MXFP8Quantizer quantizer(c.fp8_format());
  const Tensor x = c.input("x"), grad = c.input("grad");
  const auto method =
      c.choice<Method>("method", {{"CAST_ACT", Method::kAct},
                                  {"CAST_DBIAS", Method::kDbias},
                                  {"CAST_DBIAS_DACT", Method::kDbiasDact}});
  te::QuantizedWithDbias result;
  if (method == Method::kAct) {
    result.quantized = te::activation_quantize(quantizer, activation_of(c), x);
  } else if (method == Method::kDbias) {
    c.one_of("function", {"none"});
    result = te::quantize_dbias(quantizer, grad);
  } else {
    c.one_of("function", {"dgelu"});
    const Tensor dx = reference_dgelu(grad, x);
    result = {te::quantize_result(quantizer, dx, x.dtype()),
              te::bias_grad(dx, x.dtype())};
  }
  const auto& q = result.quantized;
  give_direction(c, answers, "row", *q.rowwise, q.shape);
  give_direction(c, answers, "col", *q.columnwise, q.shape);
  if (c.has_array("dbias")) answers.give("dbias", result.dbias);
}

void run_scale_table(const Case& c, Answers& answers) {
  for (const std::string name : {"e4m3", "e5m2"}) {
    const DType format = name == "e4m3" ? DType::kE4M3FN : DType::kE5M2;
    const Tensor amax = c.array("amax_" + name);
    Tensor codes = Tensor::empty(DType::kE8M0, amax.shape());
    Tensor factors = Tensor::empty(DType::kF32, amax.shape());
    for (std::int64_t i = 0; i < amax.numel(); ++i) {
      const std::uint8_t code = mx_scale_code(amax.data<float>()[i], format);
      codes.mutable_data<std::uint8_t>()[i] = code;
      factors.mutable_data<float>()[i] = mx_factor(code);
    }
    answers.give("exponent_" + name, codes);
    answers.give("factor_" + name, factors);
  }
}

void run_swizzle(const Case& c, Answers& answers) {
  c.states("rows", c.dim("row_in", 0));
  c.states("cols", c.dim("row_in", 1));
  answers.give("row_swizzled", flat(te::swizzle_scales(c.array("row_in"))));
  answers.give("col_swizzled",
               flat(te::swizzle_scales_transposed(c.array("col_in"))));
}

const Registration kQuantize{"mxfp8_", run_quantize};
const Registration kFused{"mxfp8_fused", run_fused};
const Registration kScales{"mxfp8_scale_table", run_scale_table};
const Registration kSwizzle{"swizzle_", run_swizzle};

}  // namespace
}  // namespace assay::oracle
