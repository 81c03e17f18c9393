// Checks of the sizes that cut the rows of a tensor into groups.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace assay::te {

// The sum of `sizes`. Throws Error{kUsage} naming `op` and `argument` where one
// is negative or the sum leaves 63 bits. Nothing may be allocated by a size
// before it went through here or require_splits.
std::int64_t total_of(std::string_view op, std::string_view argument,
                      std::span<const std::int64_t> sizes);

// Throws also where the sum is not `rows`.
void require_splits(std::string_view op, std::string_view argument,
                    std::span<const std::int64_t> sizes, std::int64_t rows);

}  // namespace assay::te
