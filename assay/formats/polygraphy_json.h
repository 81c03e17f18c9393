// Where the arrays of a Polygraphy JSON file lie in its text.
#pragma once

#include <string>
#include <vector>

#include "assay/formats/file_bytes.h"
#include "assay/formats/json_scan.h"

namespace assay {

struct PolygraphyArray {
  enum class Kind { kNumpy, kTorch, kNone };
  std::string name;
  Kind kind = Kind::kNone;
  JsonText payload;  // views the file
  std::string why;   // kNone: what stands there instead of an array
};

// In file order. Throws Error{kRefused} as open_polygraphy says.
std::vector<PolygraphyArray> find_polygraphy_arrays(const FileBytes& file);

}  // namespace assay
