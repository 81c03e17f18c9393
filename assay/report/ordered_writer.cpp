#include "assay/report/ordered_writer.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "assay/base/parallel.h"

namespace assay {
namespace {

constexpr std::int64_t kChunkRows = 256;

// Takes finished chunks in any order and writes them in theirs. Buffers are
// handed back for reuse: fresh pages would cost more than the formatting.
class Sequencer {
 public:
  explicit Sequencer(AtomicFile& file) : file_(file) {}

  std::string take_buffer() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return {};
    std::string buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }

  void put(std::int64_t chunk, std::string text) {
    std::unique_lock lock(mutex_);
    if (failed_) return;
    ready_.emplace(chunk, std::move(text));
    if (writing_) {
      // The writer is slower than the formatting: let it catch up. The chunk
      // it waits for is never held back here, its owner has yet to put it.
      drained_.wait(lock, [&] {
        return !writing_ || ready_.size() <= kMostWaiting || failed_;
      });
      return;
    }
    writing_ = true;
    while (!ready_.empty() && ready_.begin()->first == next_) write_next(lock);
    writing_ = false;
    drained_.notify_all();
  }

 private:
  static constexpr std::size_t kMostWaiting = 64;

  void write_next(std::unique_lock<std::mutex>& lock) {
    auto node = ready_.extract(ready_.begin());
    lock.unlock();
    try {
      file_.write(node.mapped());
    } catch (...) {
      lock.lock();
      failed_ = true;
      drained_.notify_all();
      throw;
    }
    lock.lock();
    ++next_;
    node.mapped().clear();
    free_.push_back(std::move(node.mapped()));
    if (ready_.size() == kMostWaiting) drained_.notify_all();
  }

  AtomicFile& file_;
  std::mutex mutex_;
  std::map<std::int64_t, std::string> ready_;
  std::vector<std::string> free_;
  std::int64_t next_ = 0;
  bool writing_ = false;
  bool failed_ = false;
  std::condition_variable drained_;
};

}  // namespace

void write_ordered(AtomicFile& file, std::int64_t count,
                   const FormatRows& format) {
  const std::int64_t chunks = (count + kChunkRows - 1) / kChunkRows;
  Sequencer sequencer(file);
  std::atomic<std::int64_t> next{0};
  // Chunks are handed out by a counter, not by the loop's own order, so that
  // the ones in flight stay close together.
  const auto work = [&](std::int64_t) {
    for (;;) {
      const std::int64_t chunk = next.fetch_add(1);
      if (chunk >= chunks) return;
      std::string text = sequencer.take_buffer();
      const std::int64_t begin = chunk * kChunkRows;
      format(begin, std::min(count, begin + kChunkRows), text);
      sequencer.put(chunk, std::move(text));
    }
  };
  parallel_for(std::min<std::int64_t>(thread_count(), chunks), work);
}

}  // namespace assay
