// Several tensors back to back in one buffer, so that one message carries them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "assay/core/tensor.h"

namespace assay::te {

class Packet {
 public:
  Packet() = default;
  // Undefined bytes for tensors of the dtypes and shapes of `tensors`.
  static Packet like(std::span<const Tensor> tensors);
  // Copies of them.
  static Packet of(std::span<const Tensor> tensors);

  // The same parts in other memory of as many bytes, aligned to 64 for those
  // that need it.
  Packet like() const { return like(parts_); }
  Packet over(std::shared_ptr<std::byte> memory) const;

  // Shares the packet's bytes; writable.
  const Tensor& part(std::size_t i) const { return parts_[i]; }
  Tensor& part(std::size_t i) { return parts_[i]; }

  std::span<std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t size_ = 0;
  std::vector<Tensor> parts_;
};

}  // namespace assay::te
