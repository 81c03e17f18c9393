#include "assay/te/quantize/block128_jobs.h"

#include "assay/te/check.h"
#include "assay/te/quantize/tile.h"

namespace assay::te {
namespace {

constexpr std::int64_t kSide = 128;
// Columns of a strip: read from memory once, then from the second-level cache.
constexpr std::int64_t kWide = 1024;

// The parts of a pass as the loops want them.
template <typename T>
class Strips {
 public:
  Strips(Block128Pass& pass, const CastType<T>& type)
      : x_(pass.x.data<T>()),
        type_(type),
        format_(type.format[static_cast<std::size_t>(
            cast_format_index(pass.options.format))]),
        transpose_(cast_kernels(pass.x.device).transpose),
        rowwise_(place(pass.out.rowwise)),
        columnwise_(place(pass.out.columnwise)),
        fp8_max_(format_max(pass.options.format)),
        scale_{pass.options.pow2, pass.options.epsilon,
               block_value_for_inf(pass.x.dtype())} {
    const auto [m, k] = matrix_shape(pass.x.shape());
    m_ = m;
    k_ = k;
  }

  // 1 x 128: rows, then 128 x 128 tiles for the columns.
  void run_1d(const Tile& strip) {
    if (rowwise_.codes != nullptr)
      for (std::int64_t r = 0; r < strip.rows; ++r) row(strip, r);
    if (columnwise_.codes == nullptr) return;
    const Tiling tiles{strip.rows, strip.columns, kSide, kSide};
    for (std::int64_t i = 0; i < tiles.count(); ++i)
      columns(inside(strip, tiles.at(i)));
  }

  // 128 x 128.
  void run_2d(const Tile& strip) {
    if (rowwise_.codes != nullptr || columnwise_.codes != nullptr)
      squares(strip);
  }

 private:
  struct Place {
    std::uint8_t* codes = nullptr;
    float* scale_inv = nullptr;
    std::int64_t scale_stride = 0;
  };

  static Place place(std::optional<QuantizedData>& q) {
    if (!q) return {};
    return {q->data.mutable_data<std::uint8_t>(),
            q->scale_inv.mutable_data<float>(), q->scale_inv.shape()[1]};
  }
  static Tile inside(const Tile& strip, const Tile& t) {
    return {strip.row + t.row, t.rows, strip.column + t.column, t.columns};
  }

  const T* at(std::int64_t row, std::int64_t column) const {
    return x_ + row * k_ + column;
  }

  // Maxima become factors in place; their inverses go to `inverse`.
  void to_scales(float* amax, std::int64_t n, float* inverse,
                 std::int64_t stride) const {
    for (std::int64_t i = 0; i < n; ++i) {
      amax[i] = compute_scale(amax[i], fp8_max_, scale_);
      inverse[i * stride] = scale_inverse(amax[i]);
    }
  }

  void row(const Tile& strip, std::int64_t r) const {
    float factors[kWide / kSide];
    const std::int64_t row = strip.row + r;
    const T* x = at(row, strip.column);
    type_.amax_blocks(x, strip.columns, kSide, factors);
    to_scales(
        factors, ceil_div(strip.columns, kSide),
        rowwise_.scale_inv + row * rowwise_.scale_stride + strip.column / kSide,
        1);
    format_.cast_blocks(x, strip.columns, kSide, factors,
                        rowwise_.codes + row * k_ + strip.column);
  }

  void columns(const Tile& tile) const {
    float factors[kSide];
    const T* x = at(tile.row, tile.column);
    type_.amax_columns(x, k_, tile.rows, tile.columns, factors);
    to_scales(factors, tile.columns,
              columnwise_.scale_inv + tile.column * columnwise_.scale_stride +
                  tile.row / kSide,
              columnwise_.scale_stride);
    TileCodes codes;
    format_.cast_columns(x, k_, tile.rows, tile.columns, factors, codes.codes,
                         TileCodes::kStride);
    store_transposed(tile, codes.codes, TileCodes::kStride);
  }

  // Maxima of the tiles of a strip, then codes row by row: rows are read as
  // far as the strip goes, not in pieces of 128.
  void squares(const Tile& strip) const {
    float factors[kWide / kSide] = {};
    const std::int64_t tiles = ceil_div(strip.columns, kSide);
    for (std::int64_t r = 0; r < strip.rows; ++r) {
      float most[kWide / kSide];
      type_.amax_blocks(at(strip.row + r, strip.column), strip.columns, kSide,
                        most);
      for (std::int64_t t = 0; t < tiles; ++t)
        factors[t] = std::max(factors[t], most[t]);
    }
    float inverses[kWide / kSide];
    to_scales(factors, tiles, inverses, 1);
    store_scales(strip, inverses, tiles);
    if (columnwise_.codes == nullptr) {
      for (std::int64_t r = 0; r < strip.rows; ++r)
        format_.cast_blocks(
            at(strip.row + r, strip.column), strip.columns, kSide, factors,
            rowwise_.codes + (strip.row + r) * k_ + strip.column);
      return;
    }
    const Tiling pieces{strip.rows, strip.columns, kSide, TileCodes::kColumns};
    for (std::int64_t i = 0; i < pieces.count(); ++i) {
      const Tile piece = pieces.at(i);
      square_codes(inside(strip, piece), factors + piece.column / kSide);
    }
  }

  void store_scales(const Tile& strip, const float* inverses,
                    std::int64_t tiles) const {
    const std::int64_t down = strip.row / kSide, right = strip.column / kSide;
    for (std::int64_t t = 0; t < tiles; ++t) {
      if (rowwise_.codes != nullptr)
        rowwise_.scale_inv[down * rowwise_.scale_stride + right + t] =
            inverses[t];
      if (columnwise_.codes != nullptr)
        columnwise_.scale_inv[(right + t) * columnwise_.scale_stride + down] =
            inverses[t];
    }
  }

  void square_codes(const Tile& tile, const float* factors) const {
    TileCodes scratch;
    const bool rows = rowwise_.codes != nullptr;
    std::uint8_t* codes =
        rows ? rowwise_.codes + tile.row * k_ + tile.column : scratch.codes;
    const std::int64_t stride = rows ? k_ : TileCodes::kStride;
    for (std::int64_t r = 0; r < tile.rows; ++r)
      format_.cast_blocks(at(tile.row + r, tile.column), tile.columns, kSide,
                          factors, codes + r * stride);
    store_transposed(tile, codes, stride);
  }

  void store_transposed(const Tile& tile, const std::uint8_t* codes,
                        std::int64_t stride) const {
    transpose_(codes, stride, tile.rows, tile.columns,
               columnwise_.codes + tile.column * m_ + tile.row, m_);
  }

  const T* x_;
  const CastType<T>& type_;
  const CastFormat<T>& format_;
  decltype(CastKernels::transpose) transpose_;
  Place rowwise_, columnwise_;
  float fp8_max_;
  ScaleOptions scale_;
  std::int64_t m_ = 0, k_ = 0;
};

}  // namespace

Job block128_job(Block128Pass& pass) {
  const auto [m, k] = matrix_shape(pass.x.shape());
  const Tiling strips{m, k, kSide, kWide};
  return {strips.count(), [&pass, strips](std::int64_t i) {
            with_cast_type(cast_kernels(pass.x.device), pass.x.dtype(),
                           [&]<typename T>(const CastType<T>& type, T) {
                             Strips<T> work(pass, type);
                             if (pass.options.block_dim == 1)
                               work.run_1d(strips.at(i));
                             else
                               work.run_2d(strips.at(i));
                           });
          }};
}

}  // namespace assay::te
