// A progress line with rate and time left on stderr, when that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace assay {

class Progress {
 public:
  // Silent when quiet or not a terminal. `unit`: what is counted.
  explicit Progress(bool quiet, std::string_view unit = "rows");
  ~Progress();  // erases the line
  // Thread-safe; redraws at most ten times a second.
  void update(std::int64_t done, std::int64_t total, std::int64_t bytes_done);

 private:
  using Clock = std::chrono::steady_clock;
  const bool shown_;
  const std::string_view unit_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  Clock::time_point last_;
  bool drawn_ = false;
};

}  // namespace assay
