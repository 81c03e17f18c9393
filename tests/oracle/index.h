// INDEX.json of a folder of reference vectors: which files there are, what
// their arrays are and how exactly each must be met.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "assay/core/dtype.h"
#include "assay/core/shape.h"

namespace assay::oracle {

struct IndexedArray {
  std::string name;
  std::optional<std::string> dtype;  // "float32"
  std::optional<Shape> shape;
  std::optional<std::string> expect;  // the JSON value as text
};

struct IndexedFile {
  std::string file;    // a name, not a path
  std::string params;  // a JSON object as text
  std::vector<IndexedArray> arrays;
};

struct Index {
  std::optional<std::int64_t> count;
  std::vector<IndexedFile> files;
};

// Throws Error, one line with the file and the entry: kUnreadable, or kRefused
// where the document is not an index.
Index read_index(const std::filesystem::path& folder);

}  // namespace assay::oracle
