#include "assay/te/quantize/quantized_tensor.h"

#include "assay/te/check.h"
#include "assay/te/quantize/check_quantized.h"
#include "assay/te/quantize/dequantize_modes.h"
#include "assay/te/quantize/identity.h"
#include "assay/te/quantize/layout.h"

namespace assay::te {

std::string_view scaling_mode_name(ScalingMode mode) {
  switch (mode) {
    case ScalingMode::kTensor:
      return "tensor";
    case ScalingMode::kBlock1D:
      return "block 1x128";
    case ScalingMode::kBlock2D:
      return "block 128x128";
    case ScalingMode::kMXFP8:
      return "mxfp8";
    case ScalingMode::kNVFP4:
      return "nvfp4";
    case ScalingMode::kIdentity:
      break;
  }
  return "identity";
}

Tensor dequantize(const QuantizedTensor& q, DType out) {
  if (q.rowwise) return dequantize(*q.rowwise, q.shape, out);
  if (q.columnwise) return dequantize(*q.columnwise, q.shape, out);
  fail("dequantize", "q", "neither rowwise nor columnwise data",
       "at least one of them");
}

Tensor dequantize(const QuantizedData& q, const Shape& shape, DType out) {
  const QuantizedData compact = with_layout(
      check_quantized("dequantize", q, shape), shape, ScaleLayout::kCompact);
  switch (q.mode) {
    case ScalingMode::kTensor:
      return dequantize_tensor_scaled(compact, shape, out);
    case ScalingMode::kBlock1D:
    case ScalingMode::kBlock2D:
      return dequantize_block128(compact, shape, out);
    case ScalingMode::kMXFP8:
      return dequantize_mxfp8(compact, shape, out);
    case ScalingMode::kNVFP4:
      return dequantize_nvfp4(compact, shape, out);
    case ScalingMode::kIdentity:
      break;
  }
  Tensor values = convert_high_precision(compact.data, out);
  values.view.shape = shape;
  values.view.strides.clear();
  return values;
}

}  // namespace assay::te
