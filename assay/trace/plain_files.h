// Traces made of tensor files alone: one file, a checkpoint, a directory tree.
#pragma once

#include <filesystem>
#include <string_view>

#include "assay/trace/trace.h"

namespace assay {

// True for the extensions of the tensor formats (".npy", ".pt", ...). JSON is
// not among them: only its content tells.
bool is_tensor_file_name(std::string_view name);

// One op per tensor of the file; an unnamed tensor is named by the file's
// stem. Throws Error when the file cannot be opened.
void read_tensor_file(const std::filesystem::path& path,
                      const TraceReadOptions& options, Trace& trace);

// One op per file, recursively, in natural order, named by its relative path
// without the extension (with it where two files would share a name). A file
// that cannot be opened becomes an unreadable record; files that are no
// tensors, hidden ones and links are counted in Trace::warnings. Throws
// Error{kUnreadable} when no tensor file is there.
void read_tensor_directory(const std::filesystem::path& path,
                           const TraceReadOptions& options, Trace& trace);

}  // namespace assay
