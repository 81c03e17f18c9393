#include "assay/base/parallel.h"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <memory>
#include <mutex>

namespace assay {
namespace {

std::mutex& limit_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::unique_ptr<tbb::global_control>& limit() {
  static std::unique_ptr<tbb::global_control> control;
  return control;
}

}  // namespace

void set_thread_count(int count) {
  std::lock_guard lock(limit_mutex());
  limit().reset();
  if (count > 0) {
    limit() = std::make_unique<tbb::global_control>(
        tbb::global_control::max_allowed_parallelism,
        static_cast<std::size_t>(count));
  }
}

int thread_count() {
  const auto allowed = tbb::global_control::active_value(
      tbb::global_control::max_allowed_parallelism);
  return static_cast<int>(allowed);
}

void parallel_for(std::int64_t count,
                  const std::function<void(std::int64_t)>& body) {
  if (count == 1) return body(0);
  // Isolated: a thread that waits for an inner loop must not start another
  // body of the outer one, which may be using the same thread_local scratch.
  tbb::this_task_arena::isolate(
      [&] { tbb::parallel_for(std::int64_t{0}, count, body); });
}

}  // namespace assay
