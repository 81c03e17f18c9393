#include "assay/conform/pack_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/base/text.h"
#include "assay/conform/golden_files.h"
#include "assay/conform/report/run_fields.h"
#include "assay/formats/bytes.h"

namespace assay::conform {
namespace {

constexpr std::string_view kMagic = "ASSAYPCK";
constexpr std::uint64_t kMostIndex = std::uint64_t{1} << 30;
constexpr std::uint64_t kHashDigits = 32;

std::uint64_t aligned(std::uint64_t offset) {
  return (offset + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
}

std::string index_of(const std::vector<PackEntry>& entries) {
  List list;
  for (const PackEntry& entry : entries)
    list.push_back(Object{{"name", entry.name},
                          {"bytes", static_cast<std::int64_t>(entry.bytes)},
                          {"hash", entry.hash}});
  return to_json(Object{
      {"assay", "golden pack"}, {"version", 1}, {"entries", std::move(list)}});
}

PackEntry parse_entry(const RunFields& fields) {
  PackEntry entry;
  entry.name = fields.text("name");
  if (!is_store_name(entry.name))
    fields.wrong("name", printable(entry.name) + ", no file of a store");
  entry.bytes =
      static_cast<std::uint64_t>(fields.integer("bytes", 0, INT64_MAX));
  entry.hash = fields.text("hash");
  if (!is_hash(entry.hash))
    fields.wrong("hash", printable(entry.hash) + ", expected 32 hex digits");
  return entry;
}

// The index's text, whose hash is right.
std::string_view read_index(ByteCursor& cursor) {
  if (cursor.remaining() < kMagic.size() ||
      cursor.text(kMagic.size(), "magic") != kMagic) {
    cursor.seek(0, "magic");
    cursor.fail("another format", "a golden pack ('ASSAYPCK')");
  }
  const auto length = cursor.le<std::uint64_t>("length of the index");
  if (length > kMostIndex)
    cursor.fail(fmt::format("an index of {} bytes", length), "at most 1 GiB");
  const std::string_view hash = cursor.text(kHashDigits, "hash of the index");
  const std::string_view index = cursor.text(length, "index");
  const std::string found = to_hex(hash128(index));
  if (found != hash)
    refuse(cursor.file(), 0, "an index that hashes to " + found,
           printable(hash) + ": the index was changed");
  return index;
}

// The zeros before an entry, then its bytes.
void place(ByteCursor& cursor, PackEntry& entry) {
  const std::string_view zeros =
      cursor.text(aligned(cursor.position()) - cursor.position(),
                  "the gap before " + entry.name);
  if (zeros.find_first_not_of('\0') != std::string_view::npos)
    cursor.fail("bytes in the gap before " + entry.name, "zeros");
  entry.begin = cursor.position();
  cursor.skip(entry.bytes, entry.name);
}

}  // namespace

std::string format_pack_head(std::vector<PackEntry>& entries) {
  const std::string index = index_of(entries);
  std::string head(kMagic);
  for (int shift = 0; shift < 64; shift += 8)
    head.push_back(static_cast<char>(std::uint64_t{index.size()} >> shift));
  head += to_hex(hash128(index));
  head += index;
  std::uint64_t offset = head.size();
  for (PackEntry& entry : entries) {
    entry.begin = aligned(offset);
    offset = entry.begin + entry.bytes;
  }
  return head;
}

std::vector<PackEntry> parse_pack_head(const FileBytes& file) {
  ByteCursor cursor(file.bytes, file.name);
  const std::string origin = file.name + ": index";
  const Value document = parse_json(read_index(cursor), origin);
  const RunFields fields(document, origin);
  if (fields.text("assay") != "golden pack")
    fields.wrong("assay", "expected a golden pack");
  if (fields.integer("version", 0, INT32_MAX) != 1)
    fields.wrong("version", "expected 1; a newer assay wrote this");
  std::vector<PackEntry> entries;
  fields.each("entries", [&](const RunFields& entry) {
    entries.push_back(parse_entry(entry));
    const std::size_t count = entries.size();
    if (count > 1 && entries[count - 2].name >= entries[count - 1].name)
      entry.wrong("name", entries.back().name + ", not in order");
  });
  for (PackEntry& entry : entries) place(cursor, entry);
  if (!cursor.at_end())
    cursor.fail(fmt::format("{} bytes", cursor.remaining()), "the end");
  return entries;
}

}  // namespace assay::conform
