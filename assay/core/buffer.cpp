#include "assay/core/buffer.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "assay/base/error.h"
#include "assay/base/round_up.h"

namespace assay {
namespace {

constexpr std::size_t kAlignment = 64;
// Below this malloc itself keeps freed memory.
constexpr std::size_t kPooled = std::size_t{1} << 16;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Sizes of a pooled block: eight steps an octave, so that at most an eighth of
// it is unused and a tensor of nearly the same size can take it.
std::size_t rounded_size(std::size_t bytes) {
  const std::size_t step =
      bytes < kPooled ? kAlignment : std::bit_floor(bytes) / 8;
  return round_up(bytes, step);
}

class Pool {
 public:
  std::byte* take(std::size_t size) {
    if (std::byte* kept = take_kept(size)) return kept;
    const std::size_t alignment = size >= kHugePage ? kHugePage : kAlignment;
    void* block = std::aligned_alloc(alignment, round_up(size, alignment));
    if (block == nullptr) {
      throw Error(Code::kRefused, "no memory for a tensor of " +
                                      std::to_string(size) + " bytes");
    }
    if (size >= kHugePage) madvise(block, size, MADV_HUGEPAGE);
    return static_cast<std::byte*>(block);
  }

  void give(std::byte* block, std::size_t size) {
    {
      const std::lock_guard lock(mutex_);
      if (size >= kPooled && held_ + size <= limit_) {
        held_ += size;
        free_.emplace(size, block);
        return;
      }
    }
    std::free(block);
  }

  void set_limit(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
    while (held_ > limit_) {
      const auto largest = std::prev(free_.end());
      std::free(largest->second);
      held_ -= largest->first;
      free_.erase(largest);
    }
  }

  std::size_t held() {
    const std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  std::byte* take_kept(std::size_t size) {
    const std::lock_guard lock(mutex_);
    const auto found = free_.find(size);
    if (found == free_.end()) return nullptr;
    std::byte* block = found->second;
    held_ -= size;
    free_.erase(found);
    return block;
  }

  std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> free_;
  std::size_t held_ = 0;
  std::size_t limit_ = std::size_t{1} << 30;
};

// Never destroyed: tensors of static storage duration may outlive any static.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

}  // namespace

std::shared_ptr<std::byte> allocate_buffer(std::size_t bytes) {
  const std::size_t size = rounded_size(bytes == 0 ? 1 : bytes);
  if (size < bytes) {
    throw Error(Code::kRefused,
                "no memory for a tensor of " + std::to_string(bytes) + " bytes");
  }
  return {pool().take(size),
          [size](std::byte* block) { pool().give(block, size); }};
}

void set_buffer_pool_limit(std::size_t bytes) { pool().set_limit(bytes); }

std::size_t buffer_pool_size() { return pool().held(); }

}  // namespace assay
