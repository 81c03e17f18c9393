// When TransformerEngine's FusedScaleMaskSoftmax takes its fused kernels.
#include <bit>

#include "assay/te/ops/softmax.h"

namespace assay::te {
namespace {

// Rows that one thread block of the kernel works on: 4 warps of 32, two rows
// to a warp up to 128 columns.
std::int64_t rows_per_block(std::int64_t sk) {
  const auto width = std::bit_ceil(static_cast<std::uint64_t>(sk));
  const std::int64_t warp = width < 32 ? static_cast<std::int64_t>(width) : 32;
  return 128 / warp * (width <= 128 ? 2 : 1);
}

bool mask_fits(const FusedSoftmaxQuery& q) {
  const Shape own = {q.batch, 1, q.sq, q.sk}, shared = {1, 1, q.sq, q.sk};
  return q.mask_shape == own || q.mask_shape == shared;
}

}  // namespace

// NVTE, FusedScaleMaskSoftmax kernel gate.
bool fused_softmax_available(const FusedSoftmaxQuery& q) {
  const bool half = q.dtype == DType::kF16 || q.dtype == DType::kBF16;
  if (!q.fusion_enabled || !half) return false;
  if (q.sk <= 16 || q.sk >= 16384 || q.sk % 8 != 0 || q.sq == 1) return false;
  if (q.mask == SoftmaxMask::kUpperTriangular && q.sq != q.sk) return false;
  if (q.sq % 4 != 0 || q.batch * q.heads % 4 != 0) return false;
  if (q.sq % rows_per_block(q.sk) != 0) return false;
  return q.mask != SoftmaxMask::kPadding || mask_fits(q);
}

}  // namespace assay::te
