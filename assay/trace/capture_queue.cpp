#include "assay/trace/capture_queue.h"

#include <algorithm>
#include <chrono>

#include "assay/core/dtype.h"

namespace assay {
namespace {

// A buffer is used for what needs at least half of it.
constexpr std::size_t kWaste = 2;
// Lines that wake the thread.
constexpr std::size_t kMany = 256;

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

void CaptureQueue::wait_for_room(std::int64_t bytes, double& waited,
                                 std::unique_lock<std::mutex>& lock) {
  using Clock = std::chrono::steady_clock;
  const auto fits = [&] {
    return in_flight_ == 0 || in_flight_ + bytes <= limit_;
  };
  if (!fits()) {
    const auto start = Clock::now();
    changed_.wait(lock, fits);
    waited += std::chrono::duration<double>(Clock::now() - start).count();
  }
  in_flight_ += bytes;
}

void CaptureQueue::admit(const Tensor& tensor, double& waited) {
  std::unique_lock lock(mutex_);
  wait_for_room(static_cast<std::int64_t>(tensor.view.bytes().size()), waited,
                lock);
}

Tensor CaptureQueue::copy(const TensorView& view, double& waited) {
  const std::int64_t count = view.numel();
  const auto bytes =
      static_cast<std::size_t>(storage_bytes(view.dtype, count).value());
  std::shared_ptr<Buffer> memory;
  {
    std::unique_lock lock(mutex_);
    wait_for_room(static_cast<std::int64_t>(bytes), waited, lock);
    memory = buffer(bytes);
    try {
      if (!memory) memory = std::make_shared<Buffer>(bytes);
      lent_.insert(memory.get());
    } catch (...) {  // no memory: nothing is in flight
      in_flight_ -= static_cast<std::int64_t>(bytes);
      throw;
    }
  }
  gather(view, 0, count, memory->data());
  Tensor tensor;
  tensor.view.dtype = view.dtype;
  tensor.view.shape = view.shape;
  tensor.view.data = memory->data();
  tensor.owner = std::move(memory);
  return tensor;
}

void CaptureQueue::push(CaptureJob job) {
  bool urgent = job.tensor.has_value();
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    urgent = urgent || jobs_.size() >= kMany;
  }
  if (urgent) changed_.notify_all();
}

void CaptureQueue::done(CaptureJob&& job) {
  std::shared_ptr<const void> foreign;  // goes when nothing is locked
  {
    std::lock_guard lock(mutex_);
    busy_ = false;
    if (job.tensor) {
      in_flight_ -= static_cast<std::int64_t>(job.tensor->view.bytes().size());
      std::shared_ptr<const void> owner = std::move(job.tensor->owner);
      job.tensor.reset();
      if (lent_.erase(owner.get())) {
        keep(std::move(owner));
      } else {
        foreign = std::move(owner);
      }
    }
  }
  changed_.notify_all();
}

// For the next copy: what waits and what lies idle stay below the limit
// together, and memory that is there already costs no page faults.
void CaptureQueue::keep(std::shared_ptr<const void> owner) {
  free_.push_back(std::const_pointer_cast<Buffer>(
      std::static_pointer_cast<const Buffer>(std::move(owner))));
  std::int64_t held = in_flight_;
  for (const auto& each : free_)
    held += static_cast<std::int64_t>(each->size());
  while (held > limit_ && !free_.empty()) {
    held -= static_cast<std::int64_t>(free_.front()->size());
    free_.erase(free_.begin());
  }
}

void CaptureQueue::finish() {
  {
    std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_all();
}

void CaptureQueue::wait_until_empty() {
  changed_.notify_all();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
}

}  // namespace assay
