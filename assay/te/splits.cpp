#include "assay/te/splits.h"

#include <string>

#include "assay/base/checked.h"
#include "assay/te/check.h"

namespace assay::te {

std::int64_t total_of(std::string_view op, std::string_view argument,
                      std::span<const std::int64_t> sizes) {
  std::int64_t total = 0;
  for (std::int64_t size : sizes) {
    require(size >= 0, op, argument, std::to_string(size), "0 or more");
    const auto sum = checked_add(total, size);
    require(sum.has_value(), op, argument,
            std::to_string(size) + " after " + std::to_string(total),
            "a sum below 2^63");
    total = *sum;
  }
  return total;
}

void require_splits(std::string_view op, std::string_view argument,
                    std::span<const std::int64_t> sizes, std::int64_t rows) {
  const std::int64_t total = total_of(op, argument, sizes);
  require(total == rows, op, argument, "a sum of " + std::to_string(total),
          std::to_string(rows) + " rows");
}

}  // namespace assay::te
