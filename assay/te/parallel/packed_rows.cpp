#include "assay/te/parallel/packed_rows.h"

#include <bit>
#include <cstring>

#include "assay/te/check.h"
#include "assay/te/quantize/check_quantized.h"

namespace assay::te {
namespace {

constexpr std::int64_t kAlignment = 64;

bool has_amax_per_row(const QuantizedData& q) {
  return q.mode == ScalingMode::kNVFP4 && q.amax.shape() != Shape{1};
}

// visit(part, its shape for `rows` rows) for everything that travels, in a
// fixed order.
template <typename Data, typename Visit>
void for_each_part(Data& q, std::int64_t rows, std::int64_t columns,
                   Visit visit) {
  const Shape amax = {has_amax_per_row(q) ? rows : 1};
  const Shape scales = scale_inv_shape(q, {rows, columns});
  const bool transposed = is_data_transposed(q);
  visit(q.data, transposed ? Shape{columns, rows} : Shape{rows, columns});
  if (q.mode != ScalingMode::kIdentity) visit(q.scale_inv, scales);
  if (q.mode == ScalingMode::kNVFP4 || q.amax.view.data != nullptr)
    visit(q.amax, amax);
}

template <typename Quantized, typename Visit>
void for_each_part(Quantized& x, std::int64_t rows, Visit visit) {
  const std::int64_t columns = matrix_shape(x.shape).columns;
  if (x.rowwise) for_each_part(*x.rowwise, rows, columns, visit);
  if (x.columnwise) for_each_part(*x.columnwise, rows, columns, visit);
}

std::int64_t size_of(DType dtype, const Shape& shape) {
  const auto n = checked_numel(shape);
  const auto bytes = n ? storage_bytes(dtype, *n) : std::nullopt;
  require(bytes.has_value(), "packed_size", "rows", to_string(shape),
          "a size that fits in 63 bits");
  return *bytes;
}

std::int64_t padded(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::string kind_of(const QuantizedData& q) {
  std::string text(q.columnwise ? " columnwise " : " rowwise ");
  text.append(scaling_mode_name(q.mode)).append(" ");
  text.append(traits(q.format).short_name);
  text.append(q.layout == ScaleLayout::kCompact     ? " compact"
              : q.layout == ScaleLayout::kGemmReady ? " padded"
                                                    : " swizzled");
  if (q.mode == ScalingMode::kNVFP4) {
    text.append(has_amax_per_row(q) ? " amax per row" : " one amax");
    text.append(" max " + std::to_string(static_cast<int>(q.nvfp4_scale_max)));
  } else if (q.amax.view.data != nullptr) {
    text.append(" with amax");
  }
  return text;
}

std::string bits_of(const char* name, const Tensor& one) {
  const Tensor value = contiguous(one);
  std::string text(name);
  return text.append(
      std::to_string(std::bit_cast<std::uint32_t>(*value.data<float>())));
}

std::string common_scale_of(const QuantizedData& q) {
  if (q.mode == ScalingMode::kTensor)
    return bits_of(" scale_inv ", q.scale_inv);
  if (q.mode == ScalingMode::kNVFP4 && !has_amax_per_row(q))
    return bits_of(" amax ", q.amax);
  return "";
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

std::string common_scales_of(const QuantizedTensor& x) {
  return (x.rowwise ? common_scale_of(*x.rowwise) : "") +
         (x.columnwise ? common_scale_of(*x.columnwise) : "");
}

std::int64_t packed_size(const QuantizedTensor& x, std::int64_t rows) {
  std::int64_t total = 0;
  for_each_part(x, rows, [&](const Tensor& part, const Shape& shape) {
    total += padded(size_of(part.dtype(), shape));
  });
  return total;
}

void pack(const QuantizedTensor& x, std::byte* out) {
  const std::int64_t rows = matrix_shape(x.shape).rows;
  for_each_part(x, rows, [&](const Tensor& part, const Shape&) {
    const auto bytes = part.view.bytes();
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    const auto size = static_cast<std::size_t>(
        padded(static_cast<std::int64_t>(bytes.size())));
    std::memset(out + bytes.size(), 0, size - bytes.size());
    out += size;
  });
}

QuantizedTensor unpack(const QuantizedTensor& x, std::int64_t rows,
                       const Tensor& bytes, std::int64_t begin) {
  QuantizedTensor out = x;
  for_each_part(out, rows, [&](Tensor& part, const Shape& shape) {
    const DType dtype = part.dtype();
    part = bytes;
    part.view = {dtype, shape, {}, bytes.view.data + begin};
    part.device = x.device;
    begin += padded(size_of(dtype, shape));
  });
  out.shape = {rows, matrix_shape(x.shape).columns};
  return out;
}

}  // namespace assay::te
