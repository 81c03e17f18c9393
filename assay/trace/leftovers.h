// Tensor files beside a dump that no entry of it names.
#pragma once

#include <filesystem>
#include <string>

#include "assay/trace/plain_files.h"
#include "assay/trace/trace.h"

namespace assay {

// One unreadable record for each entry below `directory` that may hold
// tensors, except those in it whose name is `known`; after 100 of them one
// record counts the rest. `prefix` starts the records' names. Throws Error
// when the directory cannot be listed.
void add_leftovers(const std::filesystem::path& directory,
                   const std::string& prefix, const EntryNames& known,
                   Trace& trace);

}  // namespace assay
