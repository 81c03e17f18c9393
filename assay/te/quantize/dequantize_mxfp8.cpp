#include <algorithm>

#include "assay/base/parallel.h"
#include "assay/kernels/block_quant.h"
#include "assay/numerics/mxfp8_scale.h"
#include "assay/te/check.h"
#include "assay/te/quantize/dequantize_modes.h"

namespace assay::te {
namespace {

constexpr std::int64_t kRows = 32;  // of one task: a column's block

std::int64_t blocks_of(std::int64_t n) { return (n + kMxBlock - 1) / kMxBlock; }

// Rows [begin, end) of the result.
void decode_rows(const QuantizedData& q, MatrixShape m, std::int64_t begin,
                 std::int64_t end, Tensor& out) {
  const auto decode = block_quant_kernels(q.data.device).mxfp8_decode;
  const std::int64_t size = traits(out.dtype()).bits / 8;
  const auto* codes = q.data.data<std::uint8_t>();
  const auto* scales = q.scale_inv.data<std::uint8_t>();
  Mxfp8Row row;
  row.format = q.format;
  row.output = out.dtype();
  row.columnwise = q.columnwise;
  row.columns = m.columns;
  row.rows = q.columnwise ? end - begin : 1;
  for (std::int64_t r = begin; r < end; r += row.rows) {
    row.codes = codes + r * m.columns;
    row.scales = q.columnwise ? scales + r / kMxBlock * m.columns
                              : scales + r * blocks_of(m.columns);
    row.out = out.mutable_data() + r * m.columns * size;
    decode(row);
  }
}

}  // namespace

Tensor dequantize_mxfp8(const QuantizedData& q, const Shape& shape, DType out) {
  Tensor result = Tensor::empty(out, shape, q.data.device);
  require_high_precision("dequantize", "out", result);
  const MatrixShape m = matrix_shape(shape);
  require_shape("dequantize", "data", q.data, {m.rows, m.columns});
  require_shape("dequantize", "scale_inv", q.scale_inv,
                q.columnwise ? Shape{blocks_of(m.rows), m.columns}
                             : Shape{m.rows, blocks_of(m.columns)});
  parallel_for(blocks_of(m.rows), [&](std::int64_t i) {
    decode_rows(q, m, i * kRows, std::min(m.rows, (i + 1) * kRows), result);
  });
  return result;
}

}  // namespace assay::te
