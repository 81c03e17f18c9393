#include "assay/core/tensor.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/core/buffer.h"

namespace assay {
namespace {

template <int kBytes>
void copy_strided(const std::byte* from, std::int64_t stride,
                  std::int64_t count, std::byte* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * kBytes, from + i * stride * kBytes, kBytes);
  }
}

// One run along the innermost dimension.
void copy_run(const std::byte* from, std::int64_t stride, std::int64_t count,
              int bytes, std::byte* out) {
  if (stride == 1) {
    std::memcpy(out, from, static_cast<std::size_t>(count * bytes));
    return;
  }
  switch (bytes) {
    case 1:
      return copy_strided<1>(from, stride, count, out);
    case 2:
      return copy_strided<2>(from, stride, count, out);
    case 4:
      return copy_strided<4>(from, stride, count, out);
    case 8:
      return copy_strided<8>(from, stride, count, out);
    default:
      return copy_strided<16>(from, stride, count, out);
  }
}

void gather_strided(const TensorView& view, std::int64_t begin,
                    std::int64_t count, int bytes, std::byte* out) {
  const std::size_t rank = view.shape.size();
  std::vector<std::int64_t> index(rank);
  std::int64_t offset = 0;
  for (std::size_t d = rank, flat = static_cast<std::size_t>(begin); d-- > 0;) {
    const auto dim = static_cast<std::size_t>(view.shape[d]);
    index[d] = static_cast<std::int64_t>(flat % dim);
    flat /= dim;
    offset += index[d] * view.strides[d];
  }
  const std::size_t inner = rank - 1;
  while (count > 0) {
    const std::int64_t run = std::min(count, view.shape[inner] - index[inner]);
    copy_run(view.data + offset * bytes, view.strides[inner], run, bytes, out);
    out += run * bytes;
    count -= run;
    index[inner] += run;
    offset += run * view.strides[inner];
    for (std::size_t d = inner; index[d] == view.shape[d] && d > 0; --d) {
      offset -= index[d] * view.strides[d];
      index[d] = 0;
      ++index[d - 1];
      offset += view.strides[d - 1];
    }
  }
}

}  // namespace

std::int64_t TensorView::numel() const {
  const auto n = checked_numel(shape);
  if (!n) {
    throw Error(Code::kRefused,
                "shape " + to_string(shape) + " has no 63-bit element count");
  }
  return *n;
}

bool TensorView::is_contiguous() const {
  if (strides.empty()) return true;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

std::span<const std::byte> TensorView::bytes() const {
  if (!is_contiguous()) {
    throw Error(Code::kInternal, "bytes() of a strided view");
  }
  return {data,
          static_cast<std::size_t>(storage_bytes(dtype, numel()).value())};
}

Tensor Tensor::empty(DType dtype, Shape shape, Device device) {
  const auto n = checked_numel(shape);
  const auto size = n ? storage_bytes(dtype, *n) : std::nullopt;
  if (!size) {
    throw Error(Code::kRefused,
                "shape " + to_string(shape) + " is too large to hold");
  }
  auto buffer = allocate_buffer(static_cast<std::size_t>(*size));
  Tensor tensor;
  tensor.view = {dtype, std::move(shape), {}, buffer.get()};
  tensor.owner = std::move(buffer);
  tensor.device = device;
  tensor.writable = true;
  return tensor;
}

Tensor Tensor::zeros(DType dtype, Shape shape, Device device) {
  Tensor tensor = empty(dtype, std::move(shape), device);
  std::memset(tensor.mutable_data(), 0, tensor.view.bytes().size());
  return tensor;
}

std::byte* Tensor::mutable_data() {
  if (!writable && view.data != nullptr) {
    throw Error(Code::kUsage, "tensor " + to_string(view.shape) +
                                  ": read-only, expected memory to write");
  }
  return const_cast<std::byte*>(view.data);
}

void gather(const TensorView& view, std::int64_t begin, std::int64_t count,
            std::byte* out) {
  if (count <= 0) return;
  if (view.is_contiguous()) {
    const std::int64_t from = storage_bytes(view.dtype, begin).value();
    const std::int64_t size = storage_bytes(view.dtype, count).value();
    std::memcpy(out, view.data + from, static_cast<std::size_t>(size));
    return;
  }
  const int bits = traits(view.dtype).bits;
  if (bits < 8) {
    throw Error(Code::kUnsupported, "a strided view of packed " +
                                        std::string(traits(view.dtype).name));
  }
  gather_strided(view, begin, count, bits / 8, out);
}

Tensor contiguous(const Tensor& tensor) {
  if (tensor.view.is_contiguous()) return tensor;
  Tensor copy =
      Tensor::empty(tensor.dtype(), tensor.shape(), tensor.device);
  gather(tensor.view, 0, tensor.view.numel(), copy.mutable_data());
  return copy;
}

}  // namespace assay
