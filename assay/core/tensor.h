// A tensor as the readers hand it out: dtype, shape, strides and bytes that
// somebody else owns (a file mapping, a decoded buffer).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

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

// A view plus what keeps its bytes alive.
struct Tensor {
  TensorView view;
  std::shared_ptr<const void> owner;

  // A tensor over a fresh buffer of `storage_bytes`, zeroed.
  static Tensor zeros(DType dtype, Shape shape);
  std::byte* mutable_data();  // only valid on tensors made by zeros()
};

// Copies elements [begin, begin + count) in row-major order of the shape into
// `out`, which holds storage_bytes(dtype, count). `begin` is even for e2m1.
void gather(const TensorView& view, std::int64_t begin, std::int64_t count,
            std::byte* out);

// Row-major copy where `tensor` is strided, itself where it is not.
Tensor contiguous(const Tensor& tensor);

}  // namespace assay
