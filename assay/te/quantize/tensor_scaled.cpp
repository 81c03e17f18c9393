#include "assay/te/quantize/tensor_scaled.h"

#include <memory>

#include "assay/base/parallel.h"
#include "assay/te/check.h"
#include "assay/te/quantize/jobs.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/quantize/tile.h"

namespace assay::te {
namespace {

// Elements of one block of a flat pass, and of the part of it that stays in
// the first cache between its amax and its cast.
constexpr std::int64_t kBlock = std::int64_t{1} << 16;
constexpr std::int64_t kPiece = 4096;

// One tensor on its way. Blocks write maxima to places of their own; the
// largest is taken at the end, in any order.
struct Pass {
  Tensor x;
  float scale = 1;
  std::vector<float> maxima;
  QuantizedTensor out;

  std::uint8_t* codes() {
    return out.rowwise ? out.rowwise->data.mutable_data<std::uint8_t>()
                       : nullptr;
  }
  std::uint8_t* transposed() {
    return out.columnwise ? out.columnwise->data.mutable_data<std::uint8_t>()
                          : nullptr;
  }
  float amax() const {
    return maxima.empty() ? 0 : *std::max_element(maxima.begin(), maxima.end());
  }
};

// Rowwise codes only: the matrix is one long row.
Job flat_job(Pass& pass, const TensorScaledOptions& options) {
  const std::int64_t n = pass.x.numel();
  const std::int64_t blocks = ceil_div(n, kBlock);
  if (options.with_amax) pass.maxima.resize(static_cast<std::size_t>(blocks));
  const auto f = static_cast<std::size_t>(cast_format_index(options.format));
  return {blocks, [&pass, n, f](std::int64_t b) {
            const std::int64_t end = std::min((b + 1) * kBlock, n);
            with_cast_type(
                cast_kernels(pass.x.device), pass.x.dtype(),
                [&]<typename T>(const CastType<T>& type, T) {
                  const T* x = pass.x.data<T>();
                  float most = 0;
                  for (std::int64_t i = b * kBlock; i < end; i += kPiece) {
                    const std::int64_t count = std::min(kPiece, end - i);
                    if (!pass.maxima.empty())
                      most = std::max(most, type.amax(x + i, count));
                    type.format[f].cast(x + i, count, pass.scale,
                                        pass.codes() + i);
                  }
                  if (!pass.maxima.empty())
                    pass.maxima[static_cast<std::size_t>(b)] = most;
                });
          }};
}

// Codes of one tile into the rows of the result, or into `scratch` where no
// rows are wanted, and from there to the columns.
template <typename T>
float cast_tile(Pass& pass, const CastType<T>& type, std::size_t format,
                const Tile& tile, const Tiling& tiling, TileCodes& scratch) {
  float most = 0;
  const std::int64_t corner = tile.row * tiling.k + tile.column;
  const bool rows = pass.out.rowwise.has_value();
  std::uint8_t* codes = rows ? pass.codes() + corner : scratch.codes;
  const std::int64_t stride = rows ? tiling.k : TileCodes::kStride;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const T* x = pass.x.data<T>() + corner + r * tiling.k;
    if (!pass.maxima.empty()) most = std::max(most, type.amax(x, tile.columns));
    type.format[format].cast(x, tile.columns, pass.scale, codes + r * stride);
  }
  cast_kernels(pass.x.device)
      .transpose(codes, stride, tile.rows, tile.columns,
                 pass.transposed() + tile.column * tiling.m + tile.row,
                 tiling.m);
  return most;
}

Job tile_job(Pass& pass, const TensorScaledOptions& options) {
  const auto [m, k] = matrix_shape(pass.x.shape());
  const Tiling tiling{m, k, TileCodes::kRows, TileCodes::kColumns};
  const std::int64_t count = tiling.count();
  if (options.with_amax) pass.maxima.resize(static_cast<std::size_t>(count));
  const auto f = static_cast<std::size_t>(cast_format_index(options.format));
  return {count, [&pass, tiling, f](std::int64_t i) {
            TileCodes scratch;
            const Tile tile = tiling.at(i);
            const float most = with_cast_type(
                cast_kernels(pass.x.device), pass.x.dtype(),
                [&]<typename T>(const CastType<T>& type, T) {
                  return cast_tile<T>(pass, type, f, tile, tiling, scratch);
                });
            if (!pass.maxima.empty())
              pass.maxima[static_cast<std::size_t>(i)] = most;
          }};
}

Tensor one(float value, Device device) {
  Tensor t = Tensor::empty(DType::kF32, {1}, device);
  *t.mutable_data<float>() = value;
  return t;
}

QuantizedData empty_data(DType format, bool columnwise, Tensor codes,
                         const Tensor& scale_inv) {
  QuantizedData data;
  data.mode = ScalingMode::kTensor;
  data.format = format;
  data.columnwise = columnwise;
  data.data = std::move(codes);
  data.scale_inv = scale_inv;
  return data;
}

Pass begin_pass(const Tensor& x, float scale,
                const TensorScaledOptions& options) {
  require_high_precision("quantize", "x", x);
  require_cast_format("quantize", options.format);
  Pass pass;
  pass.x = contiguous(x);
  pass.scale = scale;
  pass.out.shape = x.shape();
  pass.out.dtype = x.dtype();
  pass.out.device = x.device;
  const Tensor inverse = one(scale_inverse(scale), x.device);
  const auto [m, k] = matrix_shape(x.shape());
  if (options.usage.rowwise) {
    pass.out.rowwise =
        empty_data(options.format, false,
                   Tensor::empty(options.format, {m, k}, x.device), inverse);
  }
  if (options.usage.columnwise) {
    pass.out.columnwise =
        empty_data(options.format, true,
                   Tensor::empty(options.format, {k, m}, x.device), inverse);
  }
  return pass;
}

QuantizedTensor end_pass(Pass& pass, const TensorScaledOptions& options) {
  if (options.with_amax) {
    const Tensor amax = one(pass.amax(), pass.x.device);
    if (pass.out.rowwise) pass.out.rowwise->amax = amax;
    if (pass.out.columnwise) pass.out.columnwise->amax = amax;
  }
  return std::move(pass.out);
}

}  // namespace

