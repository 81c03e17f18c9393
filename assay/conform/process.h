// A child process that nothing good is expected of: lines in and out with
// deadlines, its complaints kept, its memory watched, all of it killed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/capped_log.h"

namespace assay::conform {

struct ProcessOptions {
  std::vector<std::string> arguments;  // the first one is looked up in PATH
  std::map<std::string, std::string> environment;  // besides ours
  std::size_t log_limit = std::size_t{1} << 20;    // bytes of stderr kept
  std::size_t line_limit = std::size_t{16} << 20;  // bytes of one answer
  std::int64_t memory_limit = 0;  // resident bytes of all of it; 0: none
};

// Starts in a process group of its own, so that Ctrl-C on the terminal does
// not reach it, with every other file of ours closed. Not thread-safe; several
// processes in several threads are fine.
class Process {
 public:
  using Clock = std::chrono::steady_clock;

  // Throws Error{kUnreadable} naming the program that cannot be started.
  explicit Process(const ProcessOptions& options);
  // Kills and reaps.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // kMemory: over the limit; kTooLong: a line beyond the limit; kEnd: it
  // closed its stdout, most likely by ending. What follows the last line end
  // is no line.
  enum class Read : std::uint8_t { kLine, kEnd, kTimeout, kTooLong, kMemory };
  Read read_line(std::string& line, Clock::time_point deadline);
  // False where it does not take the line in time, or no longer reads.
  bool write_line(std::string_view line, Clock::time_point deadline);

  // Closes its stdin and waits for it to end of itself; then kills the rest.
  void finish(std::chrono::milliseconds patience);
  // Ends it and everything it has started, also what left its group.
  void kill();
  // Waits shortly for one that is about to end, then kills. "exit 3",
  // "SIGSEGV", "killed" for one that did not end of itself.
  std::string ending();

  // stderr since the last clear().
  CappedLog& log() { return log_; }
  // Of it and its descendants, by /proc; 0 where that cannot be read.
  std::int64_t resident_bytes() const;
  // The most that was seen while waiting.
  std::int64_t peak_bytes() const { return peak_bytes_; }

 private:
  struct Pipes;
  void start(const ProcessOptions& options, Pipes& pipes);
  bool wait_for(int fd, short events, Clock::time_point deadline);
  bool over_memory();
  void drain_log();
  bool take_line(std::string& line);
  bool reap(bool block);
  void close_all();

  const std::size_t line_limit_;
  const std::int64_t memory_limit_;
  std::string token_;  // in the environment of all its descendants
  int pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  bool reaped_ = false, killed_ = false;
  int status_ = 0;
  std::string pending_;      // bytes read that no line has taken
  std::size_t scanned_ = 0;  // of them, without a line's end
  CappedLog log_;
  Clock::time_point last_look_{};
  std::int64_t peak_bytes_ = 0;
};

// Kills the groups of all processes that run. Async signal safe: for a handler
// that is about to end this one.
void kill_running_processes() noexcept;

}  // namespace assay::conform
