// Reader of the text files that the old ptdbg_ascend tool named .pkl.
#pragma once

#include <filesystem>

#include "assay/trace/trace.h"

namespace assay {

// One JSON array per line: [name, step, md5, dtype, shape, [max, min, mean(,
// norm)]] or [name + "stack_info", frames]. The tensors are "{name}.npy" in
// the directory named like the file. Names of tool versions 1-5 (joined by
// '_') come out in today's dotted form. Throws Error: kUnreadable when the
// last line is cut, kRefused for a binary pickle (never unpickled) or a line
// that is no such row.
void read_ptdbg(const std::filesystem::path& path,
                const TraceReadOptions& options, Trace& trace);

// True when the file's first byte that is not white space is '['.
bool is_ptdbg_text(const std::filesystem::path& path);

}  // namespace assay
