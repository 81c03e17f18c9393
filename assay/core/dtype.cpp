#include "assay/core/dtype.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <string>
#include <utility>

namespace assay {
namespace {

// Spellings beyond the table's own columns, lower case. "float8_e4m3" is not
// among them: ml_dtypes calls a format with infinities so.
constexpr std::pair<std::string_view, DType> kAliases[] = {
    {"double", DType::kF64},
    {"fp64", DType::kF64},
    {"float", DType::kF32},
    {"fp32", DType::kF32},
    {"half", DType::kF16},
    {"fp16", DType::kF16},
    {"e4m3", DType::kE4M3FN},
    {"fp8_e4m3", DType::kE4M3FN},
    {"f8_e4m3fn", DType::kE4M3FN},
    {"f8_e4m3", DType::kE4M3FN},
    {"f8_e5m2", DType::kE5M2},
    {"fp8_e5m2", DType::kE5M2},
    {"float4_e2m1fn_x2", DType::kE2M1},
    {"fp4", DType::kE2M1},
    {"fp4_e2m1", DType::kE2M1},
    {"f8_e8m0fnu", DType::kE8M0},
    {"f8_e8m0", DType::kE8M0},
    {"float8_e8m0", DType::kE8M0},
    {"char", DType::kI8},
    {"short", DType::kI16},
    {"int", DType::kI32},
    {"long", DType::kI64},
    {"byte", DType::kU8},
    {"bool_", DType::kBool},
    {"complexfloat", DType::kC64},
    {"complexdouble", DType::kC128},
    {"cfloat", DType::kC64},
    {"cdouble", DType::kC128},
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return out;
}

std::string_view without_prefix(std::string_view text) {
  for (const std::string_view prefix :
       {"torch.", "mindspore.", "numpy.", "np.", "jnp.", "ml_dtypes."}) {
    if (text.starts_with(prefix)) return text.substr(prefix.size());
  }
  return text;
}

// "<f4", "|u1": numpy descriptors keep "i8" apart from the short name "i8".
std::optional<DType> parse_numpy(std::string_view text) {
  for (const DTypeTraits& t : kDTypes) {
    if (!t.numpy.empty() && t.numpy == text) return t.id;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> storage_bytes(DType dtype, std::int64_t count) {
  if (count < 0) return std::nullopt;
  const int bits = traits(dtype).bits;
  if (bits < 8) {
    const int per_byte = 8 / bits;
    return count / per_byte + (count % per_byte != 0);
  }
  const std::int64_t bytes = bits / 8;
  if (count > std::numeric_limits<std::int64_t>::max() / bytes)
    return std::nullopt;
  return count * bytes;
}

std::optional<DType> parse_dtype(std::string_view text) {
  if (!text.empty() &&
      std::string_view("<>|=").find(text[0]) != std::string_view::npos) {
    return parse_numpy(text.substr(1));
  }
  // safetensors' names in their own case only: its "F4" has four bits, what
  // numpy calls "f4" has four bytes.
  const std::string name = lower(without_prefix(text));
  for (const DTypeTraits& t : kDTypes) {
    if (name == t.name || name == t.short_name) return t.id;
    if (!t.safetensors.empty() && text == t.safetensors) return t.id;
  }
  for (const auto& [alias, dtype] : kAliases) {
    if (name == alias) return dtype;
  }
  return std::nullopt;
}

}  // namespace assay
