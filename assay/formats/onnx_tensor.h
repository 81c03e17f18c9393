// Reader for ONNX TensorProto files (test_data_set_*/input_0.pb).
#pragma once

#include <memory>

#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"

namespace assay {

enum class OnnxKind { kNeither, kTensor, kModel };

// What the protobuf's top-level fields say it is. Walks all of them.
OnnxKind classify_onnx(const FileBytes& file);

// One tensor named "". raw_data is viewed in place; numbers in float_data,
// int32_data (also the bit patterns of 8-, 16- and 4-bit types), int64_data,
// double_data and uint64_data, packed or not, are decoded by load(). Strings
// and the 2-, 6-bit and 4-bit integer types are listed as unsupported. Throws
// Error{kRefused} on malformed protobuf, external data (never followed), a
// segment, a singular field given twice, data in two places or in the wrong
// one, or a count that is not the product of dims.
std::unique_ptr<TensorSource> open_onnx_tensor(FileBytes file);

}  // namespace assay