std::vector<QuantizedTensor> quantize_scaled(
    std::span<const Tensor> xs, std::span<const float> scales,
    const TensorScaledOptions& options) {
  require(xs.size() == scales.size(), "quantize", "scales",
          std::to_string(scales.size()) + " values",
          "one for each of " + std::to_string(xs.size()) + " tensors");
  std::vector<Pass> passes;
  for (std::size_t i = 0; i < xs.size(); ++i)
    passes.push_back(begin_pass(xs[i], scales[i], options));
  std::vector<Job> jobs;
  for (Pass& pass : passes) {
    if (options.usage.columnwise)
      jobs.push_back(tile_job(pass, options));
    else if (options.usage.rowwise)
      jobs.push_back(flat_job(pass, options));
  }
  run_jobs(jobs);
  std::vector<QuantizedTensor> out;
  for (Pass& pass : passes) out.push_back(end_pass(pass, options));
  return out;
}

QuantizedTensor quantize_scaled(const Tensor& x, float scale,
                                const TensorScaledOptions& options) {
  return std::move(
      quantize_scaled(std::span(&x, 1), std::span(&scale, 1), options).front());
}

Tensor cast_shard(const Tensor& shard, float scale, DType format) {
  const TensorScaledOptions options{format, {true, false}, false};
  return quantize_scaled(shard, scale, options).rowwise->data;
}

Tensor quantize_dequantize_scaled(const Tensor& x, float scale, DType format) {
  const TensorScaledOptions options{format, {true, false}, false};
  return dequantize(quantize_scaled(x, scale, options), x.dtype());
}

}  // namespace assay::te
