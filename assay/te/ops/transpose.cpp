#include "assay/te/ops/transpose.h"

#include <string>
#include <utility>
#include <vector>

#include "assay/base/round_up.h"
#include "assay/te/check.h"
#include "assay/te/ops/copy_runs.h"

namespace assay::te {
namespace {

// Of the source, a block holds long runs of few rows: as many streams as the
// prefetcher follows. (Measured: 256 rows of 256 bytes take twice the time.)
constexpr std::int64_t kBlockRows = 64;
constexpr std::int64_t kBlockRowBytes = 8192;

TransposeFn kernel_for(Device device, std::int64_t size) {
  const MovementKernels& kernels = movement_kernels(device);
  switch (size) {
    case 1:
      return kernels.transpose8;
    case 2:
      return kernels.transpose16;
    case 4:
      return kernels.transpose32;
    default:
      return kernels.transpose64;
  }
}

void transpose_bytes(Device device, const std::byte* in, std::int64_t rows,
                     std::int64_t columns, std::int64_t size, std::byte* out) {
  const TransposeFn kernel = kernel_for(device, size);
  const bool stream = rows * columns * size >= kStreamBytes;
  const std::int64_t step = kBlockRowBytes / size;
  const std::int64_t across = ceil_div(columns, step);
  const std::int64_t down = ceil_div(rows, kBlockRows);
  parallel_for(across * down, [&](std::int64_t block) {
    const std::int64_t c = block / down * step;
    const std::int64_t r = block % down * kBlockRows;
    kernel(in + (r * columns + c) * size, columns,
           std::min(kBlockRows, rows - r), std::min(step, columns - c), stream,
           out + (c * rows + r) * size, rows);
  });
}

// Complex numbers of two fp64.
void transpose_wide(const std::byte* in, std::int64_t rows,
                    std::int64_t columns, std::byte* out) {
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(in + (r * columns + c) * 16, 16, out + (c * rows + r) * 16);
}

void unpack(const std::byte* in, std::int64_t bytes, std::byte* out) {
  for (std::int64_t i = 0; i < bytes; ++i) {
    out[2 * i] = in[i] & std::byte{0xf};
    out[2 * i + 1] = in[i] >> 4;
  }
}
void pack(const std::byte* in, std::int64_t bytes, std::byte* out) {
  for (std::int64_t i = 0; i < bytes; ++i)
    out[i] = in[2 * i] | in[2 * i + 1] << 4;
}

void transpose_packed(const Tensor& x, MatrixShape shape, std::byte* out) {
  require_multiple("transpose", "x: rows of packed codes", shape.rows, 2);
  require_multiple("transpose", "x: columns of packed codes", shape.columns, 2);
  const std::int64_t count = shape.rows * shape.columns;
  Tensor codes = Tensor::empty(DType::kU8, {count});
  Tensor turned = Tensor::empty(DType::kU8, {count});
  unpack(x.data<std::byte>(), count / 2, codes.mutable_data());
  transpose_bytes(x.device, codes.mutable_data(), shape.rows, shape.columns, 1,
                  turned.mutable_data());
  pack(turned.mutable_data(), count / 2, out);
}

}  // namespace

Tensor transpose(const Tensor& tensor) {
  require(!tensor.shape().empty(), "transpose", "x", "a 0-d tensor",
          "at least 1 dimension");
  require_present("transpose", "x", tensor);
  const Tensor x = contiguous(tensor);
  const MatrixShape shape = matrix_shape(x.shape());
  Tensor out = Tensor::empty(x.dtype(), {shape.columns, shape.rows}, x.device);
  if (x.numel() == 0) return out;
  const int bits = traits(x.dtype()).bits;
  if (bits < 8) {
    transpose_packed(x, shape, out.mutable_data());
  } else if (bits == 128) {
    transpose_wide(x.data<std::byte>(), shape.rows, shape.columns,
                   out.mutable_data());
  } else {
    transpose_bytes(x.device, x.data<std::byte>(), shape.rows, shape.columns,
                    bits / 8, out.mutable_data());
  }
  return out;
}

Tensor swap_first_dims(const Tensor& tensor) {
  require(tensor.shape().size() >= 2, "swap_first_dims", "x",
          "shape " + to_string(tensor.shape()), "at least 2 dimensions");
  require_present("swap_first_dims", "x", tensor);
  const Tensor x = contiguous(tensor);
  Shape shape = x.shape();
  const std::int64_t a = shape[0], b = shape[1];
  std::swap(shape[0], shape[1]);
  Tensor out = Tensor::empty(x.dtype(), shape, x.device);
  if (x.numel() == 0) return out;
  const std::int64_t bytes =
      row_bytes("swap_first_dims", "x", x.dtype(), x.numel() / (a * b));
  if (bytes <= 8 && (bytes & (bytes - 1)) == 0) {
    transpose_bytes(x.device, x.data<std::byte>(), a, b, bytes,
                    out.mutable_data());
  } else {
    copy_runs(
        x.device, x.data<std::byte>(), a * b, bytes,
        [=](std::int64_t i) { return i % a * b + i / a; }, out.mutable_data());
  }
  return out;
}

}  // namespace assay::te
