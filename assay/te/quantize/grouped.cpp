#include "assay/te/quantize/grouped.h"

#include <cstring>
#include <string>

#include "assay/te/check.h"
#include "assay/te/quantize/layout.h"
#include "assay/te/splits.h"

namespace assay::te {
namespace {

// Rows [begin, begin + n) of a contiguous matrix, sharing its bytes.
Tensor rows_of(const Tensor& x, std::int64_t begin, std::int64_t n) {
  const std::int64_t columns = matrix_shape(x.shape()).columns;
  Tensor part = x;
  part.view.shape = {n, columns};
  part.view.strides.clear();
  part.view.data += begin * columns * (traits(x.dtype()).bits / 8);
  return part;
}

}  // namespace

std::vector<QuantizedTensor> quantize_split(
    Quantizer& quantizer, const Tensor& input,
    std::span<const std::int64_t> rows) {
  require_high_precision("quantize_split", "x", input);
  require_splits("quantize_split", "rows", rows,
                 matrix_shape(input.shape()).rows);
  const Tensor x = contiguous(input);
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (std::int64_t n : rows) {
    parts.push_back(rows_of(x, begin, n));
    begin += n;
  }
  return quantizer.quantize_multi(parts);
}

Tensor dequantize_split(std::span<const QuantizedTensor> groups, DType out) {
  require(!groups.empty(), "dequantize_split", "groups", "none", "one or more");
  std::int64_t rows = 0;
  const std::int64_t columns = matrix_shape(groups[0].shape).columns;
  for (const QuantizedTensor& q : groups) {
    const auto m = matrix_shape(q.shape);
    require(m.columns == columns, "dequantize_split", "groups",
            std::to_string(m.columns) + " columns", std::to_string(columns));
    rows += m.rows;
  }
  Tensor all = Tensor::empty(out, {rows, columns}, groups[0].device);
  std::byte* to = all.mutable_data();
  for (const QuantizedTensor& q : groups) {
    const Tensor part = dequantize(q, out);
    const auto bytes = part.view.bytes();
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  }
  return all;
}

void requantize_columnwise(Quantizer& quantizer,
                           std::span<QuantizedTensor> groups) {
  std::vector<Tensor> values;
  for (const QuantizedTensor& q : groups) {
    require(q.rowwise.has_value(), "requantize_columnwise", "groups",
            "no row-wise data", "row-wise data");
    values.push_back(dequantize(*q.rowwise, q.shape, q.dtype));
  }
  const Usage usage = quantizer.usage();
  quantizer.set_usage({.rowwise = false, .columnwise = true});
  std::vector<QuantizedTensor> made;
  try {
    made = quantizer.quantize_multi(values);
  } catch (...) {
    quantizer.set_usage(usage);
    throw;
  }
  quantizer.set_usage(usage);
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i].columnwise = std::move(made[i].columnwise);
}

void set_layout(std::span<QuantizedTensor> tensors, ScaleLayout layout) {
  for (QuantizedTensor& q : tensors) {
    if (q.rowwise) q.rowwise = with_layout(*q.rowwise, q.shape, layout);
    if (q.columnwise)
      q.columnwise = with_layout(*q.columnwise, q.shape, layout);
  }
}

}  // namespace assay::te
