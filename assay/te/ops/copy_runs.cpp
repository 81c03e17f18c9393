#include "assay/te/ops/copy_runs.h"

#include <string>

#include "assay/te/check.h"

namespace assay::te {

std::int64_t row_bytes(std::string_view op, std::string_view argument,
                       DType dtype, std::int64_t columns) {
  const bool whole = traits(dtype).bits >= 8 || columns % 2 == 0;
  require(whole, op, argument,
          std::to_string(columns) + " elements of " +
              std::string(traits(dtype).name) + " a row",
          "an even number: two share a byte");
  const auto bytes = storage_bytes(dtype, columns);
  require(bytes.has_value(), op, argument, "a row of more than 2^63 bytes",
          "less");
  return *bytes;
}

}  // namespace assay::te
