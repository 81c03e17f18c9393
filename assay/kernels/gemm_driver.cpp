// The blocked product: operands packed once, blocks of D over the threads.
//
// A block of D keeps its sums in a buffer of the second-level cache while the
// panels of one chunk of k after another go by; a column panel of a chunk stays
// in the first level while the row panels pass (Goto and van de Geijn, Anatomy
// of High-Performance Matrix Multiplication, 2008).
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/base/round_up.h"
#include "assay/core/buffer.h"
#include "assay/kernels/gemm_unit.h"

namespace assay {
namespace {

// Bytes of a D that leaves the second-level cache before it is used.
constexpr std::int64_t kLarge = std::int64_t{2} << 20;

// One operand in panels.
struct Packed {
  std::shared_ptr<std::byte> memory;
  std::int64_t panels = 0, panel_bytes = 0;
  GemmRange range;
  const std::byte* panel(std::int64_t i) const {
    return memory.get() + i * panel_bytes;
  }
};

Packed pack(const GemmUnit& unit, const GemmView& view, bool rows, int shift) {
  const int size = rows ? unit.rows : unit.columns;
  Packed p;
  p.panels = ceil_div(view.outer, size);
  p.panel_bytes = round_up(view.k, unit.k_step) * size *
                  static_cast<std::int64_t>(unit.element);
  p.memory =
      allocate_buffer(static_cast<std::size_t>(p.panels * p.panel_bytes) + 64);
  std::vector<GemmRange> ranges(static_cast<std::size_t>(p.panels));
  const GemmPackFn fn = rows ? unit.pack_rows : unit.pack_columns;
  parallel_for(p.panels, [&](std::int64_t i) {
    fn(view, i * size, shift, p.memory.get() + i * p.panel_bytes,
       ranges[static_cast<std::size_t>(i)]);
  });
  for (const GemmRange& range : ranges) p.range.merge(range);
  return p;
}

// [blocks][outer] scales with every row padded with zeros to whole panels.
struct PaddedScales {
  std::vector<float> values;
  std::int64_t stride = 0;
};

PaddedScales pad(const float* scales, std::int64_t blocks, std::int64_t outer,
                 int panel) {
  PaddedScales p;
  if (scales == nullptr) return p;
  p.stride = round_up(outer, panel);
  p.values.assign(static_cast<std::size_t>(blocks * p.stride), 0.0f);
  for (std::int64_t b = 0; b < blocks; ++b)
    std::memcpy(p.values.data() + b * p.stride, scales + b * outer,
                static_cast<std::size_t>(outer) * sizeof(float));
  return p;
}

// Panels of a block of D: as large as the cache lets it be, but small enough
// that some threads have something to do. A function of the shape alone.
struct Grid {
  std::int64_t rows, columns;  // panels of a block
  std::int64_t down, across;   // blocks
};

Grid grid_of(const GemmUnit& unit, std::int64_t row_panels,
             std::int64_t column_panels) {
  constexpr std::int64_t kSmallest = 128, kBlocks = 8;
  std::int64_t height = kGemmBlockSide, width = kGemmBlockSide;
  const auto make = [&] {
    Grid g{};
    g.rows = std::max<std::int64_t>(1, height / unit.rows);
    g.columns = std::max<std::int64_t>(1, width / unit.columns);
    g.down = ceil_div(row_panels, g.rows);
    g.across = ceil_div(column_panels, g.columns);
    return g;
  };
  while (make().down * make().across < kBlocks &&
         (height > kSmallest || width > kSmallest))
    (height >= width ? height : width) /= 2;
  return make();
}

class Product {
 public:
  Product(const GemmUnits& units, const GemmUnit& unit, const GemmProblem& p,
          const Packed& rows, const Packed& columns)
      : units_(units),
        unit_(unit),
        problem_(p),
        rows_(rows),
        columns_(columns),
        k_(round_up(p.row.k, unit.k_step)),
        grid_(grid_of(unit, rows.panels, columns.panels)) {
    const std::int64_t blocks = ceil_div(k_, kGemmScaleBlock);
    row_scales_ = pad(p.block.row, blocks, p.row.outer, unit.rows);
    column_scales_ = pad(p.block.column, blocks, p.column.outer, unit.columns);
  }

  void run(GemmEpilogue epilogue) {
    epilogue_ = epilogue;
    const std::int64_t n = problem_.column.outer;
    const auto blocks = static_cast<std::size_t>(grid_.down * grid_.across);
    std::vector<float> amax(blocks, 0.0f);
    std::vector<double> sums;
    if (epilogue.column_sums)
      sums.assign(static_cast<std::size_t>(grid_.down * n), 0.0);
    parallel_for(static_cast<std::int64_t>(blocks), [&](std::int64_t i) {
      const std::int64_t down = i / grid_.across, across = i % grid_.across;
      block(down * grid_.rows, across * grid_.columns,
            amax[static_cast<std::size_t>(i)],
            sums.empty() ? nullptr : sums.data() + down * n);
    });
    if (epilogue.amax) *epilogue.amax = *std::ranges::max_element(amax);
    if (epilogue.column_sums) {
      std::fill_n(epilogue.column_sums, n, 0.0);
      for (std::int64_t i = 0; i < grid_.down * n; ++i)
        epilogue.column_sums[i % n] += sums[static_cast<std::size_t>(i)];
    }
  }

