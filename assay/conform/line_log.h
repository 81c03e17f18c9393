// A file that grows by a line at a time and is read again by a later run.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>

namespace assay::conform {

// Thread-safe.
class LineLog {
 public:
  // Starts anew, or goes on where `resume` and a file is there: `visit` gets
  // its lines, of which the last may be cut short. Makes the folder. Throws
  // Error{kUnreadable}.
  LineLog(const std::filesystem::path& path, bool resume,
          const std::function<void(const std::string& line)>& visit);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  // `line` without its end; on the disk, as far as this process goes, when it
  // returns. Throws Error{kUnreadable} when the disk is full.
  void add(const std::string& line);

 private:
  [[noreturn]] void fail() const;
  const std::filesystem::path path_;
  std::mutex mutex_;
  std::FILE* file_ = nullptr;
};

}  // namespace assay::conform
