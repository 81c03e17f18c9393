// A progress line with rate and time left on stderr, when that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace assay {

class Progress {
 public:
  explicit Progress(bool quiet);  // silent when quiet or not a terminal
  ~Progress();                    // erases the line
  // Thread-safe; redraws at most ten times a second.
  void update(std::int64_t rows_done, std::int64_t rows_total,
              std::int64_t bytes_done);

 private:
  using Clock = std::chrono::steady_clock;
  const bool shown_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  Clock::time_point last_;
  bool drawn_ = false;
};

}  // namespace assay
