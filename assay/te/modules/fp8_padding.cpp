#include "assay/te/modules/fp8_padding.h"

#include "assay/base/round_up.h"
#include "assay/te/check.h"
#include "assay/te/modules/autocast.h"
#include "assay/te/ops/pad.h"
#include "assay/te/splits.h"

namespace assay::te {

std::int64_t active_alignment() {
  const AutocastState& scope = autocast_state();
  return quantization_alignment(scope.enabled ? *scope.recipe
                                              : default_recipe());
}

RowPadding::RowPadding(const char* type, int num_gemms,
                       std::optional<std::int64_t> align_size)
    : Module(type, ""), num_gemms_(num_gemms), align_size_(align_size) {
  require(num_gemms > 0, name(), "num_gemms", std::to_string(num_gemms),
          "1 or more");
  require(align_size.value_or(1) > 0, name(), "align_size",
          std::to_string(align_size.value_or(1)), "1 or more");
}

std::vector<std::int64_t> RowPadding::padded(
    std::span<const std::int64_t> m_splits, std::int64_t limit) const {
  require(m_splits.size() == static_cast<std::size_t>(num_gemms_), name(),
          "m_splits", std::to_string(m_splits.size()) + " groups",
          std::to_string(num_gemms_));
  total_of(name(), "m_splits", m_splits);
  const std::int64_t alignment = align_size_.value_or(active_alignment());
  std::vector<std::int64_t> out;
  for (std::int64_t rows : m_splits) {
    require(rows <= limit, name(), "m_splits", std::to_string(rows),
            "at most the " + std::to_string(limit) + " rows of the input");
    out.push_back(round_up(rows, alignment));
  }
  total_of(name(), "m_splits", out);
  return out;
}

PaddedRows Fp8Padding::forward(const Tensor& x, Context* context,
                               std::span<const std::int64_t> m_splits) {
  PaddedRows out;
  out.m_splits = padded(m_splits, matrix_shape(x.shape()).rows);
  const std::vector<std::int64_t> rows(m_splits.begin(), m_splits.end());
  require_splits(name(), "m_splits", m_splits, matrix_shape(x.shape()).rows);
  out.rows = rows == out.m_splits ? x : pad_groups(x, rows, out.m_splits);
  if (context) *context = {rows, out.m_splits};
  return out;
}

Tensor Fp8Padding::backward(const Tensor& dy, Context& context) {
  if (context.rows == context.padded) return dy;
  return unpad_groups(dy, context.rows, context.padded);
}

Tensor Fp8Unpadding::forward(const Tensor& x, Context* context,
                             std::span<const std::int64_t> m_splits) {
  const std::vector<std::int64_t> rows(m_splits.begin(), m_splits.end());
  const std::vector<std::int64_t> from =
      padded(m_splits, matrix_shape(x.shape()).rows);
  require_splits(name(), "input", from, matrix_shape(x.shape()).rows);
  if (context) *context = {rows, from};
  return rows == from ? x : unpad_groups(x, rows, from);
}

Tensor Fp8Unpadding::backward(const Tensor& dy, Context& context) {
  if (context.rows == context.padded) return dy;
  return pad_groups(dy, context.rows, context.padded);
}

}  // namespace assay::te
