// The yardstick of the fused pass: reading two arrays as fast as vector loads
// can, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::bench {

// XOR of everything in both arrays; `bytes` of each, a multiple of 256. Best
// vectors of the machine, one thread.
std::uint64_t read_two(const std::byte* a, const std::byte* b,
                       std::size_t bytes);

}  // namespace assay::bench
