// Where the central directory of a zip archive is, and that nothing else
// could be taken for it.
#pragma once

#include <cstdint>

#include "assay/formats/file_bytes.h"

namespace assay {

struct ZipDirectory {
  std::uint64_t entries = 0, offset = 0, size = 0;
};

// Searches the end record backwards through the last 65,557 bytes and follows
// the zip64 locator where there is one. Throws Error{kRefused} when there is no
// end record, when it and the zip64 one disagree, for several disks, and when
// the directory does not end where the end records begin.
ZipDirectory find_zip_directory(const FileBytes& file);

}  // namespace assay
