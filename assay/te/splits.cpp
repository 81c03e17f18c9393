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

std::vector<std::int64_t> checked_offsets(std::string_view op,
                                          std::string_view argument,
                                          const Tensor& given) {
  require_dtype(op, argument, given, {DType::kI32});
  require_rank(op, argument, given, 1);
  require(given.numel() > 0, op, argument, "empty", "batch + 1 offsets");
  const Tensor dense = contiguous(given);
  std::vector<std::int64_t> offsets(dense.data<std::int32_t>(),
                                    dense.data<std::int32_t>() + dense.numel());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::int64_t least = i == 0 ? 0 : offsets[i - 1];
    require(offsets[i] >= least, op, argument,
            std::to_string(offsets[i]) + " at " + std::to_string(i),
            "at least " + std::to_string(least));
  }
  return offsets;
}

}  // namespace assay::te
