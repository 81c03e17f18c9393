// Reads our capture format: trace.jsonl and the shards beside it.
#pragma once

#include <filesystem>

#include "assay/trace/trace.h"

namespace assay {

// Whether the directory holds a trace.jsonl.
bool is_capture(const std::filesystem::path& directory);

// Reads the directory into `trace`. Shards need not have been closed: where
// their tensors are is in trace.jsonl, checked against the file when one is
// loaded. A trace without its end, or whose last line breaks off, is that of a
// run that was stopped: a warning says so. Throws Error{kUnreadable} where the
// file cannot be read, Error{kRefused} naming the line where it is no capture.
void read_capture(const std::filesystem::path& directory, Trace& trace);

}  // namespace assay
