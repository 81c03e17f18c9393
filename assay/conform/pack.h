// A golden store in one file, to be carried from one host to another.
//
//   8 bytes   "ASSAYPCK"
//   8 bytes   length of the index, little-endian
//   32 bytes  XXH3-128 of the index, as lower-case hexadecimal digits
//   the index {"assay": "golden pack", "version": 1, "entries":
//             [{"name": "...", "bytes": N, "hash": "..."}, ...]}, sorted
//   the entries' bytes, each at the next multiple of 64; zeros between
//
// Nothing else, and nothing after them: every byte of a pack is covered by a
// hash, or is one that the reader knows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "assay/conform/golden_files.h"

namespace assay::conform {

struct PackSummary {
  std::int64_t cases = 0, objects = 0, bytes = 0;
};

// Packs the goldens of a folder and the objects that they name. Throws Error
// naming an object that is missing or was changed, and writes nothing then.
PackSummary pack(const std::filesystem::path& folder,
                 const std::filesystem::path& file);

// Adds the goldens of a pack to a store, made where it is not there; nothing
// is written before every entry is verified. Throws Error.
PackSummary unpack(const std::filesystem::path& file,
                   const std::filesystem::path& folder);

// Reads without unpacking: views of the mapped file. Checks lengths, names and
// the index at once, each entry when it is read. Throws Error{kUnreadable,
// kRefused} naming the entry.
std::unique_ptr<GoldenFiles> open_pack(const std::filesystem::path& file);
// The same of bytes in memory.
std::unique_ptr<GoldenFiles> open_pack(FileBytes bytes);

}  // namespace assay::conform
