#include "assay/te/quantize/mxfp8.h"

#include <algorithm>
#include <string>
#include <utility>

#include "assay/kernels/block_quant.h"
#include "assay/kernels/movement.h"
#include "assay/numerics/mxfp8_scale.h"
#include "assay/te/check.h"
#include "assay/te/quantize/round_input.h"

namespace assay::te {
namespace {

constexpr const char* kOp = "MXFP8Quantizer";
// One task: 32 rows of this many columns.
constexpr std::int64_t kChunk = 2048;

std::int64_t blocks_of(std::int64_t n) { return (n + kMxBlock - 1) / kMxBlock; }

QuantizedData empty_direction(DType format, MatrixShape m, bool columnwise,
                              Device device) {
  QuantizedData q;
  q.mode = ScalingMode::kMXFP8;
  q.format = format;
  q.columnwise = columnwise;
  q.data = Tensor::empty(format, {m.rows, m.columns}, device);
  const Shape scales = columnwise ? Shape{blocks_of(m.rows), m.columns}
                                  : Shape{m.rows, blocks_of(m.columns)};
  q.scale_inv = Tensor::empty(DType::kE8M0, scales, device);
  return q;
}

std::uint8_t* bytes_at(Tensor& t, std::int64_t offset) {
  return t.mutable_data<std::uint8_t>() + offset;
}

// The strip of rows from r0 and columns from c0 on.
Mxfp8Strip strip_at(const Tensor& x, QuantizedTensor& q, std::int64_t r0,
                    std::int64_t c0) {
  const auto [rows, columns] = matrix_shape(x.shape());
  Mxfp8Strip s;
  s.input = x.dtype();
  s.stride = s.code_stride = columns;
  s.rows = std::min<std::int64_t>(kMxBlock, rows - r0);
  s.columns = std::min(kChunk, columns - c0);
  const std::int64_t at = r0 * columns + c0;
  s.x = x.view.data + at * (traits(x.dtype()).bits / 8);
  if (q.rowwise) {
    s.row_scale_stride = blocks_of(columns);
    s.row_codes = bytes_at(q.rowwise->data, at);
    s.row_scales =
        bytes_at(q.rowwise->scale_inv, r0 * s.row_scale_stride + c0 / kMxBlock);
  }
  if (q.columnwise) {
    s.column_codes = bytes_at(q.columnwise->data, at);
    s.column_scales =
        bytes_at(q.columnwise->scale_inv, r0 / kMxBlock * columns + c0);
  }
  return s;
}

}  // namespace

MXFP8Quantizer::MXFP8Quantizer(DType format, bool with_2d)
    : MXFP8Quantizer(format, MXFP8Options{.with_2d = with_2d}) {}

MXFP8Quantizer::MXFP8Quantizer(DType format, const MXFP8Options& options)
    : format_(format), options_(options) {
  require(format == DType::kE4M3FN || format == DType::kE5M2, kOp, "format",
          std::string(traits(format).name), "float8_e4m3fn or float8_e5m2");
}

QuantizedTensor MXFP8Quantizer::prepare(const Tensor& input) const {
  require_high_precision(kOp, "x", input);
  const auto m = matrix_shape(input.shape());
  if (!options_.partial_blocks) {
    require_multiple(kOp, "rows", m.rows, kMxBlock);
    require_multiple(kOp, "columns", m.columns, kMxBlock);
  }
  QuantizedTensor q;
  q.shape = input.shape();
  q.dtype = input.dtype();
  q.device = input.device;
  if (usage().rowwise)
    q.rowwise = empty_direction(format_, m, false, input.device);
  if (usage().columnwise)
    q.columnwise = empty_direction(format_, m, true, input.device);
  return q;
}

Job MXFP8Quantizer::job(const Tensor& x, QuantizedTensor& q) const {
  const auto m = matrix_shape(x.shape());
  const std::int64_t chunks = (m.columns + kChunk - 1) / kChunk;
  const bool stream = m.rows * m.columns >= kStreamBytes;
  const auto kernel = block_quant_kernels(x.device).mxfp8_quantize;
  return {blocks_of(m.rows) * chunks, [=, this, &q](std::int64_t i) {
            Mxfp8Strip s =
                strip_at(x, q, i / chunks * kMxBlock, i % chunks * kChunk);
            s.format = format_;
            s.square = options_.with_2d;
            s.stream = stream;
            kernel(s);
          }};
}

QuantizedTensor MXFP8Quantizer::quantize(const Tensor& x) {
  return std::move(quantize_multi({&x, 1})[0]);
}

std::vector<QuantizedTensor> MXFP8Quantizer::quantize_multi(
    std::span<const Tensor> xs) {
  std::vector<QuantizedTensor> out;
  for (const Tensor& x : xs) out.push_back(prepare(x));
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < xs.size(); ++i)
    jobs.push_back(job(contiguous(xs[i]), out[i]));
  run_jobs(jobs);
  return out;
}

QuantizedTensor MXFP8Quantizer::quantize_fused(const Tensor& x_f32,
                                               DType dtype) {
  return quantize(round_input(x_f32, dtype));
}

std::unique_ptr<Quantizer> MXFP8Quantizer::clone() const {
  return std::make_unique<MXFP8Quantizer>(*this);
}

}  // namespace assay::te
