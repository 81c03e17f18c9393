// The head of a pack: what writer and reader agree on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/formats/file_bytes.h"

namespace assay::conform {

struct PackEntry {
  std::string name;
  std::string hash;  // 32 hexadecimal digits
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;  // offset in the file
};

inline constexpr std::uint64_t kPackAlignment = 64;

// Sets every `begin`; gives everything before the first entry's bytes.
std::string format_pack_head(std::vector<PackEntry>& entries);

// Throws Error{kRefused} naming the field or the entry: a length that leaves
// the file, an index of another hash, names that are not sorted, are there
// twice or are none of a store's, entries that do not fill the file to its
// end.
std::vector<PackEntry> parse_pack_head(const FileBytes& file);

}  // namespace assay::conform
