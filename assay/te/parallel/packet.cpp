#include "assay/te/parallel/packet.h"

#include <cstring>

#include "assay/core/buffer.h"

namespace assay::te {
namespace {

// Each part begins where any dtype and a vector load like it.
constexpr std::size_t kAlignment = 64;

}  // namespace

Packet Packet::like(std::span<const Tensor> tensors) {
  Packet packet;
  std::vector<std::size_t> at;
  for (const Tensor& t : tensors) {
    at.push_back(packet.size_);
    const auto bytes =
        static_cast<std::size_t>(storage_bytes(t.dtype(), t.numel()).value());
    packet.size_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  packet.data_ = allocate_buffer(packet.size_);
  at.push_back(packet.size_);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Tensor part;
    part.view.dtype = tensors[i].dtype();
    part.view.shape = tensors[i].shape();
    part.view.data = packet.data_.get() + at[i];
    part.owner = packet.data_;
    part.device = tensors[i].device;
    part.writable = true;
    // The gap behind a part travels too.
    const std::size_t end = at[i] + part.view.bytes().size();
    std::memset(packet.data_.get() + end, 0, at[i + 1] - end);
    packet.parts_.push_back(std::move(part));
  }
  return packet;
}

Packet Packet::over(std::shared_ptr<std::byte> memory) const {
  Packet packet = *this;
  for (Tensor& part : packet.parts_) {
    part.view.data = memory.get() + (part.data<std::byte>() - data_.get());
    part.owner = memory;
  }
  packet.data_ = std::move(memory);
  return packet;
}

Packet Packet::of(std::span<const Tensor> tensors) {
  Packet packet = like(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    gather(tensors[i].view, 0, tensors[i].numel(),
           packet.parts_[i].mutable_data());
  return packet;
}

}  // namespace assay::te
