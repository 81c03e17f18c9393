// From a largest magnitude to a scale: the one rule of current and block-128
// scaling.
#pragma once

#include <limits>

#include "assay/core/dtype.h"
#include "assay/core/tensor.h"

namespace assay::te {

// Largest finite value of an 8-bit or 4-bit float format, from its table row:
// 448, 57344, 240 (e4m3fnuz), 57344 (e5m2fnuz), 6.
float format_max(DType format);

struct ScaleOptions {
  bool pow2 = false;  // round the scale toward zero to a power of two
  float epsilon = 0;  // a smaller amax counts as this one
  // What an infinite quotient becomes: FLT_MAX where one scale serves the
  // tensor; block-128 takes the largest finite value of the input dtype.
  float value_for_inf = std::numeric_limits<float>::max();
};

// The factor that elements are multiplied with (NVTE; docs/numerics.md):
// epsilon applied; 1 for an amax that is 0, infinite or NaN; else fp8_max /
// amax in fp32, rounded to nearest, value_for_inf where that is infinite; last
// the mantissa cleared under pow2. NVTE's Python reference gives 0 for an
// infinite amax: the kernel's rule is followed.
float compute_scale(float amax, float fp8_max, const ScaleOptions& options);

// What decoding multiplies by: 1 / scale in fp32, rounded to nearest.
// Subnormal, and kept so, for a scale above 2^126.
inline float scale_inverse(float scale) { return 1.0f / scale; }

// Largest finite value of float32, bfloat16 or float16: block-128's
// value_for_inf.
float block_value_for_inf(DType input);

// compute_scale and its inverse of every element of `amax` (float32, any
// shape): multi-tensor updates of sharded weights. Throws Error{kUsage} for
// another dtype, or a format that is no 8-bit float.
struct Scales {
  Tensor scale, scale_inv;
};
Scales scales_from_amax(const Tensor& amax, DType format,
                        const ScaleOptions& options);

// Throws Error{kUsage} naming `op` unless `format` is one of kCastFormats.
void require_cast_format(std::string_view op, DType format);

}  // namespace assay::te
