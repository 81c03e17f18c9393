// What every transport asks of the arguments of a transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace assay::te {

// Each throws Error{kUsage} that names the call, the argument and its value.
void check_all_gather(std::size_t from, std::size_t to, int ranks);
// Entries of `sizes` for each rank, not negative, summing to `bytes`.
void check_block_sizes(const char* argument,
                       std::span<const std::int64_t> sizes, std::size_t bytes,
                       int ranks);
void check_rank(const char* call, const char* argument, int rank, int ranks);

// Where each block begins: exclusive prefix sums.
std::vector<std::size_t> block_offsets(std::span<const std::int64_t> sizes);

}  // namespace assay::te
