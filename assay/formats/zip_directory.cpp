#include "assay/formats/zip_directory.h"

#include <optional>
#include <string>

#include "assay/formats/bytes.h"

namespace assay {
namespace {

constexpr std::uint32_t kEndRecord = 0x06054b50;
constexpr std::uint32_t kZip64EndRecord = 0x06064b50;
constexpr std::uint32_t kZip64Locator = 0x07064b50;
constexpr std::uint64_t kEndRecordSize = 22;
constexpr std::uint64_t kLocatorSize = 20;
constexpr std::uint64_t kMaxComment = 65535;
constexpr std::uint32_t kSaturated32 = 0xffffffff;
constexpr std::uint16_t kSaturated16 = 0xffff;

struct EndRecord {
  ZipDirectory directory;
  bool one_disk = false;
  std::uint64_t at = 0;
};

[[noreturn]] void refuse_disks(const FileBytes& file, std::uint64_t at) {
  refuse(file.name, at, "an archive split over several disks", "one file");
}

void check_end(const FileBytes& file, const ZipDirectory& directory,
               std::uint64_t end) {
  if (checked_add(directory.offset, directory.size) == end) return;
  refuse(file.name, end,
         "a directory of " + std::to_string(directory.size) +
             " bytes at offset " + std::to_string(directory.offset),
         "one that ends at " + std::to_string(end) +
             " (is there data before the archive?)");
}

// Nullopt where no end record, whose comment ends with the file, begins.
std::optional<EndRecord> end_record_at(const FileBytes& file,
                                       std::uint64_t at) {
  ByteCursor cursor(file.bytes.subspan(at), file.name, at);
  if (cursor.le<std::uint32_t>("signature") != kEndRecord) return std::nullopt;
  EndRecord record;
  record.at = at;
  const auto disk = cursor.le<std::uint16_t>("disk number");
  const auto directory_disk = cursor.le<std::uint16_t>("directory disk");
  const auto entries_here = cursor.le<std::uint16_t>("entry count");
  record.directory.entries = cursor.le<std::uint16_t>("entry count");
  record.directory.size = cursor.le<std::uint32_t>("directory size");
  record.directory.offset = cursor.le<std::uint32_t>("directory offset");
  const auto comment = cursor.le<std::uint16_t>("comment length");
  if (comment != cursor.remaining()) return std::nullopt;
  record.one_disk = disk == 0 && directory_disk == 0 &&
                    entries_here == record.directory.entries;
  return record;
}

EndRecord find_end_record(const FileBytes& file) {
  const std::uint64_t size = file.bytes.size();
  if (size < kEndRecordSize) {
    refuse(file.name, 0, std::to_string(size) + " bytes",
           "a zip archive of at least 22");
  }
  const std::uint64_t last = size - kEndRecordSize;
  const std::uint64_t first = last > kMaxComment ? last - kMaxComment : 0;
  for (std::uint64_t at = last + 1; at-- > first;) {
    if (const auto record = end_record_at(file, at)) return *record;
  }
  refuse(file.name, size, "no zip end record",
         "one in the last 65557 bytes (is the file truncated?)");
}

// The record the locator points to; it ends where the locator begins.
ZipDirectory read_zip64_record(const FileBytes& file, std::uint64_t at,
                               std::uint64_t locator) {
  ByteCursor cursor(file.bytes, file.name);
  cursor.seek(at, "zip64 end record");
  if (cursor.le<std::uint32_t>("zip64 end record") != kZip64EndRecord) {
    refuse(file.name, at, "no zip64 end record", "one, as the locator says");
  }
  const auto size = cursor.le<std::uint64_t>("zip64 record size");
  if (checked_add(at + 12, size) != locator) {
    refuse(file.name, at,
           "a zip64 end record of " + std::to_string(size) + " bytes",
           "one that ends at " + std::to_string(locator));
  }
  cursor.skip(4, "versions");
  ZipDirectory directory;
  const auto disk = cursor.le<std::uint32_t>("disk number");
  const auto directory_disk = cursor.le<std::uint32_t>("directory disk");
  const auto entries_here = cursor.le<std::uint64_t>("entry count");
  directory.entries = cursor.le<std::uint64_t>("entry count");
  directory.size = cursor.le<std::uint64_t>("directory size");
  directory.offset = cursor.le<std::uint64_t>("directory offset");
  if (disk != 0 || directory_disk != 0 || entries_here != directory.entries) {
    refuse_disks(file, at);
  }
  check_end(file, directory, at);
  return directory;
}

// Nullopt where no zip64 locator precedes the end record.
std::optional<ZipDirectory> read_zip64(const FileBytes& file,
                                       std::uint64_t end_record) {
  if (end_record < kLocatorSize) return std::nullopt;
  const std::uint64_t locator = end_record - kLocatorSize;
  ByteCursor cursor(file.bytes.subspan(locator), file.name, locator);
  if (cursor.le<std::uint32_t>("signature") != kZip64Locator) {
    return std::nullopt;
  }
  const auto disk = cursor.le<std::uint32_t>("zip64 disk");
  const auto at = cursor.le<std::uint64_t>("zip64 end record offset");
  const auto disks = cursor.le<std::uint32_t>("disk count");
  if (disk != 0 || disks > 1) refuse_disks(file, locator);
  return read_zip64_record(file, at, locator);
}

// Each field of the end record is saturated or the same as in zip64.
bool agree(const ZipDirectory& end, const ZipDirectory& zip64) {
  return (end.entries == kSaturated16 || end.entries == zip64.entries) &&
         (end.size == kSaturated32 || end.size == zip64.size) &&
         (end.offset == kSaturated32 || end.offset == zip64.offset);
}

}  // namespace

ZipDirectory find_zip_directory(const FileBytes& file) {
  const EndRecord end = find_end_record(file);
  if (const auto zip64 = read_zip64(file, end.at)) {
    if (agree(end.directory, *zip64)) return *zip64;
    refuse(file.name, end.at, "an end record and a zip64 one that differ",
           "the same directory in both");
  }
  if (!end.one_disk) refuse_disks(file, end.at);
  check_end(file, end.directory, end.at);
  return end.directory;
}

}  // namespace assay
