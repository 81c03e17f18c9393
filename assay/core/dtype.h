// Element types: one enum and one constexpr table that every reader, writer,
// quantiser and report looks facts up in. A new dtype is a new row here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace assay {

enum class DType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kE4M3FN,    // OCP FP8, no infinity, max 448
  kE5M2,      // OCP FP8, IEEE-like, max 57344
  kE4M3FNUZ,  // bias 8, code 0x80 is the only NaN, max 240
  kE5M2FNUZ,  // bias 16, code 0x80 is the only NaN, max 57344
  kE2M1,      // OCP FP4, two codes a byte, element 2i in the low nibble
  kE8M0,      // OCP block scale, 2^(code-127), 0xff is NaN, no zero, no sign
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
  kC64,   // two f32: real, imaginary
  kC128,  // two f64
};
inline constexpr int kDTypeCount = 21;

enum class DTypeKind : std::uint8_t { kFloat, kInt, kUint, kBool, kComplex };

// How a float format spells what is not a finite number.
enum class Specials : std::uint8_t {
  kNone,      // every code is finite (e2m1), or the dtype is no float
  kIeee,      // all-ones exponent: inf and NaN
  kFn,        // only all-ones exponent and mantissa is NaN, no inf
  kFnuz,      // only the code of -0 is NaN, no inf, no -0
  kScaleNan,  // e8m0: code 0xff is NaN
};

struct DTypeTraits {
  DType id;
  DTypeKind kind;
  int bits;           // storage bits of one element (complex: both parts)
  int exponent_bits;  // 0 where the dtype is no float
  int mantissa_bits;  // explicit ones, of one component
  int bias;
  Specials specials;
  bool is_signed;
  std::string_view name;         // canonical: "float32", "float8_e4m3fn"
  std::string_view short_name;   // "f32", "e4m3fn"
  std::string_view numpy;        // descr without byte order: "f4"; "" if none
  std::string_view safetensors;  // "F32"; "" if the format has none
  int onnx;                      // TensorProto.DataType; 0 if none
};

inline constexpr std::array<DTypeTraits, kDTypeCount> kDTypes = {{
    // clang-format off
  {DType::kF64, DTypeKind::kFloat, 64, 11, 52, 1023, Specials::kIeee, true,
   "float64", "f64", "f8", "F64", 11},
  {DType::kF32, DTypeKind::kFloat, 32, 8, 23, 127, Specials::kIeee, true,
   "float32", "f32", "f4", "F32", 1},
  {DType::kF16, DTypeKind::kFloat, 16, 5, 10, 15, Specials::kIeee, true,
   "float16", "f16", "f2", "F16", 10},
  {DType::kBF16, DTypeKind::kFloat, 16, 8, 7, 127, Specials::kIeee, true,
   "bfloat16", "bf16", "", "BF16", 16},
  {DType::kE4M3FN, DTypeKind::kFloat, 8, 4, 3, 7, Specials::kFn, true,
   "float8_e4m3fn", "e4m3fn", "", "F8_E4M3", 17},
  {DType::kE5M2, DTypeKind::kFloat, 8, 5, 2, 15, Specials::kIeee, true,
   "float8_e5m2", "e5m2", "", "F8_E5M2", 19},
  {DType::kE4M3FNUZ, DTypeKind::kFloat, 8, 4, 3, 8, Specials::kFnuz, true,
   "float8_e4m3fnuz", "e4m3fnuz", "", "F8_E4M3FNUZ", 18},
  {DType::kE5M2FNUZ, DTypeKind::kFloat, 8, 5, 2, 16, Specials::kFnuz, true,
   "float8_e5m2fnuz", "e5m2fnuz", "", "F8_E5M2FNUZ", 20},
  {DType::kE2M1, DTypeKind::kFloat, 4, 2, 1, 1, Specials::kNone, true,
   "float4_e2m1fn", "e2m1", "", "F4", 23},
  {DType::kE8M0, DTypeKind::kFloat, 8, 8, 0, 127, Specials::kScaleNan, false,
   "float8_e8m0fnu", "e8m0", "", "F8_E8M0", 24},
  {DType::kI8, DTypeKind::kInt, 8, 0, 0, 0, Specials::kNone, true,
   "int8", "i8", "i1", "I8", 3},
  {DType::kI16, DTypeKind::kInt, 16, 0, 0, 0, Specials::kNone, true,
   "int16", "i16", "i2", "I16", 5},
  {DType::kI32, DTypeKind::kInt, 32, 0, 0, 0, Specials::kNone, true,
   "int32", "i32", "i4", "I32", 6},
  {DType::kI64, DTypeKind::kInt, 64, 0, 0, 0, Specials::kNone, true,
   "int64", "i64", "i8", "I64", 7},
  {DType::kU8, DTypeKind::kUint, 8, 0, 0, 0, Specials::kNone, false,
   "uint8", "u8", "u1", "U8", 2},
  {DType::kU16, DTypeKind::kUint, 16, 0, 0, 0, Specials::kNone, false,
   "uint16", "u16", "u2", "U16", 4},
  {DType::kU32, DTypeKind::kUint, 32, 0, 0, 0, Specials::kNone, false,
   "uint32", "u32", "u4", "U32", 12},
  {DType::kU64, DTypeKind::kUint, 64, 0, 0, 0, Specials::kNone, false,
   "uint64", "u64", "u8", "U64", 13},
  {DType::kBool, DTypeKind::kBool, 8, 0, 0, 0, Specials::kNone, false,
   "bool", "bool", "b1", "BOOL", 9},
  {DType::kC64, DTypeKind::kComplex, 64, 8, 23, 127, Specials::kIeee, true,
   "complex64", "c64", "c8", "C64", 14},
  {DType::kC128, DTypeKind::kComplex, 128, 11, 52, 1023, Specials::kIeee, true,
   "complex128", "c128", "c16", "", 15},
    // clang-format on
}};

constexpr const DTypeTraits& traits(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)];
}

constexpr bool is_float(DType d) { return traits(d).kind == DTypeKind::kFloat; }
constexpr bool is_complex(DType d) {
  return traits(d).kind == DTypeKind::kComplex;
}
// Ints, unsigned ints and bool: compared exactly.
constexpr bool is_exact(DType d) { return !is_float(d) && !is_complex(d); }

// The dtype of one component: complex64 -> float32, else itself.
constexpr DType component(DType d) {
  if (d == DType::kC64) return DType::kF32;
  if (d == DType::kC128) return DType::kF64;
  return d;
}

// Unit roundoff u = 2^-(mantissa_bits + 1) of round-to-nearest; 0 for exact
// dtypes. e4m3fn 0.0625, bf16 0.00390625, f32 2^-24.
constexpr double unit_roundoff(DType d) {
  if (is_exact(d)) return 0.0;
  double u = 0.5;
  for (int i = 0; i < traits(d).mantissa_bits; ++i) u *= 0.5;
  return u;
}

// Bytes that `count` elements occupy; two e2m1 codes share a byte, an odd last
// one takes its own. Nullopt when the product leaves 63 bits.
std::optional<std::int64_t> storage_bytes(DType dtype, std::int64_t count);

// Accepts every spelling of the ecosystem: "float32", "f32", "torch.float32",
// "F32", "<f4", "fp16", "half", "bf16", "e4m3", "Float32", "torch.Tensor" no.
// Nullopt for anything unknown.
std::optional<DType> parse_dtype(std::string_view text);

}  // namespace assay
