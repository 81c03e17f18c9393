// Block-128 amax and cast of a shard of a flat weight.
#include <algorithm>

#include "assay/te/check.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/tile.h"

namespace assay::te {
namespace {

constexpr std::int64_t kSide = 128;

void require_inside(const char* op, const Tensor& shard, std::int64_t h,
                    std::int64_t w, std::int64_t start) {
  require_high_precision(op, "shard", shard);
  require(h >= 0 && w >= 0 && checked_numel({h, w}).has_value(), op, "h x w",
          std::to_string(h) + " x " + std::to_string(w),
          "sizes of a matrix that fits in 63 bits");
  const std::int64_t n = shard.numel();
  require(start >= 0 && start <= h * w && n <= h * w - start, op, "start",
          std::to_string(start) + " with " + std::to_string(n) + " elements",
          "a shard inside " + std::to_string(h * w) + " elements");
}

// body(i, n, tile): elements [i, i + n) of the shard lie in one row and in
// the tile of that flat index.
template <typename Body>
void for_segments(std::int64_t count, std::int64_t w, std::int64_t start,
                  Body&& body) {
  const std::int64_t across = w == 0 ? 0 : ceil_div(w, kSide);
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t row = (start + i) / w, column = (start + i) % w;
    const std::int64_t end = std::min(w, (column / kSide + 1) * kSide);
    const std::int64_t n = std::min(end - column, count - i);
    body(i, n, row / kSide * across + column / kSide);
    i += n;
  }
}

}  // namespace

Tensor block128_partial_amax(const Tensor& input, std::int64_t h,
                             std::int64_t w, std::int64_t start) {
  require_inside("block128_partial_amax", input, h, w, start);
  const Tensor shard = contiguous(input);
  Tensor amax = Tensor::zeros(
      DType::kF32, {ceil_div(h, kSide), ceil_div(w, kSide)}, shard.device);
  auto* most = amax.mutable_data<float>();
  with_cast_type(cast_kernels(shard.device), shard.dtype(),
                 [&]<typename T>(const CastType<T>& type, T) {
                   for_segments(
                       shard.numel(), w, start,
                       [&](std::int64_t i, std::int64_t n, std::int64_t tile) {
                         most[tile] = std::max(
                             most[tile], type.amax(shard.data<T>() + i, n));
                       });
                 });
  return amax;
}

Tensor block128_partial_cast(const Tensor& input, const Tensor& scales,
                             std::int64_t h, std::int64_t w, std::int64_t start,
                             DType format) {
  constexpr const char* kOp = "block128_partial_cast";
  require_inside(kOp, input, h, w, start);
  require_cast_format(kOp, format);
  require_dtype(kOp, "scale", scales, {DType::kF32});
  require_shape(kOp, "scale", scales, {ceil_div(h, kSide), ceil_div(w, kSide)});
  common_device(kOp, {&input, &scales});
  const Tensor shard = contiguous(input), scale = contiguous(scales);
  Tensor out = Tensor::empty(format, shard.shape(), shard.device);
  auto* codes = out.mutable_data<std::uint8_t>();
  const auto f = static_cast<std::size_t>(cast_format_index(format));
  with_cast_type(cast_kernels(shard.device), shard.dtype(),
                 [&]<typename T>(const CastType<T>& type, T) {
                   for_segments(
                       shard.numel(), w, start,
                       [&](std::int64_t i, std::int64_t n, std::int64_t tile) {
                         type.format[f].cast(shard.data<T>() + i, n,
                                             scale.data<float>()[tile],
                                             codes + i);
                       });
                 });
  return out;
}

}  // namespace assay::te
