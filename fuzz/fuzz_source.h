// What every reader's fuzz target does: open the bytes, load every tensor, read
// every byte of it. An Error is the right answer to a damaged file; any other
// exception, a sanitizer's report or a run beyond the limits is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"

namespace assay::fuzz {

// Exactly sized, so that AddressSanitizer sees any overread.
inline FileBytes bytes_of(const std::uint8_t* data, std::size_t size) {
  const auto* from = reinterpret_cast<const std::byte*>(data);
  auto copy = std::make_shared<const std::vector<std::byte>>(from, from + size);
  return {*copy, copy, "fuzz", nullptr};
}

inline void read_tensor(const Tensor& tensor) {
  const Tensor flat = contiguous(tensor);
  unsigned char sum = 0;
  for (const std::byte b : flat.view.bytes()) {
    sum = static_cast<unsigned char>(sum + static_cast<unsigned char>(b));
  }
  asm volatile("" : : "r"(sum));  // the reads must happen
}

// Strides of zero make a small file stand for any number of elements: those
// are checked by their layout only.
inline bool is_expanded(const Tensor& tensor, std::size_t file_size) {
  const auto size = storage_bytes(tensor.view.dtype, tensor.view.numel());
  return !size || static_cast<std::uint64_t>(*size) > 4096 * (file_size + 1);
}

template <typename Open>
void open_and_read(const std::uint8_t* data, std::size_t size, Open&& open) {
  try {
    const std::unique_ptr<TensorSource> source = open(bytes_of(data, size));
    for (std::size_t i = 0; i < source->tensors().size(); ++i) {
      try {
        const Tensor tensor = source->load(i);
        if (!is_expanded(tensor, size)) read_tensor(tensor);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
}

}  // namespace assay::fuzz
