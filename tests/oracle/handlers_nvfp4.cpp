// NVFP4 quantisation: plain, tiles, 4-over-6, rotated, row-scaled.
#include <bit>
#include <string>

#include "assay/numerics/nvfp4_scale.h"
#include "assay/te/quantize/hadamard.h"
#include "assay/te/quantize/layout.h"
#include "assay/te/quantize/nvfp4.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

using te::NVFP4Options;
using te::QuantizedTensor;

Tensor flat(Tensor t) {
  t.view.shape = {t.numel()};
  t.view.strides.clear();
  return t;
}

QuantizedTensor quantize(const Case& c, const NVFP4Options& options,
                         bool columnwise = true) {
  c.states("M", c.dim("x", 0));
  c.states("K", c.dim("x", 1));
  te::NVFP4Quantizer quantizer(options);
  quantizer.set_usage({true, columnwise});
  return quantizer.quantize(c.input("x"));
}

bool square(const Case& c) {
  return c.has("tile") &&
         c.choice<bool>("tile", {{"1x16", false}, {"16x16", true}});
}

void give_codes(const QuantizedTensor& q, Answers& answers) {
  answers.give("code_row", q.rowwise->data);
  answers.give("scale_row", q.rowwise->scale_inv);
  if (!q.columnwise) return;
  answers.give("code_col", q.columnwise->data);
  answers.give("scale_col", q.columnwise->scale_inv);
}

void give_values(const Case& c, const QuantizedTensor& q, Answers& answers) {
  const auto tiled =
      te::with_layout(*q.rowwise, q.shape, te::ScaleLayout::kSwizzled);
  if (c.has_array("scale_row_swizzled"))
    answers.give("scale_row_swizzled", flat(tiled.scale_inv));
  if (c.has_array("dequant_f32"))
    answers.give("dequant_f32", te::dequantize(tiled, q.shape, DType::kF32));
  if (c.has_array("dequant_bf16"))
    answers.give("dequant_bf16", te::dequantize(tiled, q.shape, DType::kBF16));
}

void run_plain(const Case& c, Answers& answers) {
  const QuantizedTensor q = quantize(c, {.with_2d = square(c)});
  answers.give("global_amax", q.rowwise->amax);
  if (c.has_array("s_enc")) {
    Tensor s = Tensor::empty(DType::kF32, {1});
    *s.mutable_data<float>() =
        nvfp4_global(*q.rowwise->amax.data<float>()).encode;
    answers.give("s_enc", s);
  }
  give_codes(q, answers);
  give_values(c, q, answers);
}

void run_four_over_six(const Case& c, Answers& answers) {
  NVFP4Options options;
  options.with_2d = square(c);
  options.four_over_six = c.choice<FourOverSix>(
      "err_mode", {{"MAE", FourOverSix::kMae}, {"MSE", FourOverSix::kMse}});
  const double scale_max = c.number("e4m3_max");
  if (scale_max != 256) c.states("e4m3_max", 448.0);
  options.scale_max = static_cast<float>(scale_max);
  c.states_flag("err_fast_math", false);
  const QuantizedTensor q = quantize(c, options);
  answers.give("global_amax", q.rowwise->amax);
  give_codes(q, answers);
}

// fp32 product with the matrix, as the definition has it.
Tensor exact_product(const Tensor& x_t, const Tensor& h) {
  Tensor out = Tensor::empty(DType::kF32, x_t.shape());
  for (std::int64_t i = 0; i < x_t.numel(); ++i) {
    double sum = 0;
    for (int j = 0; j < 16; ++j) {
      const std::int64_t at = i / 16 * 16 + j;
      const std::uint32_t code = x_t.data<std::uint16_t>()[at];
      sum += static_cast<double>(std::bit_cast<float>(code << 16)) *
             h.data<float>()[j * 16 + i % 16];
    }
    out.mutable_data<float>()[i] = static_cast<float>(sum);
  }
  return out;
}

Tensor transposed(const Tensor& x) {
  Tensor view = x;
  view.view.strides = {1, x.shape()[1]};
  view.view.shape = {x.shape()[1], x.shape()[0]};
  return contiguous(view);
}

void run_rht(const Case& c, Answers& answers) {
  const std::uint16_t signs =
      c.flag("random_sign_mask") ? te::kDefaultSignMask : 0;
  const Tensor x = c.input("x");
  const Tensor h = te::hadamard_matrix(signs);
  answers.give("rht_matrix", h);
  answers.give("rht_exact", exact_product(transposed(x), h));
  answers.give("rht_bf16", te::hadamard_transform_transposed(x, signs));
  const QuantizedTensor q = quantize(c, {.rht = true, .rht_sign_mask = signs});
  answers.give("amax_row", q.rowwise->amax);
  answers.give("amax_col", q.columnwise->amax);
  give_codes(q, answers);
}

void run_row_scaled(const Case& c, Answers& answers) {
  const QuantizedTensor q = quantize(c, {.row_scaled = true}, false);
  answers.give("row_amax", q.rowwise->amax);
  give_codes(q, answers);
  give_values(c, q, answers);
}

void run_underflow(const Case& c, Answers& answers) {
  const QuantizedTensor q = quantize(c, {});
  answers.give("global_amax", q.rowwise->amax);
  answers.give("scale_row", q.rowwise->scale_inv);
  answers.give("code_row_python", q.rowwise->data);
}

const Registration kPlain{"nvfp4_", run_plain};
const Registration kFourOverSix{"nvfp4_4over6", run_four_over_six};
const Registration kRht{"nvfp4_rht", run_rht};
const Registration kRowScaled{"nvfp4_rowscaled", run_row_scaled};
const Registration kUnderflow{"nvfp4_scale_underflow", run_underflow};

}  // namespace
}  // namespace assay::oracle
