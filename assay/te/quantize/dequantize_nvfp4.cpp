#include "assay/te/check.h"
#include "assay/te/quantize/dequantize_modes.h"

namespace assay::te {

Tensor dequantize_nvfp4(const QuantizedData&, const Shape&, DType) {
  fail("dequantize", "mode", "nvfp4", "a mode that is there");
}

}  // namespace assay::te
