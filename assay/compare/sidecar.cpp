#include "assay/compare/sidecar.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>

#include "assay/base/parallel.h"
#include "assay/metrics/judgement.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

constexpr std::int64_t kBlock = 1 << 16;  // even, as e2m1 needs

bool is_wider_float(DType file, DType declared) {
  const DTypeTraits& wide = traits(file);
  const DTypeTraits& narrow = traits(declared);
  return is_float(file) && is_float(declared) &&
         wide.mantissa_bits >= narrow.mantissa_bits &&
         wide.exponent_bits >= narrow.exponent_bits && wide.bits > narrow.bits;
}

bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         (a == b && std::signbit(a) == std::signbit(b));
}

// `tensor` in `dtype`; false when a value is not representable there.
bool narrow_exactly(Tensor& tensor, DType dtype) {
  const Tensor wide = contiguous(tensor);
  const DType from = wide.view.dtype;
  Tensor out = Tensor::zeros(dtype, wide.view.shape);
  const std::int64_t count = wide.view.numel();
  std::byte* data = out.mutable_data();
  std::atomic<bool> exact{true};
  parallel_for((count + kBlock - 1) / kBlock, [&](std::int64_t block) {
    const std::int64_t end = std::min(count, (block + 1) * kBlock);
    for (std::int64_t i = block * kBlock; i < end; ++i) {
      const double value = load_as_double(from, wide.view.data, i);
      store_from_double(dtype, value, data, i);
      if (!same_number(load_as_double(dtype, data, i), value)) {
        exact.store(false, std::memory_order_relaxed);
        return;
      }
    }
  });
  if (exact) tensor = std::move(out);
  return exact;
}

}  // namespace

SidecarCheck check_sidecar(std::string_view side, SideFacts& declared,
                           Tensor& tensor) {
  SidecarCheck result;
  const bool undeclared = !declared.dtype && declared.dtype_text.empty();
  if (undeclared) {
    declared.dtype = tensor.view.dtype;
    declared.dtype_text = traits(tensor.view.dtype).name;
    declared.shape = tensor.view.shape;
    return result;
  }
  if (declared.shape != tensor.view.shape) {
    result.same_shape = false;
    result.reasons.push_back(make_reason(
        "sidecar_shape",
        fmt::format("{}: the dump says shape {}, its file holds {}", side,
                    to_string(declared.shape), to_string(tensor.view.shape)),
        false));
  }
  if (!declared.dtype || *declared.dtype == tensor.view.dtype) return result;
  const DType file = tensor.view.dtype;
  const bool widened = is_wider_float(file, *declared.dtype) &&
                       narrow_exactly(tensor, *declared.dtype);
  result.reasons.push_back(
      make_reason("sidecar_dtype",
                  fmt::format("{}: the dump says {}, its file holds {}{}", side,
                              traits(*declared.dtype).name, traits(file).name,
                              widened ? " of the same values" : ""),
                  widened));
  return result;
}

}  // namespace assay
