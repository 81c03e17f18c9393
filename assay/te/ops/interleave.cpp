#include "assay/te/ops/interleave.h"

#include <string>
#include <string_view>

#include "assay/te/check.h"
#include "assay/te/ops/copy_runs.h"

namespace assay::te {
namespace {

Tensor turn_rows(std::string_view op, const Tensor& tensor, std::int64_t size,
                 bool interleave) {
  require(!tensor.shape().empty(), op, "x", "a 0-d tensor",
          "at least 1 dimension");
  require_present(op, "x", tensor);
  const Tensor x = contiguous(tensor);
  const std::int64_t rows = x.shape()[0];
  require(size > 0 && rows % (2 * size) == 0, op, "size",
          std::to_string(size) + " for shape " + to_string(x.shape()),
          "> 0, twice of it a divisor of the first dimension");
  Tensor out = Tensor::empty(x.dtype(), x.shape(), x.device);
  if (x.numel() == 0) return out;
  // A 2 x blocks matrix of runs, transposed, or the other way round.
  const std::int64_t blocks = rows / (2 * size);
  const std::int64_t width = interleave ? 2 : blocks;  // of a row of the result
  const std::int64_t height = interleave ? blocks : 2;
  copy_runs(
      x.device, x.data<std::byte>(), 2 * blocks,
      row_bytes(op, "size", x.dtype(), x.numel() / (2 * blocks)),
      [=](std::int64_t i) { return i % width * height + i / width; },
      out.mutable_data());
  return out;
}

}  // namespace

Tensor interleave_glu_rows(const Tensor& x, std::int64_t size) {
  return turn_rows("interleave_glu_rows", x, size, true);
}

Tensor deinterleave_glu_rows(const Tensor& x, std::int64_t size) {
  return turn_rows("deinterleave_glu_rows", x, size, false);
}

}  // namespace assay::te
