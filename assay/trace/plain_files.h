// Traces made of tensor files alone: one file, a checkpoint, a directory tree.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_set>
#include <vector>

#include "assay/trace/trace.h"

namespace assay {

// One op per tensor of the file; an unnamed tensor is named by the file's
// stem. Throws Error when the file cannot be opened.
void read_tensor_file(const std::filesystem::path& path,
                      const TraceReadOptions& options, Trace& trace);

// One op per file, recursively, in natural order, named by its relative path
// without the extension (with it where two files would share a name). A file
// that cannot be opened becomes an unreadable record, and so does every entry
// that may hold tensors but is not read (see tensor_files.h): links, devices,
// hidden tensor files, directories that cannot be listed or are nested too
// deep. Companions and other hidden entries are counted in Trace::warnings.
// Throws Error{kUnreadable} when nothing of all that is there.
void read_tensor_directory(const std::filesystem::path& path,
                           const TraceReadOptions& options, Trace& trace);

// Reads the entries of those names of a directory, as above.
void read_loose_files(const std::filesystem::path& path,
                      const std::vector<std::string>& names,
                      const TraceReadOptions& options, Trace& trace);

// An entry that may hold tensors; `error` says why it cannot be opened.
struct TensorEntry {
  std::string name;  // relative
  std::string error;
};

using EntryNames = std::unordered_set<std::string>;

// What read_tensor_directory() would make records of, in natural order,
// without the directory's own entries named in `leave_out`. Throws Error when
// the directory cannot be listed.
std::vector<TensorEntry> list_tensor_entries(const std::filesystem::path& path,
                                             const EntryNames& leave_out = {});

}  // namespace assay
