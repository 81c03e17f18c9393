#include "assay/te/parallel/background.h"

#include <chrono>
#include <thread>

namespace assay::te {
namespace {

// Tests in a row before the other side is taken to be late: from then on the
// core is left to those that compute.
constexpr int kEager = 2000;
constexpr auto kPause = std::chrono::microseconds(20);

}  // namespace

BackgroundTransfer::BackgroundTransfer(
    std::unique_ptr<PendingTransfer> transfer)
    : transfer_(std::move(transfer)),
      done_(std::async(std::launch::async, [this] {
        for (int i = 0; !stop_ && !transfer_->test(); ++i) {
          if (i < kEager)
            std::this_thread::yield();
          else
            std::this_thread::sleep_for(kPause);
        }
      })) {}

BackgroundTransfer::~BackgroundTransfer() {
  stop_ = true;
  if (done_.valid()) done_.wait();
}

void BackgroundTransfer::wait() { done_.get(); }

}  // namespace assay::te
