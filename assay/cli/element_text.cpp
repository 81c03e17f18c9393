#include "assay/cli/element_text.h"

#include <algorithm>

#include "assay/core/value_text.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

// Sign-extends a `bits` wide two's complement code.
std::int64_t signed_code(std::uint64_t code, int bits) {
  const int shift = 64 - bits;
  return static_cast<std::int64_t>(code << shift) >> shift;
}

}  // namespace

std::string element_text(const TensorView& view, std::int64_t index) {
  // Two e2m1 codes share a byte: fetch from the even neighbour.
  const bool packed = traits(view.dtype).bits < 8;
  const std::int64_t begin = packed ? index / 2 * 2 : index;
  const std::int64_t count =
      std::min<std::int64_t>(packed ? 2 : 1, view.numel() - begin);
  std::byte one[16];
  gather(view, begin, count, one);
  const std::int64_t at = index - begin;
  switch (traits(view.dtype).kind) {
    case DTypeKind::kInt:
      return std::to_string(
          signed_code(load_code(view.dtype, one, at), traits(view.dtype).bits));
    case DTypeKind::kUint:
      return std::to_string(load_code(view.dtype, one, at));
    case DTypeKind::kBool:
      return load_code(view.dtype, one, at) ? "true" : "false";
    case DTypeKind::kComplex: {
      const std::string real =
          value_text(view.dtype, load_as_double(view.dtype, one, 0));
      const std::string imag =
          value_text(view.dtype, load_as_double(view.dtype, one, 1));
      return real + (imag[0] == '-' ? "" : "+") + imag + "j";
    }
    case DTypeKind::kFloat:
      break;
  }
  return value_text(view.dtype, load_as_double(view.dtype, one, at));
}

}  // namespace assay
