#include "assay/te/parallel/quantized_rows.h"

#include <cmath>
#include <cstring>
#include <string>

#include "assay/base/round_up.h"
#include "assay/te/check.h"
#include "assay/te/ops/split.h"
#include "assay/te/quantize/check_quantized.h"
#include "assay/te/quantize/layout.h"
#include "assay/te/splits.h"

namespace assay::te {
namespace {

using Direction = std::optional<QuantizedData> QuantizedTensor::*;
constexpr Direction kDirections[] = {&QuantizedTensor::rowwise,
                                     &QuantizedTensor::columnwise};

bool has_block_scales(const QuantizedData& q) {
  return q.mode != ScalingMode::kTensor && q.mode != ScalingMode::kIdentity;
}

bool has_amax_per_row(const QuantizedData& q) {
  return q.mode == ScalingMode::kNVFP4 && q.amax.shape() != Shape{1};
}

// The dimension of data and compact scales that runs along the rows.
int row_dim(const QuantizedData& q) { return is_data_transposed(q) ? 1 : 0; }

// Compact, contiguous, data as a matrix.
QuantizedData plain_form(std::string_view op, const QuantizedData& q,
                         const Shape& shape) {
  QuantizedData out =
      with_layout(check_quantized(op, q, shape), shape, ScaleLayout::kCompact);
  const auto [m, k] = matrix_shape(shape);
  out.data.view.shape = is_data_transposed(q) ? Shape{k, m} : Shape{m, k};
  return out;
}

// Of the groups' rows; throws where one begins within a block.
std::vector<std::int64_t> scale_counts(std::string_view op,
                                       const QuantizedData& q,
                                       std::span<const std::int64_t> rows) {
  const std::int64_t block = rows_of_a_scale(q);
  std::vector<std::int64_t> counts;
  std::int64_t begin = 0;
  for (const std::int64_t n : rows) {
    if (n > 0) {
      require(begin % block == 0, op, "rows",
              "a cut before row " + std::to_string(begin),
              std::string(q.columnwise ? "columnwise " : "rowwise ") +
                  std::string(scaling_mode_name(q.mode)) +
                  " to be cut at multiples of " + std::to_string(block));
    }
    counts.push_back(ceil_div(n, block));
    begin += n;
  }
  return counts;
}

std::vector<QuantizedData> slice(const QuantizedData& stored,
                                 const Shape& shape,
                                 std::span<const std::int64_t> rows) {
  constexpr std::string_view kOp = "slice_rows";
  const QuantizedData q = plain_form(kOp, stored, shape);
  const auto counts = scale_counts(kOp, q, rows);
  const std::int64_t columns = matrix_shape(shape).columns;
  std::vector<QuantizedData> out(rows.size(), q);
  const auto data = split(q.data, rows, row_dim(q));
  std::vector<Tensor> scales, amaxes;
  if (has_block_scales(q)) scales = split(q.scale_inv, counts, row_dim(q));
  if (has_amax_per_row(q)) amaxes = split(q.amax, rows, 0);
  for (std::size_t g = 0; g < rows.size(); ++g) {
    out[g].data = data[g];
    if (!scales.empty()) out[g].scale_inv = scales[g];
    if (!amaxes.empty()) out[g].amax = amaxes[g];
    out[g] = with_layout(out[g], {rows[g], columns}, stored.layout);
  }
  return out;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto x = a.view.bytes(), y = b.view.bytes();
  return x.size() == y.size() &&
         (x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0);
}

std::string value_of(const Tensor& scale) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g",
                static_cast<double>(*scale.data<float>()));
  return text;
}

// Joins one direction of parts with `rows` rows each.
class Joiner {
 public:
  Joiner(std::vector<QuantizedData> parts, std::vector<std::int64_t> rows)
      : parts_(std::move(parts)), rows_(std::move(rows)) {
    while (leading_ < rows_.size() && rows_[leading_] == 0) ++leading_;
    if (leading_ == rows_.size()) leading_ = 0;
  }

  QuantizedData join() const {
    for (const QuantizedData& part : parts_) check_kind(part);
    QuantizedData out = parts_[leading_];
    const int dim = row_dim(out);
    out.data = joined(&QuantizedData::data, dim);
    if (has_block_scales(out)) {
      scale_counts(kOp, out, rows_);
      out.scale_inv = joined(&QuantizedData::scale_inv, dim);
    } else if (out.mode == ScalingMode::kTensor) {
      require_one_value(&QuantizedData::scale_inv, "scale_inv");
      out.amax = largest_amax();
    }
    if (out.mode == ScalingMode::kNVFP4) {
      if (any_amax_per_row())
        out.amax = joined(&QuantizedData::amax, 0);
      else
        require_one_value(&QuantizedData::amax, "amax");
    }
    return out;
  }

 private:
  static constexpr std::string_view kOp = "concatenate_rows";

  Tensor joined(Tensor QuantizedData::*member, int dim) const {
    std::vector<Tensor> pieces;
    for (const QuantizedData& part : parts_) pieces.push_back(part.*member);
    return concatenate(pieces, dim);
  }

