// Several tensors' worth of independent blocks as one parallel loop.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace assay::te {

// body(i) for i in [0, blocks); blocks are fixed by shapes, never by threads.
struct Job {
  std::int64_t blocks = 0;
  std::function<void(std::int64_t)> body;
};

// Runs every block of every job in one loop, in no order.
void run_jobs(std::span<const Job> jobs);

}  // namespace assay::te
