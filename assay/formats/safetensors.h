// Reader for .safetensors: tensors are views of the mapped file.
#pragma once

#include <memory>

#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"

namespace assay {

// A full structural parse: the first bytes alone (a length) can look like
// anything. False where a length or the opening brace rules the format out.
bool is_safetensors(const FileBytes& file);

// The same test without the parse: a header length the file can hold, then
// '{'. For choosing which reader explains what is wrong.
bool resembles_safetensors(const FileBytes& file);

// Throws Error{kRefused} on a malformed header. Tensors of a dtype we cannot
// compare (F6, unknown) are listed as unsupported.
std::unique_ptr<TensorSource> open_safetensors(FileBytes file);

}  // namespace assay
