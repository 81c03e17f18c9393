// A transfer that a thread of its own moves on while this one computes.
#pragma once

#include <atomic>
#include <future>
#include <memory>

#include "assay/te/parallel/communicator.h"

namespace assay::te {

// Transports move bytes only while they are called. Until wait() has returned
// nothing else of the communicator may be called: its calls come one at a time.
class BackgroundTransfer {
 public:
  explicit BackgroundTransfer(std::unique_ptr<PendingTransfer> transfer);
  ~BackgroundTransfer();  // stops the thread; the transfer's destructor follows
  // Throws what the transfer threw.
  void wait();

 private:
  std::unique_ptr<PendingTransfer> transfer_;
  std::atomic<bool> stop_ = false;
  std::future<void> done_;
};

}  // namespace assay::te
