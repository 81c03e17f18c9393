// Quantising with one scale for the whole tensor: what delayed scaling,
// current scaling and sharded weights have in common.
//
// code = sat(RN(float(x) * scale)), the product in fp32; decoding multiplies
// by rn(1 / scale) in fp32 (NVTE; docs/numerics.md). Columnwise data are the
// transposed codes. Inputs are float32, bfloat16 or float16 of any rank, made
// contiguous where they are strided; results are fresh tensors. Everything
// here is thread-safe and gives the same bits for any number of threads.
#pragma once

#include <span>
#include <vector>

#include "assay/te/quantize/quantizer.h"

namespace assay::te {

struct TensorScaledOptions {
  DType format = DType::kE4M3FN;
  Usage usage;
  // Also measure max |x| before scaling, in the same pass: QuantizedData::amax.
  bool with_amax = false;
};

// `dtype` of the result is that of x. Throws Error{kUsage} for a format that
// is no 8-bit float.
QuantizedTensor quantize_scaled(const Tensor& x, float scale,
                                const TensorScaledOptions& options);
// xs[i] with scales[i], in one parallel loop.
std::vector<QuantizedTensor> quantize_scaled(
    std::span<const Tensor> xs, std::span<const float> scales,
    const TensorScaledOptions& options);

// Codes of a flat shard of a tensor whose scale is known: a process that owns
// elements [begin, end) of a flattened weight writes just these bytes.
Tensor cast_shard(const Tensor& shard, float scale, DType format);

// decode(quantise(x)) in the dtype of x: what a tensor loses.
Tensor quantize_dequantize_scaled(const Tensor& x, float scale, DType format);

}  // namespace assay::te
