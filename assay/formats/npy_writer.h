// Writer for numpy's .npy files.
#pragma once

#include <filesystem>
#include <string>

#include "assay/core/tensor.h"

namespace assay {

// Magic, version 1.0 (2.0 above 65535 bytes) and the padded dict: the bytes
// numpy.save writes, data follows at a multiple of 64. Dtypes numpy lacks are
// written as ml_dtypes does: bfloat16 "<V2", the 8-bit floats and e2m1 (one
// code a byte) "<V1"; reading them back needs ReadOptions.dtype.
std::string npy_header(DType dtype, const Shape& shape);

// Writes `view` in C order; the file appears complete or not at all. Throws
// Error{kUnreadable} when it cannot be written.
void write_npy(const std::filesystem::path& path, const TensorView& view);

}  // namespace assay
