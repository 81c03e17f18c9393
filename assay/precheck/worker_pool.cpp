#include "assay/precheck/worker_pool.h"

namespace assay::precheck {

WorkerPool::WorkerPool(const conform::WorkerCommand& command,
                       const conform::WorkerLimits& limits, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    idle_.push_back(
        all_.emplace_back(std::make_unique<conform::WorkerSet>(command, limits))
            .get());
}

conform::WorkerSet* WorkerPool::take() {
  std::unique_lock lock(mutex_);
  given_.wait(lock, [&] { return !idle_.empty(); });
  conform::WorkerSet* worker = idle_.back();
  idle_.pop_back();
  return worker;
}

void WorkerPool::give(conform::WorkerSet* worker) {
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(worker);
  }
  given_.notify_one();
}

}  // namespace assay::precheck
