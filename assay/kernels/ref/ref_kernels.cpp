#include "assay/kernels/ref/ref_kernels.h"

#include "assay/kernels/scalar_half.h"

namespace assay {
namespace {

void widen_f32(const float* in, std::int64_t n, double* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i];
}
void widen_bf16(const std::uint16_t* in, std::int64_t n, double* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = bf16_value(in[i]);
}
void widen_f16(const std::uint16_t* in, std::int64_t n, double* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = f16_value(in[i]);
}

}  // namespace

const KernelTable kRefKernels = {
    "scalar",        &ref_pair_f64,   &ref_pair_f32,   &ref_pair_bf16,
    &ref_pair_f16,   &ref_detail_f64, &ref_detail_f32, &ref_detail_bf16,
    &ref_detail_f16, &widen_f32,      &widen_bf16,     &widen_f16,
};

}  // namespace assay
