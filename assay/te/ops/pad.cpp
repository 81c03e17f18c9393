#include "assay/te/ops/pad.h"

#include <algorithm>
#include <string>

#include "assay/te/check.h"
#include "assay/te/ops/copy_runs.h"

namespace assay::te {
namespace {

// The rows of `x`, cut or extended with zeros to `rows`.
Tensor with_rows(std::string_view op, const Tensor& tensor, std::int64_t rows) {
  require(!tensor.shape().empty(), op, "tensors", "a 0-d tensor",
          "at least 1 dimension");
  require_present(op, "tensors", tensor);
  const Tensor x = contiguous(tensor);
  Shape shape = x.shape();
  const std::int64_t have = shape[0];
  std::int64_t columns = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) columns *= shape[i];
  shape[0] = rows;
  Tensor out = Tensor::empty(x.dtype(), shape, x.device);
  const std::int64_t bytes = row_bytes(op, "tensors", x.dtype(), columns);
  copy_runs(
      x.device, x.data<std::byte>(), bytes == 0 ? 0 : rows, bytes,
      [=](std::int64_t i) { return i < have ? i : -1; }, out.mutable_data());
  return out;
}

void require_counts(std::string_view op, std::string_view argument,
                    std::size_t found, std::size_t expected) {
  require(found == expected, op, argument, std::to_string(found) + " counts",
          std::to_string(expected));
}

// For every row of the wider tensor, its row in the narrower one or -1.
struct Groups {
  std::vector<std::int64_t> narrow;
  std::int64_t rows = 0;
};

Groups map_groups(std::string_view op, std::span<const std::int64_t> rows,
                  std::span<const std::int64_t> padded_rows) {
  require_counts(op, "padded_rows", padded_rows.size(), rows.size());
  Groups groups;
  for (std::size_t g = 0; g < rows.size(); ++g) {
    require(rows[g] >= 0 && padded_rows[g] >= rows[g], op, "padded_rows",
            std::to_string(padded_rows[g]) + " for a group of " +
                std::to_string(rows[g]),
            "at least as many");
    for (std::int64_t i = 0; i < padded_rows[g]; ++i)
      groups.narrow.push_back(i < rows[g] ? groups.rows + i : -1);
    groups.rows += rows[g];
  }
  return groups;
}

void require_rows(std::string_view op, const Tensor& x, std::int64_t rows) {
  require_rank(op, "x", x, 2);
  require_shape(op, "x", x, {rows, x.shape()[1]});
}

}  // namespace

std::vector<Tensor> multi_pad_rows(std::span<const Tensor> tensors,
                                   std::span<const std::int64_t> padded_rows) {
  constexpr std::string_view kOp = "multi_pad_rows";
  require_counts(kOp, "padded_rows", padded_rows.size(), tensors.size());
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape& shape = tensors[i].shape();
    require(shape.empty() || padded_rows[i] >= shape[0], kOp, "padded_rows",
            std::to_string(padded_rows[i]) + " for shape " + to_string(shape),
            "at least its rows");
    out.push_back(with_rows(kOp, tensors[i], padded_rows[i]));
  }
  return out;
}

std::vector<Tensor> multi_unpad_rows(std::span<const Tensor> tensors,
                                     std::span<const std::int64_t> rows) {
  constexpr std::string_view kOp = "multi_unpad_rows";
  require_counts(kOp, "rows", rows.size(), tensors.size());
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape& shape = tensors[i].shape();
    require(shape.empty() || (rows[i] >= 0 && rows[i] <= shape[0]), kOp, "rows",
            std::to_string(rows[i]) + " for shape " + to_string(shape),
            "at most its rows");
    out.push_back(with_rows(kOp, tensors[i], rows[i]));
  }
  return out;
}

Tensor pad_groups(const Tensor& tensor, std::span<const std::int64_t> rows,
                  std::span<const std::int64_t> padded_rows) {
  const Groups groups = map_groups("pad_groups", rows, padded_rows);
  require_rows("pad_groups", tensor, groups.rows);
  const Tensor x = contiguous(tensor);
  const auto wide = static_cast<std::int64_t>(groups.narrow.size());
  Tensor out = Tensor::empty(x.dtype(), {wide, x.shape()[1]}, x.device);
  const std::int64_t bytes =
      row_bytes("pad_groups", "x", x.dtype(), x.shape()[1]);
  copy_runs(
      x.device, x.data<std::byte>(), bytes == 0 ? 0 : wide, bytes,
      [&](std::int64_t i) { return groups.narrow[i]; }, out.mutable_data());
  return out;
}

Tensor unpad_groups(const Tensor& tensor, std::span<const std::int64_t> rows,
                    std::span<const std::int64_t> padded_rows) {
  const Groups groups = map_groups("unpad_groups", rows, padded_rows);
  require_rows("unpad_groups", tensor,
               static_cast<std::int64_t>(groups.narrow.size()));
  const Tensor x = contiguous(tensor);
  std::vector<std::int64_t> wide;
  for (std::size_t i = 0; i < groups.narrow.size(); ++i)
    if (groups.narrow[i] >= 0) wide.push_back(static_cast<std::int64_t>(i));
  Tensor out = Tensor::empty(x.dtype(), {groups.rows, x.shape()[1]}, x.device);
  const std::int64_t bytes =
      row_bytes("unpad_groups", "x", x.dtype(), x.shape()[1]);
  copy_runs(
      x.device, x.data<std::byte>(), bytes == 0 ? 0 : groups.rows, bytes,
      [&](std::int64_t i) { return wide[i]; }, out.mutable_data());
  return out;
}

Tensor pad_last_dim(const Tensor& tensor, std::int64_t columns) {
  constexpr std::string_view kOp = "pad_last_dim";
  require(!tensor.shape().empty() && columns >= tensor.shape().back(), kOp,
          "columns",
          std::to_string(columns) + " for shape " + to_string(tensor.shape()),
          "at least the last dimension");
  require_present(kOp, "x", tensor);
  const Tensor x = contiguous(tensor);
  const MatrixShape matrix = matrix_shape(x.shape());
  Shape shape = x.shape();
  shape.back() = columns;
  Tensor out = Tensor::empty(x.dtype(), shape, x.device);
  const std::int64_t from = row_bytes(kOp, "x", x.dtype(), matrix.columns);
  const std::int64_t to = row_bytes(kOp, "columns", x.dtype(), columns);
  for_row_blocks(matrix.rows, rows_of_bytes(to),
                 [&](std::int64_t b, std::int64_t e) {
                   for (std::int64_t i = b; i < e; ++i) {
                     std::byte* row = out.mutable_data() + i * to;
                     std::copy_n(x.data<std::byte>() + i * from, from, row);
                     std::fill(row + from, row + to, std::byte{0});
                   }
                 });
  return out;
}

}  // namespace assay::te
