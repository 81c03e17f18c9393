// The directory of a zip archive, read strictly: what .npz and .pt files are
// made of, and nothing that two zip readers could see differently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "assay/formats/file_bytes.h"

namespace assay {

inline constexpr std::uint16_t kZipStored = 0;
inline constexpr std::uint16_t kZipDeflated = 8;

struct ZipEntry {
  std::string_view name;  // UTF-8, points into the file; never a path
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  std::uint32_t crc = 0;
  std::uint64_t compressed_size = 0;
  std::uint64_t size = 0;
  std::uint64_t local_offset = 0;
  std::uint64_t data_offset = 0;
};

// Parses the end record (searched for in the last 65,557 bytes), zip64 records
// where present, the central directory, and every local header. Throws
// Error{kRefused}, each with its own text, for: no end record, several disks,
// bytes before the first member, a directory that does not end at the end
// record, a member count that lies, encryption, a method other than stored or
// deflated, a name that is not UTF-8 or occurs twice, a local header that
// contradicts the directory, members that overlap, a stored member whose two
// sizes differ, and a declared size no deflate stream can reach (over 1100
// times its bytes; over 4 GiB from over 100 times its bytes).
// Immutable afterwards; thread-safe.
class ZipArchive {
 public:
  explicit ZipArchive(FileBytes file);

  const FileBytes& file() const { return file_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;  // O(log n)

  // The member's bytes as they lie in the file, compressed or not.
  std::span<const std::byte> raw(const ZipEntry& entry) const {
    return file_.bytes.subspan(entry.data_offset, entry.compressed_size);
  }
  // The first `count` bytes of the content, fewer when it ends before. Not
  // checked against the CRC. Throws Error{kRefused} on a broken stream.
  std::vector<std::byte> prefix(const ZipEntry& entry,
                                std::uint64_t count) const;
  // Whole content of a deflated member, its size and CRC-32 verified.
  std::vector<std::byte> inflate(const ZipEntry& entry) const;
  // Verifies the CRC-32 of a stored member (one pass over its bytes).
  void check_crc(const ZipEntry& entry) const;

 private:
  void read_directory(const struct ZipDirectory& directory);
  ZipEntry read_entry(class ByteCursor& cursor) const;
  void read_local_header(ZipEntry& entry, std::uint64_t directory) const;
  void sort_names();
  void check_overlaps() const;

  FileBytes file_;
  std::vector<ZipEntry> entries_;       // in directory order
  std::vector<std::uint32_t> by_name_;  // indices, sorted by name
};

}  // namespace assay
