// A tensor: dtype, shape, strides, and bytes that it shares with others: a
// file mapping, a decoded buffer, memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "assay/core/device.h"
#include "assay/core/dtype.h"
#include "assay/core/shape.h"

namespace assay {

// Non-owning. Bytes are in the byte order of this machine. `strides` count
// elements and are never negative; empty means row-major contiguous. Packed
// dtypes (e2m1) are always contiguous.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  Shape strides;
  const std::byte* data = nullptr;

  std::int64_t numel() const;
  bool is_contiguous() const;
  // The elements' bytes; contiguous views only.
  std::span<const std::byte> bytes() const;
};

// A view plus what keeps its bytes alive. Copies share the bytes.
struct Tensor {
  TensorView view;
  std::shared_ptr<const void> owner;
  Device device = Device::kCpu;
  // Whether the bytes may be written: memory that zeros() and empty() made, or
  // that its giver lent for writing. Not a file mapping. Copies inherit it.
  bool writable = false;

  // Contiguous, over memory of its own; `zeros` is zeroed, `empty` undefined.
  // Throws Error{kRefused} where the shape has no 63-bit size or there is no
  // memory.
  static Tensor zeros(DType dtype, Shape shape, Device device = Device::kCpu);
  static Tensor empty(DType dtype, Shape shape, Device device = Device::kCpu);

  DType dtype() const { return view.dtype; }
  const Shape& shape() const { return view.shape; }
  std::int64_t numel() const { return view.numel(); }

  // The elements of a contiguous tensor as T, which the caller chose by the
  // dtype (bf16 and f16: std::uint16_t codes, fp8: std::uint8_t). The mutable
  // ones throw Error{kUsage} unless the tensor is writable.
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(view.data);
  }
  template <typename T>
  T* mutable_data() {
    return reinterpret_cast<T*>(mutable_data());
  }
  std::byte* mutable_data();
};

// Copies elements [begin, begin + count) in row-major order of the shape into
// `out`, which holds storage_bytes(dtype, count). `begin` is even for e2m1.
void gather(const TensorView& view, std::int64_t begin, std::int64_t count,
            std::byte* out);

// Row-major copy where `tensor` is strided, itself where it is not.
Tensor contiguous(const Tensor& tensor);

}  // namespace assay
