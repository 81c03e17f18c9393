#include "assay/formats/tensor_layout.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "assay/formats/bytes.h"

namespace assay {
namespace {

constexpr std::uint64_t kMaxEmptyProduct = std::uint64_t{1} << 40;
constexpr std::uint64_t kMaxBytes = ~std::uint64_t{0} >> 1;

template <std::unsigned_integral T>
void swap_all(std::byte* data, std::size_t size) {
  constexpr auto kOther = std::endian::native == std::endian::little
                              ? std::endian::big
                              : std::endian::little;
  for (std::size_t i = 0; i + sizeof(T) <= size; i += sizeof(T)) {
    const T value = read_integer<T>(data + i, kOther);
    std::memcpy(data + i, &value, sizeof(T));
  }
}

void swap_bytes(std::byte* data, std::size_t size, int element_bytes) {
  switch (element_bytes) {
    case 2:
      return swap_all<std::uint16_t>(data, size);
    case 4:
      return swap_all<std::uint32_t>(data, size);
    case 8:
      return swap_all<std::uint64_t>(data, size);
    default:
      return;  // single bytes have no order
  }
}

}  // namespace

std::uint64_t payload_bytes(const Shape& shape, std::uint64_t element_bytes,
                            std::string_view file, std::uint64_t offset,
                            std::size_t max_rank) {
  if (shape.size() > max_rank) {
    refuse(file, offset, std::to_string(shape.size()) + " dimensions",
           "at most " + std::to_string(max_rank));
  }
  std::uint64_t product = element_bytes;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) {
      refuse(file, offset, "negative dimension in shape " + to_string(shape),
             "dimensions of at least 0");
    }
    empty |= dim == 0;
    const auto next =
        checked_mul(product, dim ? static_cast<std::uint64_t>(dim) : 1);
    if (!next || *next > kMaxBytes) {
      refuse(file, offset, "shape " + to_string(shape),
             "a shape whose size in bytes fits 63 bits");
    }
    product = *next;
  }
  if (empty && product > kMaxEmptyProduct) {
    refuse(file, offset, "empty shape " + to_string(shape),
           "other dimensions of an empty shape below 2^40 bytes");
  }
  return empty ? 0 : product;
}

Tensor tensor_over(std::span<const std::byte> part,
                   const std::shared_ptr<const void>& owner, DType dtype,
                   Shape shape, Shape strides, std::endian order) {
  const int element = (traits(component(dtype)).bits + 7) / 8;
  const bool swap = order != std::endian::native && element > 1;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(part.data()) % element == 0;
  Tensor tensor{{dtype, std::move(shape), std::move(strides), part.data()},
                owner};
  if (!swap && aligned) return tensor;
  auto copy =
      std::make_shared<std::vector<std::byte>>(part.begin(), part.end());
  if (swap) swap_bytes(copy->data(), copy->size(), element);
  tensor.view.data = copy->data();
  tensor.owner = std::move(copy);
  return tensor;
}

Tensor pack_e2m1(const Tensor& codes, std::string_view file) {
  const Tensor flat = contiguous(codes);
  const auto from = flat.view.bytes();
  Tensor packed = Tensor::zeros(DType::kE2M1, flat.view.shape);
  std::byte* to = packed.mutable_data();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (std::to_integer<int>(from[i]) > 15) {
      throw Error(Code::kRefused,
                  std::string(file) + ": element " + std::to_string(i) +
                      ": found byte " +
                      std::to_string(std::to_integer<int>(from[i])) +
                      ", expected a float4 code of 0 to 15");
    }
    to[i / 2] |= i % 2 ? from[i] << 4 : from[i];
  }
  return packed;
}

}  // namespace assay
