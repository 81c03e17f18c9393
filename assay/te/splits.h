// Checks of the sizes and offsets that cut the rows of a tensor into groups.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "assay/core/tensor.h"

namespace assay::te {

// The sum of `sizes`. Throws Error{kUsage} naming `op` and `argument` where one
// is negative or the sum leaves 63 bits. Nothing may be allocated by a size
// before it went through here or require_splits.
std::int64_t total_of(std::string_view op, std::string_view argument,
                      std::span<const std::int64_t> sizes);

// Throws also where the sum is not `rows`.
void require_splits(std::string_view op, std::string_view argument,
                    std::span<const std::int64_t> sizes, std::int64_t rows);

// The elements of cu_seqlens [n + 1], i32: at least one, from 0 or more on, not
// descending. Throws Error{kUsage} naming `op` and `argument` otherwise.
std::vector<std::int64_t> checked_offsets(std::string_view op,
                                          std::string_view argument,
                                          const Tensor& offsets);

}  // namespace assay::te
