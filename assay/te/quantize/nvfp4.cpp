#include "assay/te/quantize/nvfp4.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/te/check.h"
#include "assay/te/quantize/amax.h"
#include "assay/te/quantize/column_tiles.h"
#include "assay/te/quantize/nvfp4_transpose.h"
#include "assay/te/quantize/round_input.h"

namespace assay::te {
namespace {

constexpr const char* kOp = "NVFP4Quantizer";
// One task: 128 rows (tiles: 16) of this many columns.
constexpr std::int64_t kChunk = 1024;

using Factors = std::array<float, 127>;

Factors factors_of(const Nvfp4Global& global) {
  Factors factors;
  for (std::size_t code = 0; code < factors.size(); ++code)
    factors[code] = nvfp4_factor(static_cast<std::uint8_t>(code), global);
  return factors;
}

// One direction under work: a matrix of codes with `columns` elements a row.
struct Target {
  QuantizedData data;
  std::int64_t columns = 0;
  Nvfp4Run run;  // all but the place
  Factors factors;
  RandomStream random;
};

Target make_target(const NVFP4Options& options, const Tensor& x,
                   bool columnwise) {
  const auto m = matrix_shape(x.shape());
  const Shape shape =
      columnwise ? Shape{m.columns, m.rows} : Shape{m.rows, m.columns};
  Target t;
  t.columns = shape[1];
  t.data.mode = ScalingMode::kNVFP4;
  t.data.format = DType::kE2M1;
  t.data.columnwise = columnwise;
  t.data.data = Tensor::empty(DType::kE2M1, shape, x.device);
  t.data.scale_inv = Tensor::empty(
      DType::kE4M3FN, {shape[0], shape[1] / kNvfp4Block}, x.device);
  t.data.nvfp4_scale_max = options.scale_max;
  t.run.input = x.dtype();
  t.run.square = options.with_2d;
  t.run.four_over_six = options.four_over_six;
  t.random = {options.random_seed, options.random_offset + columnwise, 0};
  return t;
}

void set_amax(Target& t, float amax, float scale_max, Device device) {
  t.data.amax = Tensor::empty(DType::kF32, {1}, device);
  *t.data.amax.mutable_data<float>() = amax;
  t.run.amax = amax;
  t.run.global = nvfp4_global(amax, scale_max);
  t.factors = factors_of(t.run.global);
}

// Quantises `blocks` blocks at x into those of the direction from element
// `at` on.
void quantize_run(const BlockQuantKernels& kernels, Target& t,
                  const std::byte* x, std::int64_t at, std::int64_t blocks,
                  bool stochastic) {
  Nvfp4Run run = t.run;
  RandomStream random = t.random;
  random.first_block = static_cast<std::uint64_t>(at / kNvfp4Block);
  run.x = x;
  run.blocks = blocks;
  run.factors = t.factors.data();
  run.random = stochastic ? &random : nullptr;
  run.codes = t.data.data.mutable_data<std::uint8_t>() + at / 2;
  run.scales = t.data.scale_inv.mutable_data<std::uint8_t>() + at / kNvfp4Block;
  kernels.nvfp4_quantize(run);
}

// Calls body for areas that cover the matrix, in parallel.
void for_areas(MatrixShape m, std::int64_t rows, std::int64_t columns,
               const std::function<void(const TileArea&)>& body) {
  const std::int64_t across = (m.columns + columns - 1) / columns;
  const std::int64_t down = (m.rows + rows - 1) / rows;
  parallel_for(down * across, [&](std::int64_t i) {
    const std::int64_t r = i / across * rows, c = i % across * columns;
    body({r, std::min(rows, m.rows - r), c, std::min(columns, m.columns - c)});
  });
}

class Work {
 public:
  Work(const NVFP4Options& options, const Tensor& x)
      : options_(options),
        x_(x),
        m_(matrix_shape(x.shape())),
        size_(traits(x.dtype()).bits / 8),
        kernels_(block_quant_kernels(x.device)) {}

  void run(bool rowwise, bool columnwise, QuantizedTensor& q) {
    // Tiles have the same codes in both directions: columns are made of rows.
    const bool rows = rowwise || options_.with_2d;
    if (rows) row_ = make_target(options_, x_, false);
    if (columnwise && !options_.with_2d)
      column_ = make_target(options_, x_, true);
    set_scales();
    if (options_.row_scaled) {
      row_scaled();
    } else if (options_.with_2d) {
      tiles();
    } else {
      for_areas(m_, kTileRows, kChunk, [&](const TileArea& a) { area(a); });
    }
    if (columnwise && options_.with_2d)
      q.columnwise = nvfp4_transpose_tiles(row_->data);
    if (column_) q.columnwise = std::move(column_->data);
    if (rowwise) q.rowwise = std::move(row_->data);
  }

 private:
  void set_scales() {
    if (options_.row_scaled) return;
    const bool plain = row_ || !options_.rht;
    std::array<float, 2> amax = {plain ? tensor_amax(x_) : 0.0f, 0.0f};
    amax[1] = column_ && options_.rht
                  ? hadamard_column_amax(x_, options_.rht_sign_mask)
                  : amax[0];
    if (options_.amax_reduction)
      options_.amax_reduction->reduce_max(amax.data(), 2);
    if (row_) set_amax(*row_, amax[0], options_.scale_max, x_.device);
    if (column_) set_amax(*column_, amax[1], options_.scale_max, x_.device);
  }

