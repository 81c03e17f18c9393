// Where a call writes that puts elements at given places.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/precheck/inputs.h"

namespace assay::precheck {

struct IndexTensor {
  std::string name;       // in the inputs
  std::int64_t size = 0;  // of the dimension that it counts; -1: not known
};

struct Places {
  std::vector<IndexTensor> indices;
  // scatter: each line along this dimension of the one index by itself; -1:
  // the indices together, broadcast, are the places.
  std::int64_t along = -1;

  bool empty() const { return indices.empty(); }
};

// Empty: of another operator, where all that is written is equal or is added
// up, where a mask says where, or where an index cannot be read.
Places places_of(const std::string& api, const CallInputs& inputs);

}  // namespace assay::precheck
