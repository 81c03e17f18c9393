#include "assay/te/quantize/layout.h"

namespace assay::te {

QuantizedData with_layout(const QuantizedData& q, const Shape&, ScaleLayout) {
  return q;
}

}  // namespace assay::te
