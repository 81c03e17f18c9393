#include "assay/kernels/gemm_value.h"

#include "assay/numerics/element.h"

namespace assay {
namespace {

double fold_scale(const GemmView& view, std::int64_t outer, std::int64_t k) {
  const std::int64_t block = k / gemm_fold_block(view.fold);
  const std::uint8_t code =
      view.scales[outer * view.scale_outer + block * view.scale_k];
  return decode_float(
      view.fold == GemmFold::kE8M0 ? DType::kE8M0 : DType::kE4M3FN, code);
}

}  // namespace

void gemm_values(const GemmView& view, std::int64_t outer, std::int64_t k,
                 std::int64_t count, double* out) {
  if (view.k_contiguous) {
    load_as_doubles(view.dtype, view.data, outer * view.stride + k, count, out);
  } else {
    for (std::int64_t j = 0; j < count; ++j)
      out[j] =
          load_as_double(view.dtype, view.data, (k + j) * view.stride + outer);
  }
  if (view.fold == GemmFold::kNone) return;
  const std::int64_t block = gemm_fold_block(view.fold);
  for (std::int64_t j = 0; j < count;) {
    const double scale = fold_scale(view, outer, k + j);
    const std::int64_t end = std::min(count, j + block - (k + j) % block);
    for (; j < end; ++j) out[j] *= scale;
  }
}

}  // namespace assay
