// Output files that exist completely or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace assay {

// Writes to a temporary file beside `path` and renames it over `path` in
// commit(). Without commit() (an exception, Ctrl-C handled by the caller) the
// temporary file is removed. A path that exists and is no regular file (a
// pipe, /dev/stdout) is written in place. Buffered. Not thread-safe.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);  // throws Error
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);  // throws Error when the disk is full
  void commit();                       // throws Error
  // Where the bytes are until commit(), for libraries that write by path.
  const std::filesystem::path& temporary_path() const { return temporary_; }

 private:
  void open_in_place();
  void create_beside();
  void flush();
  void write_through(std::string_view bytes);
  std::filesystem::path path_, temporary_;
  std::string buffer_;
  int fd_ = -1;
  bool committed_ = false;
  bool in_place_ = false;
};

// Removes the temporary files of every AtomicFile that is still open. Async
// signal safe: for a handler that is about to end the process.
void discard_open_atomic_files() noexcept;

}  // namespace assay
