// Workers of one command that threads take and give back.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "assay/conform/worker.h"

namespace assay::precheck {

// Thread-safe.
class WorkerPool {
 public:
  // Starts none yet.
  WorkerPool(const conform::WorkerCommand& command,
             const conform::WorkerLimits& limits, std::size_t count);

  // Gives the worker back when it goes.
  class Lease {
   public:
    explicit Lease(WorkerPool& pool) : pool_(pool), worker_(pool.take()) {}
    ~Lease() { pool_.give(worker_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    conform::WorkerSet& workers() { return *worker_; }

   private:
    WorkerPool& pool_;
    conform::WorkerSet* worker_;
  };

 private:
  conform::WorkerSet* take();  // waits for one
  void give(conform::WorkerSet* worker);

  std::vector<std::unique_ptr<conform::WorkerSet>> all_;
  // The last given back is taken next: what runs already is used first.
  std::vector<conform::WorkerSet*> idle_;
  std::mutex mutex_;
  std::condition_variable given_;
};

}  // namespace assay::precheck
