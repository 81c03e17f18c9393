// What a quantiser makes: codes and scales, in one or both directions, in
// TransformerEngine's layouts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "assay/core/tensor.h"

namespace assay::te {

enum class ScalingMode : std::uint8_t {
  kTensor,      // one fp32 scale: delayed and current scaling
  kBlock1D,     // 1 x 128, fp32 scales
  kBlock2D,     // 128 x 128, fp32 scales
  kMXFP8,       // 1 x 32, e8m0 scales (the 2-D option replicates 32 x 32)
  kNVFP4,       // 1 x 16, e4m3 scales under a global fp32 amax (2-D: 16 x 16)
  kIdentity,    // not quantised: data is the high-precision tensor
};
std::string_view scaling_mode_name(ScalingMode mode);

// Order of the scales in `scale_inv`.
enum class ScaleLayout : std::uint8_t {
  kCompact,   // as a matrix of blocks, without padding
  kGemmReady, // padded (block-128 1-D: transposed and padded) as NVTE's GEMM
              // takes them, padding zero
  kSwizzled,  // MXFP8, NVFP4: kGemmReady in 128 x 4 tiles
};

// One direction of an M x K matrix (M the product of the leading dimensions).
//
// mode      rowwise data, scales       columnwise data, scales
// kTensor   M x K, [1]                 K x M (transposed), [1]
// kBlock1D  M x K, M x ceil(K/128)     K x M, K x ceil(M/128)
// kBlock2D  M x K, ceil(M/128) x       K x M, ceil(K/128) x ceil(M/128)
//                  ceil(K/128)
// kMXFP8    M x K, M x K/32            M x K (not transposed!), M/32 x K
// kNVFP4    M x K/2 bytes, M x K/16    K x M/2 bytes, K x M/16
// kIdentity M x K, none                M x K (not transposed), none
// (scales in ScaleLayout::kCompact; blocks always run along the direction that
// the GEMM sums over: K for rowwise, M for columnwise). Shapes of kGemmReady:
// quantize/layout.h.
struct QuantizedData {
  ScalingMode mode = ScalingMode::kTensor;
  DType format = DType::kE4M3FN;  // dtype of the codes
  bool columnwise = false;
  Tensor data;       // codes; dtype = format; the layout above
  Tensor scale_inv;  // what decoding multiplies by: f32, e8m0 or e4m3 codes
  Tensor amax;       // f32: [1], kNVFP4 row-scaled: [M]; may be empty else
  ScaleLayout layout = ScaleLayout::kCompact;
  // kNVFP4: what the global scale was made for, 448, or 256 under 4-over-6.
  float nvfp4_scale_max = 448.0f;
};

struct QuantizedTensor {
  Shape shape;                   // of the tensor that was quantised
  DType dtype = DType::kBF16;    // its dtype, the default of dequantise
  Device device = Device::kCpu;
  std::optional<QuantizedData> rowwise;
  std::optional<QuantizedData> columnwise;
};

// The values of one direction as an M x K matrix with the tensor's shape, in
// `out`: float(code) * scale in fp32 (NVFP4: code * scale * amax * 1/2688),
// then rounded. Any layout of the scales. Rowwise where it is there. Throws
// Error{kUsage} where the tensor has neither direction.
Tensor dequantize(const QuantizedTensor& q, DType out);
Tensor dequantize(const QuantizedData& q, const Shape& shape, DType out);

}  // namespace assay::te
