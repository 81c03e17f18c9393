// Reader for headerless .bin files: the caller says dtype and shape.
#pragma once

#include <memory>

#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"

namespace assay {

// One row-major tensor of options.dtype and options.shape over the whole file,
// in the byte order options.big_endian says (complex: of each part). Throws
// Error{kRefused} when the size is not exactly theirs, Error{kUnsupported}
// with advice when either option is missing.
std::unique_ptr<TensorSource> open_raw(FileBytes file,
                                       const ReadOptions& options);

}  // namespace assay
