#include "assay/trace/capture_queue.h"

#include <algorithm>
#include <chrono>

#include "assay/core/dtype.h"

namespace assay {
namespace {

// A buffer is used for what needs at least half of it.
constexpr std::size_t kWaste = 2;

}  // namespace

std::shared_ptr<CaptureQueue::Buffer> CaptureQueue::buffer(std::size_t bytes) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const std::size_t size = (*it)->size();
    if (size < bytes || size > kWaste * bytes + 4096) continue;
    auto found = std::move(*it);
    free_.erase(it);
    return found;
  }
  return nullptr;
}

Tensor CaptureQueue::copy(const TensorView& view, double& waited) {
  const std::int64_t count = view.numel();
  const auto bytes =
      static_cast<std::size_t>(storage_bytes(view.dtype, count).value());
  std::shared_ptr<Buffer> memory;
  {
    using Clock = std::chrono::steady_clock;
    std::unique_lock lock(mutex_);
    const auto size = static_cast<std::int64_t>(bytes);
    const auto fits = [&] {
      return in_flight_ == 0 || in_flight_ + size <= limit_;
    };
    if (!fits()) {
      const auto start = Clock::now();
      changed_.wait(lock, fits);
      waited += std::chrono::duration<double>(Clock::now() - start).count();
    }
    in_flight_ += size;
    memory = buffer(bytes);
  }
  if (!memory) memory = std::make_shared<Buffer>(bytes);
  gather(view, 0, count, memory->data());
  Tensor tensor;
  tensor.view.dtype = view.dtype;
  tensor.view.shape = view.shape;
  tensor.view.data = memory->data();
  tensor.owner = std::move(memory);
  return tensor;
}

void CaptureQueue::push(CaptureJob job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void CaptureQueue::done(CaptureJob&& job) {
  {
    std::lock_guard lock(mutex_);
    busy_ = false;
    if (job.tensor) {
      const auto bytes = job.tensor->view.bytes().size();
      in_flight_ -= static_cast<std::int64_t>(bytes);
      // Owners are this queue's own buffers, given out as const.
      auto memory = std::const_pointer_cast<Buffer>(
          std::static_pointer_cast<const Buffer>(job.tensor->owner));
      job.tensor.reset();
      free_.push_back(std::move(memory));
      std::size_t kept = 0;
      for (const auto& each : free_) kept += each->size();
      while (kept > static_cast<std::size_t>(limit_) / 2 && !free_.empty()) {
        kept -= free_.front()->size();
        free_.erase(free_.begin());
      }
    }
  }
  changed_.notify_all();
}

void CaptureQueue::finish() {
  {
    std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_all();
}

void CaptureQueue::wait_until_empty() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
}

}  // namespace assay
