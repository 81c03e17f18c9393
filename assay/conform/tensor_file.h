// Tensors of a case in one safetensors file.
#pragma once

#include <filesystem>

#include "assay/conform/cases.h"
#include "assay/formats/file_bytes.h"

namespace assay::conform {

// In the order of their names. The file appears complete or not at all; throws
// Error.
void write_tensors(const TensorMap& tensors, const std::filesystem::path& path);

// Views of the mapped file. Throws Error, also for a file of another format
// and for an entry of a dtype that we cannot compare.
TensorMap read_tensors(const std::filesystem::path& path);
// The same of bytes in memory or a part of a file.
TensorMap read_tensors(FileBytes file);

// The same elements behind strides that are not those of a contiguous tensor:
// the last two dimensions change places in memory; of one dimension every
// second element counts, with NaN or -1 between them. What has fewer than two
// elements, and e2m1, stays as it is.
Tensor strided_view(const Tensor& tensor);

}  // namespace assay::conform
