// Read-only file mapping that survives the file being truncated under it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

struct stat;

namespace assay {

// Maps a regular file. A page that vanishes while it is read (the file was
// truncated, the disk failed) reads as zeros instead of killing the process
// with SIGBUS, and `check_intact` then throws, as it does when the file was
// shortened by less than a page or rewritten in place. Readers call it after
// using the bytes. Never follows the file growing. Thread-safe.
class MappedFile {
 public:
  // Throws Error{kUnreadable} naming the path when it is absent, no regular
  // file, or cannot be mapped. An empty file maps to an empty span.
  static std::shared_ptr<const MappedFile> open(
      const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::size_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  bool intact() const;
  void check_intact() const;  // throws Error{kUnreadable}

  // For whoever holds bytes, but not the mapping they may be part of (and
  // keeps it alive): false when pages of that mapping vanished. Bytes outside
  // of every mapping are always intact.
  static bool intact(const void* data);
  // Takes the whole pages inside `bytes` out of this process's memory; the
  // next use reads them from the file again. Does nothing for bytes outside
  // of every mapping.
  static void release(std::span<const std::byte> bytes);

 private:
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t modified_ns = 0;
  };
  static Identity identity_of(const struct stat& status);

  MappedFile() = default;
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Identity identity_;
  int slot_ = -1;  // index in the fault handler's table
};

}  // namespace assay
