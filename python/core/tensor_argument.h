// A tensor of Python as a view: anything that speaks DLPack, on the CPU.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "assay/core/tensor.h"

namespace assay::python {

namespace nb = nanobind;

using AnyArray = nb::ndarray<nb::ro>;

// Shares the memory of `array`, which must outlive the view. `dtype`: the name
// of what the bytes are, where the producer cannot say it ("float8_e4m3fn" of a
// uint8 array, "float4_e2m1fn" of bytes that hold two elements each: the last
// dimension is doubled); "" for the array's own. Throws Error{kUsage} for
// memory that is not on the CPU, Error{kUnsupported} for a dtype that is not
// compared, and Error{kUsage} for negative strides (numpy's [::-1]).
TensorView view_of(const AnyArray& array, const std::string& dtype = "");

}  // namespace assay::python
