#include "assay/numerics/element.h"

#include <cstring>
#include <limits>

#include "assay/numerics/rounding.h"

namespace assay {
namespace {

template <typename T>
std::uint64_t load_bits(const std::byte* data, std::int64_t index) {
  T bits;
  std::memcpy(&bits, data + index * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return bits;
}

template <typename T>
void store_bits(std::uint64_t code, std::byte* data, std::int64_t index) {
  const T bits = static_cast<T>(code);
  std::memcpy(data + index * static_cast<std::int64_t>(sizeof(T)), &bits,
              sizeof(T));
}

std::int64_t sign_extend(std::uint64_t code, int bits) {
  return static_cast<std::int64_t>(code << (64 - bits)) >> (64 - bits);
}

// Two's complement code of a rounded value within [int_min, int_max].
std::uint64_t int_code(DType dtype, double value) {
  if (traits(dtype).kind == DTypeKind::kInt) {
    constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::uint64_t>(
        value >= 0x1p63 ? kLargest : static_cast<std::int64_t>(value));
  }
  constexpr auto kLargest = std::numeric_limits<std::uint64_t>::max();
  return value >= 0x1p64 ? kLargest : static_cast<std::uint64_t>(value);
}

}  // namespace

std::uint64_t load_code(DType dtype, const std::byte* data,
                        std::int64_t index) {
  switch (code_bits(dtype)) {
    case 4:
      return load_bits<std::uint8_t>(data, index / 2) >> (index % 2 * 4) & 0xf;
    case 8:
      return load_bits<std::uint8_t>(data, index);
    case 16:
      return load_bits<std::uint16_t>(data, index);
    case 32:
      return load_bits<std::uint32_t>(data, index);
    default:
      return load_bits<std::uint64_t>(data, index);
  }
}

void store_code(DType dtype, std::uint64_t code, std::byte* data,
                std::int64_t index) {
  switch (code_bits(dtype)) {
    case 4: {
      const int shift = static_cast<int>(index % 2 * 4);
      const std::uint64_t other =
          load_bits<std::uint8_t>(data, index / 2) & (0xf0u >> shift);
      return store_bits<std::uint8_t>(other | (code & 0xf) << shift, data,
                                      index / 2);
    }
    case 8:
      return store_bits<std::uint8_t>(code, data, index);
    case 16:
      return store_bits<std::uint16_t>(code, data, index);
    case 32:
      return store_bits<std::uint32_t>(code, data, index);
    default:
      return store_bits<std::uint64_t>(code, data, index);
  }
}

double load_as_double(DType dtype, const std::byte* data, std::int64_t index) {
  const std::uint64_t code = load_code(dtype, data, index);
  switch (traits(dtype).kind) {
    case DTypeKind::kFloat:
    case DTypeKind::kComplex:
      return decode_float(component(dtype), code);
    case DTypeKind::kInt:
      return static_cast<double>(sign_extend(code, traits(dtype).bits));
    case DTypeKind::kUint:
      return static_cast<double>(code);
    default:
      return code != 0 ? 1.0 : 0.0;
  }
}

void store_from_double(DType dtype, double value, std::byte* data,
                       std::int64_t index, Overflow overflow) {
  const std::uint64_t code =
      is_exact(dtype) ? int_code(dtype, round_to(dtype, value, overflow))
                      : encode_float(component(dtype), value, overflow);
  store_code(dtype, code, data, index);
}

void store_from_double(DType dtype, double value, std::byte* data,
                       std::int64_t index) {
  store_from_double(dtype, value, data, index,
                    default_overflow(component(dtype)));
}

}  // namespace assay
