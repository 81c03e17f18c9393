// Builds zip archives byte by byte, broken ones too, for the reader tests.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

inline std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(i < 8 ? value >> (8 * i) & 0xff : 0);
  }
  return out;
}

inline std::string raw_deflate(const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// What is written about one member; the defaults are the truth.
struct Member {
  std::string name, content;
  bool deflated = false;
  int method = -1;          // -1: as `deflated`
  std::uint16_t flags = 0;  // in both headers
  std::int64_t size = -1;   // -1: the content's; both headers
  std::int64_t compressed = -1;
  std::int64_t crc = -1;
  std::string local_name = "\x01";  // "\x01": as `name`
  std::int64_t local_crc = -1;      // -1: as crc
  std::int64_t offset = -1;         // of the local header, in the directory
  std::string local_extra, extra;
};

struct Archive {
  std::vector<Member> members;
  std::int64_t entries = -1;  // -1: the truth
  std::int64_t directory_size = -1;
  std::int64_t directory_offset = -1;
  std::string prefix, comment;

  std::string bytes() const {
    std::string out = prefix, directory;
    for (const Member& member : members) {
      const std::uint64_t at = member.offset < 0 ? out.size() : member.offset;
      const std::string data =
          member.deflated ? raw_deflate(member.content) : member.content;
      const std::string sizes =
          little(or_truth(member.compressed, data.size()), 4) +
          little(or_truth(member.size, member.content.size()), 4);
      const std::uint64_t crc = or_truth(
          member.crc,
          crc32(0, reinterpret_cast<const Bytef*>(member.content.data()),
                static_cast<uInt>(member.content.size())));
      const std::string start =
          little(member.flags, 2) +
          little(member.method < 0 ? member.deflated * 8 : member.method, 2) +
          little(0, 4);
      const std::string local_name =
          member.local_name == "\x01" ? member.name : member.local_name;
      out += "PK\3\4" + little(20, 2) + start +
             little(or_truth(member.local_crc, crc), 4) + sizes +
             little(local_name.size(), 2) +
             little(member.local_extra.size(), 2) + local_name +
             member.local_extra + data;
      directory += "PK\1\2" + little(20, 2) + little(20, 2) + start +
                   little(crc, 4) + sizes + little(member.name.size(), 2) +
                   little(member.extra.size(), 2) + little(0, 10) +
                   little(at, 4) + member.name + member.extra;
    }
    const std::uint64_t offset = or_truth(directory_offset, out.size());
    const std::uint64_t count = or_truth(entries, members.size());
    return out + directory + "PK\5\6" + little(0, 4) + little(count, 2) +
           little(count, 2) +
           little(or_truth(directory_size, directory.size()), 4) +
           little(offset, 4) + little(comment.size(), 2) + comment;
  }

 private:
  static std::uint64_t or_truth(std::int64_t given, std::uint64_t truth) {
    return given < 0 ? truth : static_cast<std::uint64_t>(given);
  }
};

}  // namespace assay
