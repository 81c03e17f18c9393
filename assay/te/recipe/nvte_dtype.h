// The numbers that TransformerEngine gives element types: what its C and Python
// interfaces call a dtype.
#pragma once

#include <span>
#include <string_view>

#include "assay/core/dtype.h"

namespace assay::te {

// One member of NVTE's enumeration DType (NVTEDType in C).
struct NvteDType {
  std::string_view name;  // "kBFloat16"
  int code;
  DType dtype;
};

// In the order of their codes, which follow each other from 0. Not there: fnuz
// formats, unsigned integers but bytes, float64, complex.
std::span<const NvteDType> nvte_dtypes();

}  // namespace assay::te
