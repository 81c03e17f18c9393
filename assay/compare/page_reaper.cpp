#include "assay/compare/page_reaper.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stop_token>

#include "assay/base/mapped_file.h"

namespace assay {
namespace {

// One pass reads some 10 GB/s: 50 MB between two looks.
constexpr std::chrono::milliseconds kPeriod{5};

// Resident bytes of the process, 0 where the system does not tell.
std::size_t resident_bytes() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen("/proc/self/statm", "r"), &std::fclose);
  unsigned long size = 0;
  unsigned long resident = 0;
  if (!file || std::fscanf(file.get(), "%lu %lu", &size, &resident) != 2) {
    return 0;
  }
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void reap(const std::stop_token& stop, std::span<const std::byte> bytes) {
  const std::size_t limit = resident_bytes() + PageReaper::kGrowth;
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    wake.wait_for(lock, stop, kPeriod, [] { return false; });
    if (resident_bytes() > limit) MappedFile::release(bytes);
  }
}

}  // namespace

PageReaper::PageReaper(std::span<const std::byte> bytes) {
  if (bytes.size() < kHuge) return;
  thread_ =
      std::jthread([bytes](const std::stop_token& stop) { reap(stop, bytes); });
}

}  // namespace assay
