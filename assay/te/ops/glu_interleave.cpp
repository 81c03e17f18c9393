// The order of the columns of a gated activation's input.
#include <cstring>
#include <string>

#include "assay/te/check.h"
#include "assay/te/ops/activation.h"
#include "assay/te/ops/row_blocks.h"

namespace assay::te {
namespace {

struct Pieces {
  std::int64_t rows, half_bytes, piece_bytes;
};

Pieces pieces_of(std::string_view op, const Tensor& x, std::int64_t size) {
  require_present(op, "x", x);
  const int bits = traits(x.dtype()).bits;
  require(bits % 8 == 0, op, "x", std::string(traits(x.dtype()).name),
          "a dtype of whole bytes");
  require(size > 0, op, "size", std::to_string(size), "1 or more");
  const MatrixShape shape = matrix_shape(x.shape());
  require_multiple(op, "columns of x", shape.columns, 2 * size);
  return {shape.rows, shape.columns / 2 * (bits / 8), size * (bits / 8)};
}

// Copies piece by piece; `back` undoes it.
Tensor reorder(std::string_view op, const Tensor& x, std::int64_t size,
               bool back) {
  const Pieces p = pieces_of(op, x, size);
  const Tensor in = contiguous(x);
  Tensor out = Tensor::empty(x.dtype(), x.shape(), x.device);
  std::byte* to = out.mutable_data();
  const std::byte* from = in.data<std::byte>();
  for_row_blocks(
      p.rows, rows_per_task(2 * p.half_bytes),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const std::int64_t row = r * 2 * p.half_bytes;
          for (std::int64_t j = 0; j < p.half_bytes; j += p.piece_bytes) {
            for (int half = 0; half < 2; ++half) {
              const std::int64_t apart = row + half * p.half_bytes + j;
              const std::int64_t mixed = row + 2 * j + half * p.piece_bytes;
              std::memcpy(to + (back ? apart : mixed),
                          from + (back ? mixed : apart),
                          static_cast<std::size_t>(p.piece_bytes));
            }
          }
        }
      });
  return out;
}

}  // namespace

Tensor interleave_glu(const Tensor& x, std::int64_t size) {
  return reorder("interleave_glu", x, size, false);
}

Tensor deinterleave_glu(const Tensor& x, std::int64_t size) {
  return reorder("deinterleave_glu", x, size, true);
}

}  // namespace assay::te
