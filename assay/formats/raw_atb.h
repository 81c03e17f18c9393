// Reader for the .bin tensors of Ascend ATB dumps: text attributes, then raw
// little-endian data.
#pragma once

#include <memory>

#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"

namespace assay {

bool is_atb(const FileBytes& file);  // begins with "$Version="

// The header is lines "key=value" up to "$End=1": format (an aclFormat), dtype
// (an aclDataType), dims, $Object.data=offset,length. Layouts that are not
// row-major (fractal NZ, NC1HWC0), unknown dtypes and tensors whose data lies
// in another file ("data=PATH", never followed) are listed as unsupported.
// Throws Error{kRefused} on a malformed header or a size that is not exactly
// dims * dtype.
std::unique_ptr<TensorSource> open_atb(FileBytes file);

}  // namespace assay
