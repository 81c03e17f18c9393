// Formats a long list of rows on all threads and writes it in order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "assay/base/atomic_file.h"

namespace assay {

// Appends the text of rows [begin, end) to `out`, which is empty. Called from
// several threads at once.
using FormatRows =
    std::function<void(std::int64_t begin, std::int64_t end, std::string& out)>;

// Writes format(0, k), format(k, 2k), ... to `file` in that order. Whoever
// finishes a chunk whose turn it is writes it, so formatting and writing
// overlap; at most a few chunks a thread wait in memory. The chunks do not
// depend on the number of threads.
void write_ordered(AtomicFile& file, std::int64_t count,
                   const FormatRows& format);

}  // namespace assay
