// What waits between a training step and the thread that stores its trace:
// bounded in bytes, with buffers that are used again.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "assay/base/hash.h"
#include "assay/core/tensor.h"

namespace assay {

// One line of trace.jsonl. With a tensor or a hash, `line` is its beginning
// and the thread adds the rest.
struct CaptureJob {
  std::string line;
  // To be described, where there is no hash, and stored.
  std::optional<Tensor> tensor = std::nullopt;
  // Of what is stored or, without a tensor, was handed over before.
  std::optional<Hash128> hash = std::nullopt;
};

class CaptureQueue {
 public:
  explicit CaptureQueue(std::int64_t limit) : limit_(limit) {}

  // A contiguous copy, in a buffer that was used before where one fits; waits
  // while more than the limit is in flight, unless nothing is: one tensor
  // larger than the limit still passes. `waited` is increased by seconds.
  Tensor copy(const TensorView& tensor, double& waited);
  // Waits like copy(), for a tensor that nobody else writes to.
  void admit(const Tensor& tensor, double& waited);
  // A line alone waits for the thread to look by itself, kPatience at most or
  // until many are there: to wake it for each would cost a training step more
  // than the lines do.
  void push(CaptureJob job);
  // The next one; nullopt once finish() was called and nothing is left.
  // `idle`: called before waiting for more.
  template <typename Idle>
  std::optional<CaptureJob> pop(Idle&& idle);
  // The job that pop() gave last is done: its bytes are free.
  void done(CaptureJob&& job);
  void finish();
  void wait_until_empty();

 private:
  // Not cleared: what a copy does not overwrite, nobody reads.
  class Buffer {
   public:
    explicit Buffer(std::size_t bytes)
        : size_(bytes),
          data_(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}
    std::size_t size() const { return size_; }
    std::byte* data() { return data_.get(); }

   private:
    std::size_t size_;
    std::unique_ptr<std::byte[]> data_;
  };
  static constexpr std::chrono::milliseconds kPatience{20};
  void wait_for_room(std::int64_t bytes, double& waited,
                     std::unique_lock<std::mutex>& lock);
  std::shared_ptr<Buffer> buffer(std::size_t bytes);
  void keep(std::shared_ptr<const void> owner);

  const std::int64_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<CaptureJob> jobs_;
  std::vector<std::shared_ptr<Buffer>> free_;
  std::set<const void*> lent_;  // our buffers that are in flight
  std::int64_t in_flight_ = 0;  // bytes of copies that are not done
  bool busy_ = false, finished_ = false;
};

template <typename Idle>
std::optional<CaptureJob> CaptureQueue::pop(Idle&& idle) {
  std::unique_lock lock(mutex_);
  if (jobs_.empty() && !finished_) {
    lock.unlock();
    idle();
    lock.lock();
  }
  const auto ready = [&] { return !jobs_.empty() || finished_; };
  while (!ready()) changed_.wait_for(lock, kPatience);
  if (jobs_.empty()) return std::nullopt;
  CaptureJob job = std::move(jobs_.front());
  jobs_.pop_front();
  busy_ = true;
  return job;
}

}  // namespace assay