 private:
  std::int64_t tile_size() const {
    return std::int64_t{unit_.rows} * unit_.columns;
  }

  // The block of D whose first panels are `row` and `column`. Without any k
  // the sums are zero.
  void block(std::int64_t row, std::int64_t column, float& amax,
             double* column_sums) {
    const std::int64_t rows = std::min(grid_.rows, rows_.panels - row);
    const std::int64_t columns =
        std::min(grid_.columns, columns_.panels - column);
    const auto scratch = allocate_buffer(
        static_cast<std::size_t>(rows * columns * tile_size()) * sizeof(float));
    auto* acc = reinterpret_cast<float*>(scratch.get());
    if (k_ == 0) std::fill_n(acc, rows * columns * tile_size(), 0.0f);
    unit_.enter();
    for (std::int64_t k = 0; k < k_; k += unit_.chunk) {
      for (std::int64_t c = 0; c < columns; ++c) {
        for (std::int64_t r = 0; r < rows; ++r) {
          float* tile = acc + (c * rows + r) * tile_size();
          multiply(row + r, column + c, k, next_panel(column, c, columns, k, r),
                   tile);
        }
      }
    }
    unit_.leave();
    for (std::int64_t r = 0; r < rows; ++r)
      finish(row + r, column, columns, acc + r * tile_size(),
             rows * tile_size(), amax, column_sums);
  }

  // A part of the column panel that follows panel c of the block, one for
  // every row panel.
  const std::byte* next_panel(std::int64_t column, std::int64_t c,
                              std::int64_t columns, std::int64_t k,
                              std::int64_t r) const {
    const std::int64_t step =
        std::int64_t{unit_.columns} * static_cast<std::int64_t>(unit_.element);
    const std::int64_t bytes = std::min(unit_.chunk, k_ - k) * step;
    const std::int64_t part =
        bytes / (unit_.k_step * step) * unit_.prefetch * r % bytes;
    const std::int64_t next = c + 1 < columns ? c + 1 : c;
    return columns_.panel(column + next) + k * step + part;
  }

  void multiply(std::int64_t row, std::int64_t column, std::int64_t k,
                const std::byte* next, float* acc) const {
    const auto bytes = static_cast<std::int64_t>(unit_.element);
    const std::byte* r = rows_.panel(row) + k * unit_.rows * bytes;
    const std::byte* c = columns_.panel(column) + k * unit_.columns * bytes;
    const std::int64_t n = std::min(unit_.chunk, k_ - k);
    if (row_scales_.stride == 0) return unit_.tile(r, c, n, k > 0, next, acc);
    const std::int64_t block = k / kGemmScaleBlock;
    const GemmTileScales scales{
        row_scales_.values.data() + block * row_scales_.stride +
            row * unit_.rows,
        row_scales_.stride,
        column_scales_.values.data() + block * column_scales_.stride +
            column * unit_.columns,
        column_scales_.stride, problem_.block.column_first};
    unit_.scaled_tile(r, c, n, k > 0, next, scales, acc);
  }

  void finish(std::int64_t row, std::int64_t column, std::int64_t columns,
              const float* acc, std::int64_t next, float& amax,
              double* column_sums) const {
    const std::int64_t m = problem_.row.outer, n = problem_.column.outer;
    const std::int64_t i = row * unit_.rows, j = column * unit_.columns;
    const auto height = std::min<std::int64_t>(unit_.rows, m - i);
    const auto width = std::min<std::int64_t>(columns * unit_.columns, n - j);
    const bool stream = m * n * (traits(epilogue_.d_dtype).bits / 8) >= kLarge;
    units_.epilogue(epilogue_, n,
                    {i, j, static_cast<int>(height), static_cast<int>(width),
                     unit_.columns, acc, next, stream},
                    amax, column_sums);
  }

