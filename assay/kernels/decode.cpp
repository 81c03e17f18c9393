#include "assay/kernels/decode.h"

#include <array>
#include <cstring>
#include <memory>

#include "assay/kernels/kernels.h"
#include "assay/kernels/scalar_half.h"
#include "assay/numerics/element.h"
#include "assay/numerics/float_format.h"

namespace assay {
namespace {

using CodeTable = std::array<std::uint16_t, 256>;

// The bf16 code of every byte of an 8-bit dtype; e2m1: of a low nibble.
CodeTable make_table(DType dtype) {
  CodeTable table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto byte = static_cast<std::byte>(i);
    table[i] = static_cast<std::uint16_t>(encode_float(
        DType::kBF16, load_as_double(dtype, &byte, 0), Overflow::kSpecial));
  }
  return table;
}

const CodeTable& table_of(DType dtype) {
  static const std::array<CodeTable, kDTypeCount> tables = [] {
    std::array<CodeTable, kDTypeCount> all{};
    for (const DTypeTraits& t : kDTypes) {
      if (t.bits <= 8) all[static_cast<std::size_t>(t.id)] = make_table(t.id);
    }
    return all;
  }();
  return tables[static_cast<std::size_t>(dtype)];
}

template <typename T, typename Out>
void convert(const std::byte* in, std::int64_t n, Out* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, in + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    out[i] = static_cast<Out>(v);
  }
}

// float_value(code) of 16-bit codes.
template <typename Out, typename Value>
void convert_half(const std::byte* in, std::int64_t n, Out* out, Value value) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint16_t code;
    std::memcpy(&code, in + 2 * i, 2);
    out[i] = static_cast<Out>(value(code));
  }
}

template <typename Out>
void convert_bytes(DType dtype, const std::byte* in, std::int64_t n, Out* out) {
  const CodeTable& table = table_of(dtype);
  const bool packed = dtype == DType::kE2M1;
  for (std::int64_t i = 0; i < n; ++i) {
    auto code = static_cast<std::size_t>(in[packed ? i / 2 : i]);
    if (packed) code = i % 2 ? code >> 4 : code & 15;
    if constexpr (sizeof(Out) == 2)
      out[i] = table[code];
    else
      out[i] = static_cast<Out>(bf16_value(table[code]));
  }
}

template <typename Out>
void decode(DType dtype, const std::byte* in, std::int64_t n, Out* out) {
  switch (component(dtype)) {
    case DType::kF64:
      return convert<double>(in, n, out);
    case DType::kF32:
      return convert<float>(in, n, out);
    case DType::kF16:
      return convert_half(in, n, out, f16_value);
    case DType::kBF16:
      return convert_half(in, n, out, bf16_value);
    case DType::kI16:
      return convert<std::int16_t>(in, n, out);
    case DType::kI32:
      return convert<std::int32_t>(in, n, out);
    case DType::kI64:
      return convert<std::int64_t>(in, n, out);
    case DType::kU16:
      return convert<std::uint16_t>(in, n, out);
    case DType::kU32:
      return convert<std::uint32_t>(in, n, out);
    case DType::kU64:
      return convert<std::uint64_t>(in, n, out);
    default:
      return convert_bytes(dtype, in, n, out);
  }
}

}  // namespace

void decode_f64(DType dtype, const std::byte* in, std::int64_t n, double* out) {
  decode(dtype, in, n, out);
}

bool fits_f32(DType dtype) {
  const DTypeTraits& t = traits(component(dtype));
  return t.bits <= (is_exact(dtype) ? 16 : 32);
}

void decode_f32(DType dtype, const std::byte* in, std::int64_t n, float* out) {
  decode(dtype, in, n, out);
}

bool fits_bf16(DType dtype) { return traits(dtype).bits <= 8; }

void decode_bf16(DType dtype, const std::byte* in, std::int64_t n,
                 std::uint16_t* out) {
  convert_bytes(dtype, in, n, out);
}

}  // namespace assay
