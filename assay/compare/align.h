// Aligns two sequences with few differences, as `diff` does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace assay {

// Positions of a longest common subsequence of `a` and `b`, in order (Myers,
// "An O(ND) Difference Algorithm", 1986). Nullopt when the sequences are more
// than `max_edits` insertions and deletions apart: time stays linear in the
// lengths, plus max_edits squared.
std::optional<std::vector<std::pair<std::int32_t, std::int32_t>>> align(
    std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
    int max_edits);

}  // namespace assay
