#include "assay/te/modules/numerics_monitor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/numerics/element.h"
#include "assay/numerics/float_format.h"
#include "assay/te/check.h"
#include "assay/te/modules/module.h"

namespace assay::te {
namespace {

constexpr std::int64_t kBlock = 1 << 14;  // elements a task looks at

std::int64_t block_count(std::int64_t n) { return (n + kBlock - 1) / kBlock; }

// Whether any of `count` codes has all bits of the exponent set.
template <typename Code>
bool any_special(const Code* codes, std::int64_t count, Code exponent) {
  bool any = false;
  for (std::int64_t i = 0; i < count; ++i)
    any |= (codes[i] & exponent) == exponent;
  return any;
}

bool any_special(const Tensor& t, std::int64_t begin, std::int64_t count) {
  switch (t.dtype()) {
    case DType::kF32:
      return any_special(t.data<std::uint32_t>() + begin, count, 0x7f800000u);
    case DType::kBF16:
      return any_special(t.data<std::uint16_t>() + begin, count,
                         std::uint16_t{0x7f80});
    default:
      return any_special(t.data<std::uint16_t>() + begin, count,
                         std::uint16_t{0x7c00});
  }
}

std::string_view value_name(double value) {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "inf" : "-inf";
}

std::string message(std::string_view module, std::string_view what,
                    const Tensor& tensor, std::int64_t index) {
  const Tensor flat = contiguous(tensor);
  const double value = load_as_double(flat.dtype(), flat.view.data, index);
  return std::string(module) + ": " + std::string(what) + ": " +
         std::string(value_name(value)) + " at " +
         index_text(tensor.shape(), index) + ", expected finite values";
}

// |x| over |decoded| from which an element at the largest code was cut off:
// half a unit in the last place above it.
double cut_off_ratio(DType format) {
  const double largest = max_finite(format);
  const double below = decode_float(format, max_finite_code(format) - 1);
  return (largest + (largest - below) / 2) / largest;
}

QuantizationCounts count_block(const Tensor& source, const Tensor& codes,
                               const Tensor& decoded, std::int64_t begin,
                               std::int64_t count) {
  std::vector<double> x(static_cast<std::size_t>(count)), code(x.size());
  load_as_doubles(source.dtype(), source.view.data, begin, count, x.data());
  load_as_doubles(codes.dtype(), codes.view.data, begin, count, code.data());
  const float* values = decoded.data<float>() + begin;
  const double largest = max_finite(codes.dtype());
  const double ratio = cut_off_ratio(codes.dtype());
  QuantizationCounts counts{count};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = std::abs(static_cast<double>(values[i]));
    counts.underflowed += value == 0 && x[i] != 0;
    counts.saturated += value != 0 && std::abs(code[i]) == largest &&
                        std::abs(x[i]) > ratio * value;
  }
  return counts;
}

}  // namespace

std::optional<std::int64_t> first_non_finite(const Tensor& tensor) {
  require_high_precision("first_non_finite", "tensor", tensor);
  const Tensor t = contiguous(tensor);
  const std::int64_t n = t.numel();
  std::vector<char> special(static_cast<std::size_t>(block_count(n)));
  parallel_for(block_count(n), [&](std::int64_t block) {
    const std::int64_t begin = block * kBlock;
    special[static_cast<std::size_t>(block)] =
        any_special(t, begin, std::min(kBlock, n - begin));
  });
  const auto found = std::find(special.begin(), special.end(), 1);
  if (found == special.end()) return std::nullopt;
  std::int64_t i = (found - special.begin()) * kBlock;
  while (!any_special(t, i, 1)) ++i;
  return i;
}

NonFiniteError::NonFiniteError(std::string_view module, std::string_view what,
                               const Tensor& tensor, std::int64_t index)
    : Error(Code::kRefused, message(module, what, tensor, index)),
      module_(module) {}

void require_finite(std::string_view module, std::string_view what,
                    const Tensor& tensor) {
  if (const auto index = first_non_finite(tensor))
    throw NonFiniteError(module, what, tensor, *index);
}

QuantizationCounts& QuantizationCounts::operator+=(
    const QuantizationCounts& other) {
  elements += other.elements;
  saturated += other.saturated;
  underflowed += other.underflowed;
  unseen += other.unseen;
  return *this;
}

double QuantizationCounts::saturated_share() const {
  return elements
             ? static_cast<double>(saturated) / static_cast<double>(elements)
             : 0;
}

double QuantizationCounts::underflow_share() const {
  return elements
             ? static_cast<double>(underflowed) / static_cast<double>(elements)
             : 0;
}

QuantizationCounts count_quantization(const Tensor* source,
                                      const QuantizedTensor& quantized) {
  const std::int64_t n = checked_numel(quantized.shape).value();
  if (quantized.rowwise && quantized.rowwise->mode == ScalingMode::kIdentity)
    return {};
  if (!source || !quantized.rowwise || source->shape() != quantized.shape)
    return {.unseen = n};
  const Tensor x = contiguous(*source);
  const Tensor codes = contiguous(quantized.rowwise->data);
  const Tensor decoded =
      dequantize(*quantized.rowwise, quantized.shape, DType::kF32);
  std::vector<QuantizationCounts> blocks(
      static_cast<std::size_t>(block_count(n)));
  parallel_for(block_count(n), [&](std::int64_t block) {
    const std::int64_t begin = block * kBlock;
    blocks[static_cast<std::size_t>(block)] =
        count_block(x, codes, decoded, begin, std::min(kBlock, n - begin));
  });
  QuantizationCounts total;
  for (const QuantizationCounts& counts : blocks) total += counts;
  return total;
}

void NumericsMonitor::on_tensor(const Module& module, std::string_view what,
                                const Tensor& tensor) {
  require_finite(module.name(), what, tensor);
}

void NumericsMonitor::on_quantized(const Module& module, Role role,
                                   const Tensor* source,
                                   const QuantizedTensor& quantized) {
  if (source) require_finite(module.name(), role_name(role), *source);
  counts_[static_cast<std::size_t>(role)] +=
      count_quantization(source, quantized);
}

QuantizationCounts NumericsMonitor::total() const {
  QuantizationCounts sum;
  for (const QuantizationCounts& counts : counts_) sum += counts;
  return sum;
}

void require_finite_gradients(Module& root) {
  for (const NamedParameter& p : root.parameters()) {
    const std::size_t dot = p.name.rfind('.');
    const bool own = dot == std::string::npos;
    const std::string module = own ? root.name() : p.name.substr(0, dot);
    const std::string what =
        "gradient of " + (own ? p.name : p.name.substr(dot + 1));
    if (p.parameter->grad) require_finite(module, what, *p.parameter->grad);
    if (p.parameter->main_grad)
      require_finite(module, what, *p.parameter->main_grad);
  }
}

}  // namespace assay::te
