#include "assay/formats/zip_archive.h"

#include <algorithm>
#include <string>
#include <utility>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/zip_directory.h"

namespace assay {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint16_t kFlagEncrypted = 0x2041;  // plain, strong, masked
constexpr std::uint16_t kFlagSizesAfterData = 0x0008;
constexpr std::uint32_t kInExtra32 = 0xffffffff;
constexpr std::uint64_t kMaxRatio = 1100;  // deflate reaches 1032
constexpr std::uint64_t kSuspectRatio = 100;
constexpr std::uint64_t kSuspectSize = std::uint64_t{4} << 30;

std::string quoted_name(std::string_view name) {
  return "member '" + printable(name.substr(0, 200)) + "'";
}

// Replaces each saturated 32-bit field by its value in the zip64 extra field,
// which holds them in this order and only those.
void apply_zip64_extra(std::span<const std::byte> extra, std::string_view file,
                       std::uint64_t base,
                       std::initializer_list<std::uint64_t*> fields) {
  bool wanted = false;
  for (const std::uint64_t* field : fields) wanted |= *field == kInExtra32;
  if (!wanted) return;
  ByteCursor cursor(extra, file, base);
  while (cursor.remaining() >= 4) {
    const auto id = cursor.le<std::uint16_t>("extra field id");
    const auto size = cursor.le<std::uint16_t>("extra field size");
    if (id != kZip64Extra) {
      cursor.skip(size, "extra field");
      continue;
    }
    ByteCursor zip64(cursor.take(size, "zip64 extra field"), file,
                     cursor.offset() - size);
    for (std::uint64_t* field : fields) {
      if (*field == kInExtra32) *field = zip64.le<std::uint64_t>("zip64 size");
    }
    return;
  }
  cursor.fail("no zip64 extra field", "one, because a size is 0xffffffff");
}

void check_method(const ZipEntry& entry, std::string_view file,
                  std::uint64_t offset) {
  if (entry.flags & kFlagEncrypted) {
    refuse(file, offset, "encrypted " + quoted_name(entry.name),
           "a member without encryption");
  }
  if (entry.method != kZipStored && entry.method != kZipDeflated) {
    refuse(file, offset,
           "compression method " + std::to_string(entry.method) + " of " +
               quoted_name(entry.name),
           "0 (stored) or 8 (deflated)");
  }
}

std::string sizes_text(const ZipEntry& entry) {
  return std::to_string(entry.size) + " bytes from " +
         std::to_string(entry.compressed_size) + " in " +
         quoted_name(entry.name);
}

// Sizes no honest writer declares, found before anything is allocated.
void check_sizes(const ZipEntry& entry, std::string_view file,
                 std::uint64_t offset) {
  if (entry.method == kZipStored) {
    if (entry.size != entry.compressed_size) {
      refuse(file, offset, sizes_text(entry), "equal sizes of a stored member");
    }
    return;
  }
  const std::uint64_t ratio =
      entry.size / std::max<std::uint64_t>(entry.compressed_size, 1);
  if (ratio > kMaxRatio) {
    refuse(file, offset, sizes_text(entry),
           "at most 1100 times the compressed bytes");
  }
  if (ratio > kSuspectRatio && entry.size > kSuspectSize) {
    refuse(file, offset, sizes_text(entry),
           "at most 4 GiB where the ratio is over 100 (a zip bomb)");
  }
}

void check_agreement(const ZipEntry& local, const ZipEntry& entry, bool sized,
                     std::string_view file) {
  const bool same_sizes = local.crc == entry.crc && local.size == entry.size &&
                          local.compressed_size == entry.compressed_size;
  if (local.name == entry.name && local.method == entry.method &&
      !(local.flags & kFlagEncrypted) && (!sized || same_sizes)) {
    return;
  }
  refuse(file, entry.local_offset,
         "a local header that contradicts the directory on " +
             quoted_name(entry.name),
         "the same name, method, CRC-32 and sizes in both");
}

}  // namespace

ZipArchive::ZipArchive(FileBytes file) : file_(std::move(file)) {
  read_directory(find_zip_directory(file_));
  sort_names();
  check_overlaps();
  file_.check_intact();
}

void ZipArchive::read_directory(const ZipDirectory& directory) {
  constexpr std::uint64_t kEntrySize = 46;
  if (directory.entries > directory.size / kEntrySize) {
    refuse(file_.name, directory.offset,
           std::to_string(directory.entries) + " members in " +
               std::to_string(directory.size) + " bytes of directory",
           "at least 46 bytes for each");
  }
  ByteCursor cursor(file_.bytes.subspan(directory.offset, directory.size),
                    file_.name, directory.offset);
  entries_.reserve(directory.entries);
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    entries_.push_back(read_entry(cursor));
    read_local_header(entries_.back(), directory.offset);
  }
  if (!cursor.at_end()) {
    cursor.fail(
        std::to_string(cursor.remaining()) + " more bytes of directory",
        "its end after " + std::to_string(directory.entries) + " members");
  }
}

