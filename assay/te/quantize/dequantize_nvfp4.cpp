#include <algorithm>

#include "assay/base/parallel.h"
#include "assay/kernels/block_quant.h"
#include "assay/te/check.h"
#include "assay/te/ops/transpose.h"
#include "assay/te/quantize/dequantize_modes.h"

namespace assay::te {
namespace {

// Blocks of 16 decoded by one task.
constexpr std::int64_t kBlocks = 2048;

// The R x C matrix that the codes are stored as.
Tensor decode_stored(const QuantizedData& q, DType out) {
  Tensor result = Tensor::empty(out, q.data.shape(), q.data.device);
  require_high_precision("dequantize", "out", result);
  const auto& kernels = block_quant_kernels(q.data.device);
  const auto [rows, columns] = matrix_shape(q.data.shape());
  const std::int64_t per_row = columns / kNvfp4Block;
  const bool by_row = q.amax.numel() != 1;
  if (by_row) require_shape("dequantize", "amax", q.amax, {rows});
  // One amax: the whole is one run of blocks.
  const std::int64_t runs = by_row ? rows : 1;
  const std::int64_t length = by_row ? per_row : rows * per_row;
  const std::int64_t chunks = (length + kBlocks - 1) / kBlocks;
  parallel_for(runs * chunks, [&](std::int64_t i) {
    const std::int64_t first = i % chunks * kBlocks;
    const std::int64_t at = i / chunks * length + first;
    Nvfp4Decode run;
    run.output = out;
    run.blocks = std::min(kBlocks, length - first);
    run.codes = q.data.data<std::uint8_t>() + at * kNvfp4Block / 2;
    run.scales = q.scale_inv.data<std::uint8_t>() + at;
    run.amax = q.amax.data<float>()[by_row ? i / chunks : 0];
    run.scale_max = q.nvfp4_scale_max;
    run.out = result.mutable_data() + at * kNvfp4Block * (traits(out).bits / 8);
    kernels.nvfp4_decode(run);
  });
  return result;
}

}  // namespace

Tensor dequantize_nvfp4(const QuantizedData& q, const Shape& shape, DType out) {
  const auto [rows, columns] = matrix_shape(shape);
  const Shape stored =
      q.columnwise ? Shape{columns, rows} : Shape{rows, columns};
  require_shape("dequantize", "data", q.data, stored);
  require_shape("dequantize", "scale_inv", q.scale_inv,
                {stored[0], (stored[1] + kNvfp4Block - 1) / kNvfp4Block});
  require_dtype("dequantize", "amax", q.amax, {DType::kF32});
  Tensor values = decode_stored(q, out);
  if (q.columnwise) values = transpose(values);
  values.view.shape = shape;
  values.view.strides.clear();
  return values;
}

}  // namespace assay::te
