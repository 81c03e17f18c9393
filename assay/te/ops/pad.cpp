#include "assay/te/ops/pad.h"

#include <algorithm>
#include <string>

#include "assay/te/check.h"
#include "assay/te/ops/copy_runs.h"
#include "assay/te/splits.h"

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

// The rows of groups of sizes `from`, each cut or extended with zeros to `to`.
Tensor resize_groups(std::string_view op, const Tensor& tensor,
                     std::span<const std::int64_t> from,
                     std::span<const std::int64_t> to) {
  const Tensor x = contiguous(tensor);
  const std::int64_t columns = x.shape()[1];
  Tensor out = Tensor::empty(
      x.dtype(), {total_of(op, "padded_rows", to), columns}, x.device);
  const std::int64_t bytes = row_bytes(op, "x", x.dtype(), columns);
  const std::byte* in = x.data<std::byte>();
  std::byte* target = out.mutable_data();
  for (std::size_t g = 0; bytes != 0 && g < to.size(); ++g) {
    const std::int64_t have = from[g];
    copy_runs(
        x.device, in, to[g], bytes,
        [=](std::int64_t i) { return i < have ? i : -1; }, target);
    in += from[g] * bytes;
    target += to[g] * bytes;
  }
  return out;
}

// `found`: the sizes that x holds, one of the other two.
void check_groups(std::string_view op, const Tensor& x,
                  std::span<const std::int64_t> rows,
                  std::span<const std::int64_t> padded_rows,
                  std::span<const std::int64_t> found) {
  require_counts(op, "padded_rows", padded_rows.size(), rows.size());
  for (std::size_t g = 0; g < rows.size(); ++g) {
    require(rows[g] >= 0 && padded_rows[g] >= rows[g], op, "padded_rows",
            std::to_string(padded_rows[g]) + " for a group of " +
                std::to_string(rows[g]),
            "at least as many");
  }
  require_rank(op, "x", x, 2);
  const std::int64_t total = total_of(op, "rows", found);
  require_shape(op, "x", x, {total, x.shape()[1]});
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

Tensor pad_groups(const Tensor& x, std::span<const std::int64_t> rows,
                  std::span<const std::int64_t> padded_rows) {
  check_groups("pad_groups", x, rows, padded_rows, rows);
  return resize_groups("pad_groups", x, rows, padded_rows);
}

Tensor unpad_groups(const Tensor& x, std::span<const std::int64_t> rows,
                    std::span<const std::int64_t> padded_rows) {
  check_groups("unpad_groups", x, rows, padded_rows, padded_rows);
  return resize_groups("unpad_groups", x, padded_rows, rows);
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
