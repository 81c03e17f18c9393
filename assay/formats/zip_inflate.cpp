// The content of zip members: whole through libdeflate, a prefix through
// zlib's stream, both checked against what the directory declares.
#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/zip_archive.h"

namespace assay {
namespace {

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const {
    libdeflate_free_decompressor(d);
  }
};
using Decompressor = std::unique_ptr<libdeflate_decompressor, FreeDecompressor>;

std::string quoted_name(const ZipEntry& entry) {
  return "member '" + printable(entry.name.substr(0, 200)) + "'";
}

void compare_crc(const ZipEntry& entry, std::span<const std::byte> content,
                 std::string_view file) {
  const std::uint32_t crc = libdeflate_crc32(0, content.data(), content.size());
  if (crc != entry.crc) {
    refuse(file, entry.data_offset,
           "CRC-32 " + std::to_string(crc) + " of " + quoted_name(entry),
           std::to_string(entry.crc));
  }
}

// Raw deflate, as much as fits `out`. Returns the bytes produced.
std::size_t inflate_prefix(std::span<const std::byte> in,
                           std::span<std::byte> out, bool& broken) {
  z_stream stream{};
  broken = inflateInit2(&stream, -15) != Z_OK;
  if (broken) return 0;
  constexpr std::size_t kMaxPiece = std::numeric_limits<uInt>::max();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
  stream.avail_in = static_cast<uInt>(std::min(in.size(), kMaxPiece));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_SYNC_FLUSH);
  broken = status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR;
  const std::size_t produced = out.size() - stream.avail_out;
  inflateEnd(&stream);
  return produced;
}

}  // namespace

std::vector<std::byte> ZipArchive::prefix(const ZipEntry& entry,
                                          std::uint64_t count) const {
  const auto in = raw(entry);
  std::vector<std::byte> out(std::min(count, entry.size));
  if (entry.method == kZipStored) {
    std::copy_n(in.begin(), out.size(), out.begin());
    return out;
  }
  bool broken = false;
  const std::size_t produced =
      out.empty() ? 0 : inflate_prefix(in, out, broken);
  if (broken || produced != out.size()) {
    refuse(file_.name, entry.data_offset,
           "a broken deflate stream in " + quoted_name(entry),
           "one of " + std::to_string(entry.size) + " bytes");
  }
  return out;
}

std::vector<std::byte> ZipArchive::inflate(const ZipEntry& entry) const {
  const Decompressor decompressor(libdeflate_alloc_decompressor());
  if (!decompressor) throw std::bad_alloc();
  const auto in = raw(entry);
  std::vector<std::byte> out(entry.size);
  std::size_t used = 0, produced = 0;
  const libdeflate_result result = libdeflate_deflate_decompress_ex(
      decompressor.get(), in.data(), in.size(), out.data(), out.size(), &used,
      &produced);
  if (result != LIBDEFLATE_SUCCESS || used != in.size() ||
      produced != out.size()) {
    refuse(file_.name, entry.data_offset,
           result == LIBDEFLATE_INSUFFICIENT_SPACE
               ? "more bytes than declared in " + quoted_name(entry)
               : "a broken deflate stream in " + quoted_name(entry),
           "one of exactly " + std::to_string(entry.size) + " bytes");
  }
  compare_crc(entry, out, file_.name);
  return out;
}

void ZipArchive::check_crc(const ZipEntry& entry) const {
  compare_crc(entry, raw(entry), file_.name);
}

}  // namespace assay