  const GemmUnits& units_;
  const GemmUnit& unit_;
  const GemmProblem& problem_;
  const Packed& rows_;
  const Packed& columns_;
  std::int64_t k_;
  Grid grid_;
  PaddedScales row_scales_, column_scales_;
  GemmEpilogue epilogue_;
};

// One more than the largest code, 0xff (NaN) counted as 0. Inlined, so that
// the stride 1 is one the compiler knows and vectorises.
inline std::uint8_t above_scales(const std::uint8_t* codes, std::int64_t stride,
                                 std::int64_t n) {
  std::uint8_t above = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto next = static_cast<std::uint8_t>(codes[i * stride] + 1);
    above = next > above ? next : above;
  }
  return above;
}

// MXFP8: the largest scale becomes 1, so that exponents near the ends of the
// range of bf16 do not get in the way. Undone by alpha.
int fold_shift(const GemmView& view) {
  if (view.fold != GemmFold::kE8M0) return 0;
  const std::int64_t blocks = ceil_div(view.k, gemm_fold_block(view.fold));
  const bool outer_inside = view.scale_outer <= view.scale_k;
  const std::int64_t slow = outer_inside ? blocks : view.outer;
  const std::int64_t fast = outer_inside ? view.outer : blocks;
  const std::int64_t step = outer_inside ? view.scale_k : view.scale_outer;
  const std::int64_t inner = outer_inside ? view.scale_outer : view.scale_k;
  std::uint8_t above = 0;
  for (std::int64_t i = 0; i < slow; ++i) {
    const std::uint8_t* line = view.scales + i * step;
    above = std::max(above, inner == 1 ? above_scales(line, 1, fast)
                                       : above_scales(line, inner, fast));
  }
  return above == 0 ? 127 : 128 - above;
}

bool fits_bf16_unit(const GemmView& view) {
  switch (view.dtype) {
    case DType::kBF16:
    case DType::kE4M3FN:
    case DType::kE5M2:
      return true;
    case DType::kE2M1:
      return view.fold == GemmFold::kE4M3;
    default:
      return false;
  }
}

// Whether its packing can multiply by a power of two.
bool can_shift(const GemmView& view) {
  return view.dtype == DType::kBF16 || view.fold == GemmFold::kE8M0;
}

// Products have 14 bits below the product of the exponents. Where the least of
// them is a normal fp32, so are all sums but zero.
constexpr int kLeastProduct = -126 + 14;

bool never_flushes(const GemmRange& a, const GemmRange& b) {
  return !a.lost && !b.lost && a.min_exponent + b.min_exponent >= kLeastProduct;
}

struct Shifts {
  int row = 0, column = 0;
};

// More shifts that put both operands' largest elements as high as the sum of
// k of their products allows.
Shifts raise(const GemmRange& a, const GemmRange& b, std::int64_t k) {
  const int products =
      124 - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(k)));
  return {products / 2 - a.max_exponent, products / 2 - b.max_exponent};
}

bool representable(const GemmRange& range, int shift) {
  return range.min_exponent + shift >= -126 &&
         range.max_exponent + shift <= 127;
}

GemmEpilogue with_shifts(GemmEpilogue e, Shifts s) {
  e.alpha = std::ldexp(e.alpha, -(s.row + s.column));
  return e;
}

bool is_empty(const GemmRange& range) {
  return range.min_exponent > range.max_exponent;
}

void run_with(const GemmUnits& units, const GemmUnit& unit,
              const GemmProblem& p, Shifts s, const Packed& rows,
              const Packed& columns) {
  Product(units, unit, p, rows, columns).run(with_shifts(p.epilogue, s));
}

// False where the values do not suit the unit.
bool try_bf16(const GemmUnits& units, const GemmProblem& p) {
  const GemmUnit& unit = *units.bf16;
  Shifts s{fold_shift(p.row), fold_shift(p.column)};
  Packed rows = pack(unit, p.row, true, s.row);
  Packed columns = pack(unit, p.column, false, s.column);
  if (!never_flushes(rows.range, columns.range)) {
    if (!can_shift(p.row) || !can_shift(p.column) || is_empty(rows.range) ||
        is_empty(columns.range))
      return false;
    const Shifts more = raise(rows.range, columns.range, p.row.k);
    const int least = rows.range.min_exponent + columns.range.min_exponent +
                      more.row + more.column;
    if (least < kLeastProduct || !representable(rows.range, more.row) ||
        !representable(columns.range, more.column))
      return false;
    s = {s.row + more.row, s.column + more.column};
    rows = pack(unit, p.row, true, s.row);
    columns = pack(unit, p.column, false, s.column);
  }
  run_with(units, unit, p, s, rows, columns);
  return true;
}

// False where shifted operands do not fit fp32, or their products do not: bits
// that alpha would bring back would be lost.
bool try_f32(const GemmUnits& units, const GemmProblem& p) {
  constexpr int kLeast = -149 + 14;
  const Shifts s{fold_shift(p.row), fold_shift(p.column)};
  const Packed rows = pack(*units.f32, p.row, true, s.row);
  const Packed columns = pack(*units.f32, p.column, false, s.column);
  const GemmRange &a = rows.range, &b = columns.range;
  const bool shifted = s.row != 0 || s.column != 0;
  if (shifted && !is_empty(a) && !is_empty(b) &&
      (a.lost || b.lost || a.min_exponent + b.min_exponent < kLeast))
    return false;
  run_with(units, *units.f32, p, s, rows, columns);
  return true;
}

}  // namespace

void run_gemm(const GemmUnits& units, const GemmProblem& p) {
  if (p.row.outer == 0 || p.column.outer == 0) {
    if (p.epilogue.amax) *p.epilogue.amax = 0;
    if (p.epilogue.column_sums)
      std::fill_n(p.epilogue.column_sums, p.column.outer, 0.0);
    return;
  }
  const bool bf16 = units.bf16 && p.row.k > 0 && fits_bf16_unit(p.row) &&
                    fits_bf16_unit(p.column);
  if (bf16 && try_bf16(units, p)) return;
  if (!try_f32(units, p)) gemm_plain(p, InternalPrecision::kF32, DType::kF32);
}

}  // namespace assay
