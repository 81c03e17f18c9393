// Parallel loops over fixed blocks: what a block computes never depends on
// how many threads there are, so results merged in block order do not either.
#pragma once

#include <cstdint>
#include <functional>

namespace assay {

// Threads used by every loop of the process. 0 means all cores (the default).
void set_thread_count(int count);
int thread_count();

// Calls body(i) for i in [0, count), on up to thread_count() threads, in no
// order. The first exception thrown by a body is rethrown here. Nested calls
// are allowed; a thread inside a body never starts another body of the same
// loop before the first has returned.
void parallel_for(std::int64_t count,
                  const std::function<void(std::int64_t)>& body);

}  // namespace assay
