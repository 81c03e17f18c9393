// Block-128 scaling.
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/layout.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

using namespace te;

void run_block128(const Case& c, Answers& answers) {
  Block128Options options;
  options.format = c.fp8_format();
  options.block_dim = c.choice<int>("block", {{"1x128", 1}, {"128x128", 2}});
  options.pow2 = c.flag("pow2_scales");
  options.epsilon = static_cast<float>(c.number("eps"));
  c.states("M", c.dim("x", 0));
  c.states("K", c.dim("x", 1));
  Block128Quantizer quantizer(options);
  const auto q = quantizer.quantize(c.input("x"));
  const auto gemm = [&](const QuantizedData& data) {
    return with_layout(data, q.shape, ScaleLayout::kGemmReady).scale_inv;
  };
  answers.give("code_row", q.rowwise->data);
  answers.give("scale_inv_row", q.rowwise->scale_inv);
  answers.give("code_col", q.columnwise->data);
  answers.give("scale_inv_col", q.columnwise->scale_inv);
  answers.give("scale_inv_row_gemm", gemm(*q.rowwise));
  answers.give("scale_inv_col_gemm", gemm(*q.columnwise));
  answers.give("dequant_row_f32", dequantize(q, DType::kF32));
}

const Registration kBlock128{"block128_", run_block128};

}  // namespace
}  // namespace assay::oracle