  void check_kind(const QuantizedData& q) const {
    const QuantizedData& first = parts_[leading_];
    const bool same = q.mode == first.mode && q.format == first.format &&
                      q.nvfp4_scale_max == first.nvfp4_scale_max;
    require(same, kOp, "parts",
            std::string(scaling_mode_name(q.mode)) + " " +
                std::string(traits(q.format).name),
            "the mode, format and largest scale of the first: " +
                std::string(scaling_mode_name(first.mode)) + " " +
                std::string(traits(first.format).name));
  }

  void require_one_value(Tensor QuantizedData::*member,
                         const char* name) const {
    const Tensor& first = parts_[leading_].*member;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (rows_[i] == 0) continue;
      const Tensor& own = parts_[i].*member;
      require(same_bits(own, first), kOp, name,
              value_of(own) + " of part " + std::to_string(i),
              "that of part " + std::to_string(leading_) + ", " +
                  value_of(first) +
                  ": an amax reduced over the group makes them one");
    }
  }

  Tensor largest_amax() const {
    Tensor out = Tensor::empty(DType::kF32, {1}, parts_[leading_].data.device);
    float most = 0;
    for (const QuantizedData& part : parts_) {
      if (part.amax.view.data == nullptr) return {};
      most = std::fmax(most, *part.amax.data<float>());
    }
    *out.mutable_data<float>() = most;
    return out;
  }

  bool any_amax_per_row() const {
    for (const QuantizedData& part : parts_)
      if (has_amax_per_row(part)) return true;
    return false;
  }

  std::vector<QuantizedData> parts_;
  std::vector<std::int64_t> rows_;
  std::size_t leading_ = 0;  // the first with rows, if any
};

}  // namespace

std::int64_t rows_of_a_scale(const QuantizedData& q) {
  if (!has_block_scales(q)) return 1;
  const bool tiles = q.mode == ScalingMode::kBlock2D;
  if (!q.columnwise && !tiles) return 1;
  if (q.mode == ScalingMode::kMXFP8) return 32;
  if (q.mode == ScalingMode::kNVFP4) return 16;
  return 128;
}

void require_whole_blocks(std::string_view op, const QuantizedTensor& x) {
  const std::int64_t rows = matrix_shape(x.shape).rows;
  for (const Direction direction : kDirections) {
    if (!(x.*direction)) continue;
    const QuantizedData& q = *(x.*direction);
    const std::int64_t block = rows_of_a_scale(q);
    require(rows % block == 0, op, "x", std::to_string(rows) + " rows a rank",
            "a multiple of " + std::to_string(block) + " for " +
                (q.columnwise ? "columnwise " : "rowwise ") +
                std::string(scaling_mode_name(q.mode)) +
                ": else blocks of the whole would cross ranks");
  }
}

std::vector<QuantizedTensor> slice_rows(const QuantizedTensor& x,
                                        std::span<const std::int64_t> rows) {
  const auto [m, k] = matrix_shape(x.shape);
  require_splits("slice_rows", "rows", rows, m);
  std::vector<QuantizedTensor> out(rows.size());
  for (std::size_t g = 0; g < rows.size(); ++g) {
    out[g].shape = {rows[g], k};
    out[g].dtype = x.dtype;
    out[g].device = x.device;
  }
  for (const Direction direction : kDirections) {
    if (!(x.*direction)) continue;
    auto slices = slice(*(x.*direction), x.shape, rows);
    for (std::size_t g = 0; g < rows.size(); ++g)
      out[g].*direction = std::move(slices[g]);
  }
  return out;
}

QuantizedTensor concatenate_rows(std::span<const QuantizedTensor> parts) {
  constexpr std::string_view kOp = "concatenate_rows";
  require(!parts.empty(), kOp, "parts", "none", "at least one");
  const QuantizedTensor& first = parts.front();
  std::vector<std::int64_t> rows;
  const std::int64_t columns = matrix_shape(first.shape).columns;
  for (const QuantizedTensor& part : parts) {
    const auto [m, k] = matrix_shape(part.shape);
    require(k == columns, kOp, "parts", "shape " + to_string(part.shape),
            std::to_string(columns) + " columns");
    require(part.dtype == first.dtype && part.device == first.device, kOp,
            "parts", std::string(traits(part.dtype).name),
            "the dtype and device of the first");
    rows.push_back(m);
  }
  QuantizedTensor out = first;
  out.shape = {total_of(kOp, "parts", rows), columns};
  for (const Direction direction : kDirections) {
    std::vector<QuantizedData> plain;
    for (const QuantizedTensor& part : parts) {
      const auto& own = part.*direction;
      require(own.has_value() == (first.*direction).has_value(), kOp, "parts",
              "a part with other directions", "those of the first");
      if (!own) continue;
      require(own->layout == (first.*direction)->layout, kOp, "parts",
              "a part with another layout of scales", "that of the first");
      plain.push_back(plain_form(kOp, *own, part.shape));
    }
    if (plain.empty()) continue;
    out.*direction = with_layout(Joiner(std::move(plain), rows).join(),
                                 out.shape, (first.*direction)->layout);
  }
  return out;
}

}  // namespace assay::te
