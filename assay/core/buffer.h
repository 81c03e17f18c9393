// Memory for tensors. Large blocks are kept and handed out again: the first
// touch of fresh pages costs more than most operators do.
#pragma once

#include <cstddef>
#include <memory>

namespace assay {

// At least `bytes` bytes, aligned to 64, contents undefined. The block goes
// back to the pool when the last owner lets go. Throws Error{kRefused} where
// the system has no memory. Thread-safe.
std::shared_ptr<std::byte> allocate_buffer(std::size_t bytes);

// Bytes of free blocks that the pool keeps at most (default 1 GiB); more are
// returned to the system at once. 0 empties it. Thread-safe.
void set_buffer_pool_limit(std::size_t bytes);

// Bytes in free blocks now. Thread-safe.
std::size_t buffer_pool_size();

}  // namespace assay
