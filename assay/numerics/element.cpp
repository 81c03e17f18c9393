#include "assay/numerics/element.h"

#include <array>
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

// The value of a code of any dtype.
double value_of(DType dtype, std::uint64_t code) {
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

using ByteTable = std::array<double, 256>;

std::array<ByteTable, kDTypeCount> make_byte_tables() {
  std::array<ByteTable, kDTypeCount> tables{};
  for (const DTypeTraits& t : kDTypes) {
    if (t.bits > 8) continue;
    for (std::uint64_t code = 0; code < 1u << t.bits; ++code)
      tables[static_cast<std::size_t>(t.id)][code] = value_of(t.id, code);
  }
  return tables;
}

// value_of for every code of a dtype with 8 bits or fewer.
const ByteTable& byte_table(DType dtype) {
  static const auto kTables = make_byte_tables();
  return kTables[static_cast<std::size_t>(dtype)];
}

// Elements whose bits are those of the C++ type T.
template <typename T>
void convert_native(const std::byte* data, std::int64_t begin,
                    std::int64_t count, double* out) {
  constexpr std::int64_t kSize = sizeof(T);
  for (std::int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, data + (begin + i) * kSize, sizeof value);
    out[i] = static_cast<double>(value);
  }
}

void convert_by_table(DType dtype, const std::byte* data, std::int64_t begin,
                      std::int64_t count, double* out) {
  const ByteTable& table = byte_table(dtype);
  if (code_bits(dtype) == 8) {
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = table[std::to_integer<std::size_t>(data[begin + i])];
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = table[load_code(dtype, data, begin + i)];
}

// With the dtype a constant the compiler folds the format away.
template <DType kDType>
void convert_half(const std::byte* data, std::int64_t begin, std::int64_t count,
                  double* out) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = decode_float(kDType, load_bits<std::uint16_t>(data, begin + i));
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
  return value_of(dtype, load_code(dtype, data, index));
}

void load_as_doubles(DType dtype, const std::byte* data, std::int64_t begin,
                     std::int64_t count, double* out) {
  switch (component(dtype)) {
    case DType::kF64:
      return convert_native<double>(data, begin, count, out);
    case DType::kF32:
      return convert_native<float>(data, begin, count, out);
    case DType::kF16:
      return convert_half<DType::kF16>(data, begin, count, out);
    case DType::kBF16:
      return convert_half<DType::kBF16>(data, begin, count, out);
    case DType::kI16:
      return convert_native<std::int16_t>(data, begin, count, out);
    case DType::kI32:
      return convert_native<std::int32_t>(data, begin, count, out);
    case DType::kI64:
      return convert_native<std::int64_t>(data, begin, count, out);
    case DType::kU16:
      return convert_native<std::uint16_t>(data, begin, count, out);
    case DType::kU32:
      return convert_native<std::uint32_t>(data, begin, count, out);
    case DType::kU64:
      return convert_native<std::uint64_t>(data, begin, count, out);
    default:
      return convert_by_table(dtype, data, begin, count, out);
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
