#include "assay/te/ops/split.h"

#include <string>

#include "assay/te/check.h"
#include "assay/te/ops/copy_runs.h"
#include "assay/te/splits.h"

namespace assay::te {
namespace {

// A dimension of a row-major tensor as a matrix: what is before it by what
// follows one step of it.
struct Axis {
  std::size_t dim;
  std::int64_t outer, inner;
};

Axis axis_of(std::string_view op, const Shape& shape, int dim) {
  const int rank = static_cast<int>(shape.size());
  require(dim >= -rank && dim < rank, op, "dim", std::to_string(dim),
          "a dimension of " + to_string(shape));
  Axis axis{static_cast<std::size_t>(dim < 0 ? dim + rank : dim), 1, 1};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i < axis.dim) axis.outer *= shape[i];
    if (i > axis.dim) axis.inner *= shape[i];
  }
  return axis;
}

// Rows of `bytes`, `from` and `to` their distances.
void copy_panel(Device device, const std::byte* in, std::int64_t from,
                std::int64_t rows, std::int64_t bytes, std::byte* out,
                std::int64_t to) {
  const MovementKernels& kernels = movement_kernels(device);
  const bool stream = rows * bytes >= kStreamBytes;
  if (from == bytes && to == bytes) {  // one run: cut it for the threads
    for_row_blocks(rows * bytes, rows_of_bytes(1),
                   [&](std::int64_t b, std::int64_t e) {
                     kernels.copy(in + b, e - b, stream, out + b);
                   });
    return;
  }
  for_row_blocks(rows, rows_of_bytes(bytes),
                 [&](std::int64_t b, std::int64_t e) {
                   for (std::int64_t i = b; i < e; ++i)
                     kernels.copy(in + i * from, bytes, stream, out + i * to);
                 });
}

}  // namespace

std::vector<Tensor> split(const Tensor& tensor,
                          std::span<const std::int64_t> sizes, int dim) {
  require_present("split", "x", tensor);
  const Tensor x = contiguous(tensor);
  const Axis axis = axis_of("split", x.shape(), dim);
  const std::int64_t total = total_of("split", "sizes", sizes);
  require(total == x.shape()[axis.dim], "split", "sizes",
          "a sum of " + std::to_string(total),
          std::to_string(x.shape()[axis.dim]) + " (dimension " +
              std::to_string(axis.dim) + ")");
  const std::int64_t whole =
      row_bytes("split", "x", x.dtype(), total * axis.inner);
  std::vector<Tensor> pieces;
  std::int64_t begin = 0;
  for (std::int64_t size : sizes) {
    Shape shape = x.shape();
    shape[axis.dim] = size;
    Tensor piece = Tensor::empty(x.dtype(), shape, x.device);
    const std::int64_t bytes =
        row_bytes("split", "sizes", x.dtype(), size * axis.inner);
    copy_panel(x.device, x.data<std::byte>() + begin, whole, axis.outer, bytes,
               piece.mutable_data(), bytes);
    begin += bytes;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

Tensor concatenate(std::span<const Tensor> pieces, int dim) {
  require(!pieces.empty(), "concatenate", "pieces", "none", "at least one");
  const Tensor& first = pieces.front();
  const Axis axis = axis_of("concatenate", first.shape(), dim);
  Shape shape = first.shape();
  shape[axis.dim] = 0;
  for (const Tensor& piece : pieces) {
    common_device("concatenate", {&first, &piece});
    require_dtype("concatenate", "pieces", piece, {first.dtype()});
    require_rank("concatenate", "pieces", piece, shape.size());
    Shape expected = first.shape();
    expected[axis.dim] = piece.shape()[axis.dim];
    require_shape("concatenate", "pieces", piece, expected);
    shape[axis.dim] += piece.shape()[axis.dim];
  }
  const std::int64_t whole = row_bytes("concatenate", "pieces", first.dtype(),
                                       shape[axis.dim] * axis.inner);
  Tensor out = Tensor::empty(first.dtype(), shape, first.device);
  std::int64_t begin = 0;
  for (const Tensor& strided : pieces) {
    const Tensor piece = contiguous(strided);
    const std::int64_t bytes = row_bytes("concatenate", "pieces", first.dtype(),
                                         piece.shape()[axis.dim] * axis.inner);
    copy_panel(first.device, piece.data<std::byte>(), bytes, axis.outer, bytes,
               out.mutable_data() + begin, whole);
    begin += bytes;
  }
  return out;
}

}  // namespace assay::te
