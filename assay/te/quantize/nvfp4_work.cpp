#include "assay/te/quantize/nvfp4_work.h"

#include <algorithm>

#include "assay/base/round_up.h"
#include "assay/te/check.h"
#include "assay/te/quantize/amax.h"
#include "assay/te/quantize/nvfp4_transpose.h"

namespace assay::te {
namespace {

// Columns of an area: with the rows of a tile it stays in the second-level
// cache while both directions read it.
constexpr std::int64_t kAreaColumns = 2048;

float most_of(const std::vector<float>& parts) {
  float most = 0;
  for (float part : parts) most = std::max(most, part);
  return most;
}

}  // namespace

Nvfp4Work::Nvfp4Work(const NVFP4Options& options, Usage usage, const Tensor& x,
                     std::uint64_t random_offset)
    : options_(options),
      x_(x),
      rows_(matrix_shape(x.shape()).rows),
      columns_(matrix_shape(x.shape()).columns),
      size_(traits(x.dtype()).bits / 8),
      kernels_(block_quant_kernels(x.device)),
      columnwise_(usage.columnwise),
      rowwise_(usage.rowwise) {
  // Tiles, rows with an amax of their own and rows without columns are worked
  // on whole rows at a time; tiles have the same codes in both directions, so
  // that columns are made of rows.
  const bool whole = options.with_2d || options.row_scaled || !usage.columnwise;
  area_rows_ = whole ? kNvfp4Block : kTileRows;
  area_columns_ = whole ? std::max<std::int64_t>(columns_, 1) : kAreaColumns;
  if (usage.rowwise || (options.with_2d && usage.columnwise))
    row_ = make_target(false, random_offset);
  if (usage.columnwise && !options.with_2d)
    column_ = make_target(true, random_offset + 1);
}

Nvfp4Work::Target Nvfp4Work::make_target(bool columnwise,
                                         std::uint64_t offset) const {
  const Shape shape =
      columnwise ? Shape{columns_, rows_} : Shape{rows_, columns_};
  Target t;
  t.data.mode = ScalingMode::kNVFP4;
  t.data.format = DType::kE2M1;
  t.data.columnwise = columnwise;
  t.data.data = Tensor::empty(DType::kE2M1, shape, x_.device);
  t.data.scale_inv = Tensor::empty(
      DType::kE4M3FN, {shape[0], shape[1] / kNvfp4Block}, x_.device);
  t.data.nvfp4_scale_max = options_.scale_max;
  t.run.input = x_.dtype();
  t.run.codes = t.data.data.mutable_data<std::uint8_t>();
  t.run.scales = t.data.scale_inv.mutable_data<std::uint8_t>();
  t.run.square = options_.with_2d;
  t.run.four_over_six = options_.four_over_six;
  t.random = {options_.random_seed, offset, 0};
  return t;
}

std::int64_t Nvfp4Work::areas() const {
  const std::int64_t across = ceil_div(columns_, area_columns_);
  return ceil_div(rows_, area_rows_) * across;
}

TileArea Nvfp4Work::area(std::int64_t i) const {
  const std::int64_t across = ceil_div(columns_, area_columns_);
  const std::int64_t r = i / across * area_rows_;
  const std::int64_t c = i % across * area_columns_;
  return {r, std::min(area_rows_, rows_ - r), c,
          std::min(area_columns_, columns_ - c)};
}

std::optional<std::uint16_t> Nvfp4Work::signs() const {
  if (!options_.rht) return std::nullopt;
  return options_.rht_sign_mask;
}

Job Nvfp4Work::amax_job() {
  const auto n =
      static_cast<std::size_t>(options_.row_scaled ? rows_ : areas());
  row_parts_.assign(n, 0.0f);
  column_parts_.assign(options_.rht ? n : 0, 0.0f);
  return {areas(), [this](std::int64_t i) { find_amax(i); }};
}

void Nvfp4Work::find_amax(std::int64_t i) {
  const TileArea a = area(i);
  if (row_ || !options_.rht) {
    for (std::int64_t r = a.row; r < a.row + a.rows; ++r) {
      const std::byte* at = x_.view.data + (r * columns_ + a.column) * size_;
      float& most =
          row_parts_[static_cast<std::size_t>(options_.row_scaled ? r : i)];
      most = std::max(most, amax_of(x_.device, x_.dtype(), at, a.columns));
    }
  }
  if (!column_ || !options_.rht) return;
  float& most = column_parts_[static_cast<std::size_t>(i)];
  for_column_tiles(x_, a, signs(), [&](const ColumnTile& t) {
    most = std::max(most,
                    amax_of(x_.device, x_.dtype(), t.data, t.columns * t.rows));
  });
}

std::vector<float> Nvfp4Work::amax() const {
  if (options_.row_scaled) return row_parts_;
  const float row = most_of(row_parts_);
  return {row, options_.rht ? most_of(column_parts_) : row};
}

void Nvfp4Work::set_scale(Target& target, float amax, float scale_max) {
  target.run.amax = amax;
  target.run.global = nvfp4_global(amax, scale_max);
  for (std::size_t code = 0; code < target.factors.size(); ++code) {
    target.factors[code] =
        nvfp4_factor(static_cast<std::uint8_t>(code), target.run.global);
  }
}

void Nvfp4Work::set_amax(const float* values) {
  if (options_.row_scaled) {
    row_->data.amax = Tensor::empty(DType::kF32, {rows_}, x_.device);
    std::copy(values, values + rows_, row_->data.amax.mutable_data<float>());
    return;
  }
  for (auto* target : {&row_, &column_}) {
    if (!*target) continue;
    const float amax = values[target == &column_];
    (*target)->data.amax = Tensor::empty(DType::kF32, {1}, x_.device);
    *(*target)->data.amax.mutable_data<float>() = amax;
    set_scale(**target, amax, options_.scale_max);
  }
}

Job Nvfp4Work::quantize_job() {
  return {areas(), [this](std::int64_t i) { quantize_area(i); }};
}

void Nvfp4Work::quantize_area(std::int64_t i) {
  const TileArea a = area(i);
  if (options_.row_scaled) return quantize_row_scaled(a);
  const auto row_at = [&](std::int64_t r) { return r * columns_ + a.column; };
  if (row_ && options_.with_2d) {
    quantize_run(*row_, x_.view.data + row_at(a.row) * size_, row_at(a.row),
                 a.rows * a.columns / kNvfp4Block);
  } else if (row_) {
    for (std::int64_t r = a.row; r < a.row + a.rows; ++r) {
      quantize_run(*row_, x_.view.data + row_at(r) * size_, row_at(r),
                   a.columns / kNvfp4Block);
    }
  }
  if (!column_) return;
  for_column_tiles(x_, a, signs(),
                   [&](const ColumnTile& tile) { quantize_columns(tile); });
}

void Nvfp4Work::quantize_columns(const ColumnTile& tile) const {
  quantize_run(*column_, tile.data, tile.column * rows_ + tile.row,
               tile.rows / kNvfp4Block, tile.columns);
}

void Nvfp4Work::quantize_row_scaled(const TileArea& a) {
  Target t = *row_;
  for (std::int64_t r = a.row; r < a.row + a.rows; ++r) {
    set_scale(t, t.data.amax.data<float>()[r], options_.scale_max);
    quantize_run(t, x_.view.data + r * columns_ * size_, r * columns_,
                 columns_ / kNvfp4Block);
  }
}

// `blocks` blocks at x into those of the direction from element `at` on; more
// runs of them into the columns that follow.
void Nvfp4Work::quantize_run(const Target& target, const std::byte* x,
                             std::int64_t at, std::int64_t blocks,
                             std::int64_t runs) const {
  Nvfp4Run run = target.run;
  RandomStream random = target.random;
  random.first_block = static_cast<std::uint64_t>(at / kNvfp4Block);
  run.x = x;
  run.blocks = blocks;
  run.runs = runs;
  run.block_stride = rows_ / kNvfp4Block;
  run.factors = target.factors.data();
  run.random = options_.stochastic_rounding ? &random : nullptr;
  run.codes += at / 2;
  run.scales += at / kNvfp4Block;
  kernels_.nvfp4_quantize(run);
}

QuantizedTensor Nvfp4Work::take() {
  QuantizedTensor q;
  q.shape = x_.shape();
  q.dtype = x_.dtype();
  q.device = x_.device;
  if (columnwise_ && options_.with_2d)
    q.columnwise = nvfp4_transpose_tiles(row_->data);
  if (column_) q.columnwise = std::move(column_->data);
  if (rowwise_) q.rowwise = std::move(row_->data);
  return q;
}

}  // namespace assay::te
