#include "assay/te/check.h"
#include "assay/te/quantize/dequantize_modes.h"

namespace assay::te {

Tensor dequantize_mxfp8(const QuantizedData&, const Shape&, DType) {
  fail("dequantize", "mode", "mxfp8", "a mode that is there");
}

}  // namespace assay::te