  void area(const TileArea& a) {
    if (row_) {
      for (std::int64_t r = a.row; r < a.row + a.rows; ++r)
        rows_run(*row_, r * m_.columns + a.column, a.columns / kNvfp4Block);
    }
    if (!column_) return;
    std::optional<std::uint16_t> signs;
    if (options_.rht) signs = options_.rht_sign_mask;
    for_column_tiles(x_, a, signs,
                     [&](const ColumnTile& tile) { columns_run(tile); });
  }

  void rows_run(Target& t, std::int64_t at, std::int64_t blocks) {
    quantize_run(kernels_, t, x_.view.data + at * size_, at, blocks,
                 options_.stochastic_rounding);
  }

  void columns_run(const ColumnTile& tile) {
    for (std::int64_t c = 0; c < tile.columns; ++c) {
      quantize_run(kernels_, *column_, tile.data + c * tile.rows * size_,
                   (tile.column + c) * m_.rows + tile.row,
                   tile.rows / kNvfp4Block, options_.stochastic_rounding);
    }
  }

  void tiles() {
    for_areas(m_, kNvfp4Block, m_.columns, [&](const TileArea& a) {
      rows_run(*row_, a.row * m_.columns,
               kNvfp4Block * m_.columns / kNvfp4Block);
    });
  }

  void row_scaled() {
    Tensor amax = Tensor::empty(DType::kF32, {m_.rows}, x_.device);
    float* values = amax.mutable_data<float>();
    const std::int64_t bytes = m_.columns * size_;
    for_areas(m_, kNvfp4Block, m_.columns, [&](const TileArea& a) {
      for (std::int64_t r = a.row; r < a.row + a.rows; ++r) {
        values[r] = amax_of(x_.device, x_.dtype(), x_.view.data + r * bytes,
                            m_.columns);
      }
    });
    if (options_.amax_reduction)
      options_.amax_reduction->reduce_max(values, m_.rows);
    for_areas(m_, kNvfp4Block, m_.columns, [&](const TileArea& a) {
      Target t = *row_;
      for (std::int64_t r = a.row; r < a.row + a.rows; ++r) {
        t.run.amax = values[r];
        t.run.global = nvfp4_global(values[r], options_.scale_max);
        t.factors = factors_of(t.run.global);
        rows_run(t, r * m_.columns, m_.columns / kNvfp4Block);
      }
    });
    row_->data.amax = std::move(amax);
  }

  const NVFP4Options& options_;
  const Tensor& x_;
  const MatrixShape m_;
  const std::int64_t size_;
  const BlockQuantKernels& kernels_;
  std::optional<Target> row_, column_;
};

void exclude(bool both, const char* option, const char* other) {
  require(!both, kOp, option, std::string("on together with ") + other,
          "one of the two");
}

}  // namespace

NVFP4Quantizer::NVFP4Quantizer(const NVFP4Options& o) : options_(o) {
  const bool candidates = o.four_over_six != FourOverSix::kNone;
  exclude(o.rht && o.with_2d, "rht", "with_2d");
  exclude(o.row_scaled && o.rht, "row_scaled", "rht");
  exclude(o.row_scaled && o.with_2d, "row_scaled", "with_2d");
  exclude(o.row_scaled && o.stochastic_rounding, "row_scaled",
          "stochastic_rounding");
  exclude(candidates && o.rht, "four_over_six", "rht");
  exclude(candidates && o.stochastic_rounding, "four_over_six",
          "stochastic_rounding");
  require(o.scale_max == 448.0f || (candidates && o.scale_max == 256.0f), kOp,
          "scale_max", std::to_string(o.scale_max),
          "448, or 256 with four_over_six");
}

QuantizedTensor NVFP4Quantizer::quantize(const Tensor& input) {
  require_high_precision(kOp, "x", input);
  const auto m = matrix_shape(input.shape());
  require_multiple(kOp, "rows", m.rows, kNvfp4Block);
  require_multiple(kOp, "columns", m.columns, kNvfp4Block);
  if (options_.rht && usage().columnwise)
    require_dtype(kOp, "x (rht)", input, {DType::kBF16});
  require(!(options_.row_scaled && usage().columnwise), kOp, "row_scaled",
          "column-wise usage", "row-wise usage only");
  const Tensor x = contiguous(input);
  QuantizedTensor q;
  q.shape = x.shape();
  q.dtype = x.dtype();
  q.device = x.device;
  if (usage().rowwise || usage().columnwise)
    Work(options_, x).run(usage().rowwise, usage().columnwise, q);
  if (options_.stochastic_rounding) options_.random_offset += 2;
  return q;
}

QuantizedTensor NVFP4Quantizer::quantize_fused(const Tensor& x_f32,
                                               DType dtype) {
  return quantize(round_input(x_f32, dtype));
}

std::unique_ptr<Quantizer> NVFP4Quantizer::clone() const {
  return std::make_unique<NVFP4Quantizer>(*this);
}

}  // namespace assay::te
