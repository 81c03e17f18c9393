#include "assay/te/quantize/update.h"

#include "assay/te/check.h"

namespace assay::te {

void update_quantized(Quantizer& quantizer, const Tensor& x,
                      QuantizedTensor& destination, const Tensor* noop_flag) {
  constexpr const char* kOp = "update_quantized";
  if (noop_flag != nullptr) {
    require_dtype(kOp, "noop_flag", *noop_flag, {DType::kF32});
    require(noop_flag->numel() == 1, kOp, "noop_flag",
            "shape " + to_string(noop_flag->shape()), "one element");
    if (*noop_flag->data<float>() != 0) return;
  }
  require_shape(kOp, "x", x, destination.shape);
  destination = quantizer.quantize(x);
}

}  // namespace assay::te
