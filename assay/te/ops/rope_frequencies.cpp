#include <cmath>
#include <string>

#include "assay/te/check.h"
#include "assay/te/ops/rope.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "rope_frequencies";

double position_scale(const RopeFrequencies& o, std::int64_t length) {
  if (!o.interpolation_factor || !o.pretrained_max) return 1;
  const auto longest = static_cast<double>(length);
  if (longest > *o.pretrained_max * *o.interpolation_factor)
    return 1 / (longest / *o.pretrained_max);
  return 1 / *o.interpolation_factor;
}

}  // namespace

Tensor rope_frequencies(const RopeFrequencies& o, std::int64_t length,
                        std::int64_t offset) {
  const auto rotated =
      static_cast<std::int64_t>(static_cast<double>(o.dim) * o.percent);
  require(rotated > 0 && rotated % 2 == 0, kOp, "dim",
          std::to_string(rotated) + " rotated", "an even number above 0");
  require(length >= 0 && offset >= 0, kOp, "length",
          std::to_string(length) + " from " + std::to_string(offset),
          "neither negative");
  Tensor freqs = Tensor::empty(DType::kF32, {length, 1, 1, rotated});
  auto* out = freqs.mutable_data<float>();
  const std::int64_t half = rotated / 2;
  const auto scale = static_cast<float>(position_scale(o, length));
  for (std::int64_t i = 0; i < half; ++i) {
    const auto frequency = static_cast<float>(std::pow(
        o.base, -2.0 * static_cast<double>(i) / static_cast<double>(rotated)));
    const std::int64_t first = o.interleaved ? 2 * i : i;
    const std::int64_t second = o.interleaved ? 2 * i + 1 : i + half;
    for (std::int64_t s = 0; s < length; ++s) {
      const float angle = static_cast<float>(offset + s) * scale * frequency;
      out[s * rotated + first] = angle;
      out[s * rotated + second] = angle;
    }
  }
  return freqs;
}

}  // namespace assay::te
