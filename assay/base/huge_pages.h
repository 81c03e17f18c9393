// Asks for memory in huge pages, which take far fewer page faults.
#pragma once

#include <cstddef>

namespace assay {

// The whole huge pages inside [data, data + bytes), to be backed by huge pages
// when they are first written. A hint: a kernel may refuse it.
void prefer_huge_pages(void* data, std::size_t bytes);

// The same, and clears them at once, on all threads.
void populate_huge_pages(void* data, std::size_t bytes);

}  // namespace assay
