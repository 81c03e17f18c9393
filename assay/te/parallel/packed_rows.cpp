#include "assay/te/parallel/packed_rows.h"

#include <cstring>

#include "assay/te/check.h"
#include "assay/te/parallel/quantized_rows.h"
#include "assay/te/quantize/check_quantized.h"

namespace assay::te {
namespace {

constexpr std::int64_t kAlignment = 64;

// visit(tensor) for everything that travels, in a fixed order.
template <typename Quantized, typename Visit>
void for_each_part(Quantized& x, Visit visit) {
  for (auto* direction : {&x.rowwise, &x.columnwise}) {
    if (!*direction) continue;
    for (auto* part :
         {&(*direction)->data, &(*direction)->scale_inv, &(*direction)->amax})
      if (part->view.data != nullptr) visit(*part);
  }
}

std::int64_t padded(std::size_t bytes) {
  const auto n = static_cast<std::int64_t>(bytes);
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

std::string kind_of(const QuantizedData& q) {
  const bool amax = q.amax.view.data != nullptr;
  std::string text(q.columnwise ? " columnwise " : " rowwise ");
  text.append(scaling_mode_name(q.mode)).append(" ");
  text.append(traits(q.format).short_name);
  text.append(q.layout == ScaleLayout::kCompact     ? " compact"
              : q.layout == ScaleLayout::kGemmReady ? " padded"
                                                    : " swizzled");
  if (q.mode == ScalingMode::kNVFP4) {
    text.append(q.amax.shape() == Shape{1} ? " one amax" : " amax per row");
    text.append(" max " + std::to_string(static_cast<int>(q.nvfp4_scale_max)));
  } else if (amax) {
    text.append(" with amax");
  }
  return text;
}

QuantizedData empty_rows(const QuantizedData& q, std::int64_t rows,
                         std::int64_t columns) {
  QuantizedData out = q;
  const bool transposed = q.columnwise && q.mode != ScalingMode::kMXFP8 &&
                          q.mode != ScalingMode::kIdentity;
  const Shape shape = transposed ? Shape{columns, rows} : Shape{rows, columns};
  out.data = Tensor::empty(q.data.dtype(), shape, q.data.device);
  if (q.mode != ScalingMode::kIdentity)
    out.scale_inv =
        Tensor::empty(q.scale_inv.dtype(), scale_inv_shape(q, {rows, columns}),
                      q.data.device);
  const bool per_row =
      q.mode == ScalingMode::kNVFP4 && q.amax.shape() != Shape{1};
  if (q.amax.view.data != nullptr)
    out.amax = Tensor::empty(DType::kF32, {per_row ? rows : 1}, q.data.device);
  return out;
}

}  // namespace

std::string kind_of(const QuantizedTensor& x) {
  std::string text(traits(x.dtype).name);
  text.append(" on ").append(device_name(x.device));
  text.append(" of ").append(std::to_string(matrix_shape(x.shape).columns));
  text.append(" columns");
  if (x.rowwise) text.append(kind_of(*x.rowwise));
  if (x.columnwise) text.append(kind_of(*x.columnwise));
  return text;
}

QuantizedTensor empty_rows(const QuantizedTensor& x, std::int64_t rows) {
  const std::int64_t columns = matrix_shape(x.shape).columns;
  QuantizedTensor out = x;
  out.shape = {rows, columns};
  if (x.rowwise) out.rowwise = empty_rows(*x.rowwise, rows, columns);
  if (x.columnwise) out.columnwise = empty_rows(*x.columnwise, rows, columns);
  return out;
}

std::int64_t packed_size(const QuantizedTensor& x) {
  std::int64_t total = 0;
  for_each_part(x, [&](const Tensor& part) {
    total += padded(part.view.bytes().size());
  });
  return total;
}

void pack(const QuantizedTensor& x, std::byte* out) {
  for_each_part(x, [&](const Tensor& part) {
    const auto bytes = part.view.bytes();
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    const auto size = static_cast<std::size_t>(padded(bytes.size()));
    std::memset(out + bytes.size(), 0, size - bytes.size());
    out += size;
  });
}

void unpack(const std::byte* bytes, QuantizedTensor& out) {
  for_each_part(out, [&](Tensor& part) {
    const std::size_t size = part.view.bytes().size();
    if (size > 0) std::memcpy(part.mutable_data(), bytes, size);
    bytes += padded(size);
  });
}

}  // namespace assay::te
