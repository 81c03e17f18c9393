// Which row of the angle table each token of a tensor uses.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "assay/te/ops/rope.h"

namespace assay::te {

struct RopePositions {
  // Tokens of one place in the sequence: `batch` of them share their angles,
  // or have one each.
  std::int64_t length = 0, batch = 1;
  // [length] or [length * batch] in the order of `shared`; -1: no sequence.
  std::vector<std::int64_t> rows;
  bool shared = true;

  std::int64_t row(std::int64_t s, std::int64_t b) const {
    return rows[static_cast<std::size_t>(shared ? s : s * batch + b)];
  }
};

// Checks that every row is in a table of `table_rows`, and that the integer
// tensors of the options are on `device`.
RopePositions rope_positions(std::string_view op, Device device,
                             const Shape& shape, std::int64_t table_rows,
                             const RopeOptions& options);

}  // namespace assay::te
