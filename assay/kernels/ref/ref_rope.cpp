#include "assay/kernels/ref/ref_rope.h"

#include <cmath>

#include "assay/kernels/rope_partner.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

void prepare(const float* angles, std::int64_t d2, DType, bool interleaved,
             bool backward, void* table) {
  auto* cosines = static_cast<double*>(table);
  double* sines = cosines + d2;
  for (std::int64_t j = 0; j < d2; ++j) {
    const RopePartner partner = rope_partner(j, d2, interleaved);
    cosines[j] = std::cos(static_cast<double>(angles[j]));
    // The transpose takes the entry of the partner's row.
    const std::int64_t row = backward ? partner.dim : j;
    const double sign = backward ? -partner.sign : partner.sign;
    sines[j] = sign * std::sin(static_cast<double>(angles[row]));
  }
}

void rotate(const RopeRows& r, const void* table) {
  const auto* cosines = static_cast<const double*>(table);
  const double* sines = cosines + r.rotated;
  for (std::int64_t h = 0; h < r.heads; ++h) {
    const std::int64_t from = h * r.from_stride, to = h * r.to_stride;
    for (std::int64_t j = 0; j < r.dim; ++j) {
      const double x = load_as_double(r.dtype, r.from, from + j);
      double y = x;
      if (j < r.rotated) {
        const std::int64_t partner =
            rope_partner(j, r.rotated, r.interleaved).dim;
        y = x * cosines[j] +
            load_as_double(r.dtype, r.from, from + partner) * sines[j];
      }
      store_from_double(r.dtype, y, r.to, to + j);
    }
  }
}

}  // namespace

const RopeKernels kRefRope = {"scalar", sizeof(double), &prepare, &rotate};

}  // namespace assay
