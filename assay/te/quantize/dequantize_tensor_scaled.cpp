#include "assay/te/check.h"
#include "assay/te/quantize/dequantize_modes.h"

namespace assay::te {

Tensor dequantize_tensor_scaled(const QuantizedData&, const Shape&, DType) {
  fail("dequantize", "mode", "tensor_scaled", "a mode that is there");
}

}  // namespace assay::te
