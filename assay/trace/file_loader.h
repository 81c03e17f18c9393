// Loads the tensors of a trace from the files in one directory.
#pragma once

#include <filesystem>
#include <memory>

#include "assay/trace/trace.h"

namespace assay {

// Record::file is a path relative to `base`. `one_tensor_each`: every file
// holds exactly one tensor (msprobe, ptdbg); a file with another number is
// refused, and Record::facts tell what the file cannot (the dtype of a void
// .npy). Files with several tensors stay open, those with one do not.
std::shared_ptr<const TensorLoader> make_file_loader(
    std::filesystem::path base, const TraceReadOptions& options,
    bool one_tensor_each);

}  // namespace assay
