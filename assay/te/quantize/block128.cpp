#include "assay/te/quantize/block128.h"

#include <cstring>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/quantize/block128_jobs.h"
#include "assay/te/quantize/layout_block128.h"
#include "assay/te/quantize/round_input.h"

namespace assay::te {
namespace {

QuantizedData empty_direction(const Block128Options& options, ScalingMode mode,
                              const Shape& shape, bool columnwise,
                              Device device) {
  const auto [m, k] = matrix_shape(shape);
  QuantizedData q;
  q.mode = mode;
  q.format = options.format;
  q.columnwise = columnwise;
  q.data = Tensor::empty(options.format, columnwise ? Shape{k, m} : Shape{m, k},
                         device);
  q.scale_inv = Tensor::empty(
      DType::kF32,
      block128_scale_shape(mode, columnwise, shape, ScaleLayout::kCompact),
      device);
  return q;
}

}  // namespace

Block128Quantizer::Block128Quantizer(const Block128Options& options)
    : options_(options) {
  constexpr const char* kOp = "Block128Quantizer";
  require_cast_format(kOp, options.format);
  require(options.block_dim == 1 || options.block_dim == 2, kOp, "block_dim",
          std::to_string(options.block_dim), "1 (1 x 128) or 2 (128 x 128)");
  require(options.epsilon >= 0, kOp, "epsilon", std::to_string(options.epsilon),
          "0 or more");
}

ScalingMode Block128Quantizer::mode() const {
  return options_.block_dim == 1 ? ScalingMode::kBlock1D
                                 : ScalingMode::kBlock2D;
}

std::vector<QuantizedTensor> Block128Quantizer::quantize_multi(
    std::span<const Tensor> xs) {
  std::vector<Block128Pass> passes;
  for (const Tensor& x : xs) {
    require_high_precision("Block128Quantizer", "x", x);
    Block128Pass pass{contiguous(x), options_, {}};
    pass.out = {x.shape(), x.dtype(), x.device, {}, {}};
    const auto direction = [&](bool columnwise) {
      return empty_direction(options_, mode(), x.shape(), columnwise, x.device);
    };
    if (usage().rowwise) pass.out.rowwise = direction(false);
    if (usage().columnwise) pass.out.columnwise = direction(true);
    passes.push_back(std::move(pass));
  }
  std::vector<Job> jobs;
  for (Block128Pass& pass : passes) jobs.push_back(block128_job(pass));
  run_jobs(jobs);
  std::vector<QuantizedTensor> out;
  for (Block128Pass& pass : passes) out.push_back(std::move(pass.out));
  return out;
}

QuantizedTensor Block128Quantizer::quantize(const Tensor& x) {
  return std::move(quantize_multi(std::span(&x, 1)).front());
}

QuantizedTensor Block128Quantizer::quantize_fused(const Tensor& x_f32,
                                                  DType dtype) {
  return quantize(round_input(x_f32, dtype));
}

std::unique_ptr<Quantizer> Block128Quantizer::clone() const {
  return std::make_unique<Block128Quantizer>(*this);
}

}  // namespace assay::te
