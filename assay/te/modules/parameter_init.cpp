#include "assay/te/modules/parameter_init.h"

#include <cstring>
#include <utility>

namespace assay::te {
namespace {

std::size_t bytes_of(const Tensor& t, std::int64_t elements) {
  return static_cast<std::size_t>(storage_bytes(t.dtype(), elements).value());
}

}  // namespace

Parameter make_parameter(Tensor value) {
  Parameter p;
  p.shape = value.shape();
  p.dtype = value.dtype();
  p.device = value.device;
  p.value = std::move(value);
  return p;
}

Tensor initialised(DType dtype, const Shape& shape, Device device,
                   const InitMethod& init) {
  Tensor t = Tensor::zeros(dtype, shape);
  if (init) init(t, next_init_seed());
  t.device = device;
  return t;
}

Tensor row_view(const Tensor& whole, std::int64_t begin, std::int64_t count) {
  Tensor part = whole;
  std::int64_t row = 1;
  for (std::size_t d = 1; d < whole.shape().size(); ++d)
    row *= whole.shape()[d];
  part.view.shape[0] = count;
  part.view.data += bytes_of(whole, begin * row);
  return part;
}

Tensor cut(const Tensor& whole, int dim, int ranks, int rank, int blocks) {
  if (ranks == 1) return whole;
  if (dim == 1) {
    Tensor part = whole;
    const std::int64_t columns = whole.shape()[1] / ranks;
    part.view.strides = {whole.shape()[1], 1};
    part.view.shape[1] = columns;
    part.view.data += bytes_of(whole, rank * columns);
    return contiguous(part);
  }
  const std::int64_t block = whole.shape()[0] / blocks, rows = block / ranks;
  Shape shape = whole.shape();
  shape[0] = blocks * rows;
  Tensor part = Tensor::empty(whole.dtype(), shape, whole.device);
  for (int b = 0; b < blocks; ++b) {
    const Tensor from = row_view(whole, b * block + rank * rows, rows);
    Tensor to = row_view(part, b * rows, rows);
    const auto bytes = from.view.bytes();
    if (!bytes.empty())
      std::memcpy(to.mutable_data(), bytes.data(), bytes.size());
  }
  return part;
}

}  // namespace assay::te