ZipEntry ZipArchive::read_entry(ByteCursor& cursor) const {
  const std::uint64_t offset = cursor.offset();
  if (cursor.le<std::uint32_t>("signature") != kDirectoryEntry) {
    refuse(file_.name, offset, "no directory entry", "signature PK 01 02");
  }
  cursor.skip(4, "versions");
  ZipEntry entry;
  entry.flags = cursor.le<std::uint16_t>("flags");
  entry.method = cursor.le<std::uint16_t>("method");
  cursor.skip(4, "time");
  entry.crc = cursor.le<std::uint32_t>("CRC-32");
  entry.compressed_size = cursor.le<std::uint32_t>("compressed size");
  entry.size = cursor.le<std::uint32_t>("size");
  const auto name_size = cursor.le<std::uint16_t>("name length");
  const auto extra_size = cursor.le<std::uint16_t>("extra length");
  const auto comment_size = cursor.le<std::uint16_t>("comment length");
  const auto disk = cursor.le<std::uint16_t>("disk");
  cursor.skip(6, "attributes");
  entry.local_offset = cursor.le<std::uint32_t>("local header offset");
  entry.name = cursor.text(name_size, "name");
  const auto extra = cursor.take(extra_size, "extra field");
  cursor.skip(comment_size, "comment");
  if (!is_valid_utf8(entry.name)) {
    refuse(file_.name, offset, quoted_name(entry.name), "a UTF-8 name");
  }
  if (disk != 0) {
    refuse(file_.name, offset, "a member on another disk", "one file");
  }
  apply_zip64_extra(extra, file_.name, offset,
                    {&entry.size, &entry.compressed_size, &entry.local_offset});
  check_method(entry, file_.name, offset);
  check_sizes(entry, file_.name, offset);
  return entry;
}

// Sets data_offset. Where flag bit 3 says that sizes and CRC follow the data,
// the local ones mean nothing and the directory's are all there is.
void ZipArchive::read_local_header(ZipEntry& entry,
                                   std::uint64_t directory) const {
  ByteCursor cursor(file_.bytes.first(directory), file_.name);
  cursor.seek(entry.local_offset, "a local header");
  if (cursor.le<std::uint32_t>("local header") != kLocalHeader) {
    refuse(file_.name, entry.local_offset,
           "no local header of " + quoted_name(entry.name),
           "signature PK 03 04");
  }
  ZipEntry local;
  cursor.skip(2, "version");
  local.flags = cursor.le<std::uint16_t>("flags");
  local.method = cursor.le<std::uint16_t>("method");
  cursor.skip(4, "time");
  local.crc = cursor.le<std::uint32_t>("CRC-32");
  local.compressed_size = cursor.le<std::uint32_t>("compressed size");
  local.size = cursor.le<std::uint32_t>("size");
  const auto name_size = cursor.le<std::uint16_t>("name length");
  const auto extra_size = cursor.le<std::uint16_t>("extra length");
  local.name = cursor.text(name_size, "name");
  const std::uint64_t extra_offset = cursor.offset();
  const auto extra = cursor.take(extra_size, "extra field");
  const bool sized = !(local.flags & kFlagSizesAfterData);
  if (sized) {
    apply_zip64_extra(extra, file_.name, extra_offset,
                      {&local.size, &local.compressed_size});
  }
  check_agreement(local, entry, sized, file_.name);
  entry.data_offset = cursor.position();
  cursor.skip(entry.compressed_size, "a member's data");
}

void ZipArchive::sort_names() {
  by_name_.resize(entries_.size());
  for (std::uint32_t i = 0; i < by_name_.size(); ++i) by_name_[i] = i;
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::uint32_t a, std::uint32_t b) {
              return entries_[a].name < entries_[b].name;
            });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const ZipEntry& entry = entries_[by_name_[i]];
    if (entry.name == entries_[by_name_[i - 1]].name) {
      refuse(file_.name, entry.local_offset,
             "a second " + quoted_name(entry.name), "each name once");
    }
  }
}

void ZipArchive::check_overlaps() const {
  std::vector<std::uint32_t> order(entries_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [this](std::uint32_t a, std::uint32_t b) {
              return entries_[a].local_offset < entries_[b].local_offset;
            });
  std::uint64_t end = 0;
  for (const std::uint32_t i : order) {
    const ZipEntry& entry = entries_[i];
    if (i == order.front() && entry.local_offset != 0) {
      refuse(
          file_.name, 0,
          std::to_string(entry.local_offset) + " bytes before the first member",
          "a member at offset 0");
    }
    if (entry.local_offset < end) {
      refuse(file_.name, entry.local_offset,
             quoted_name(entry.name) + " inside the member before it",
             "members that do not overlap");
    }
    end = entry.data_offset + entry.compressed_size;
  }
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](std::uint32_t i, std::string_view wanted) {
                         return entries_[i].name < wanted;
                       });
  if (at == by_name_.end() || entries_[*at].name != name) return nullptr;
  return &entries_[*at];
}

}  // namespace assay
