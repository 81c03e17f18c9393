// How many rows each rank sends and receives, and whether that adds up.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "assay/te/parallel/communicator.h"

namespace assay::te {

// This rank's own: one count a rank, none negative, what is sent sums to
// `rows`. Throws Error{kUsage}; for agree().
void check_row_counts(std::string_view op, std::int64_t rows,
                      std::span<const std::int64_t> send_counts,
                      std::span<const std::int64_t> receive_counts, int ranks);
// All ranks: what r sends to s is what s receives from r. Collective; every
// rank throws the same Error{kUsage}.
void require_matching_counts(std::string_view op,
                             std::span<const std::int64_t> send_counts,
                             std::span<const std::int64_t> receive_counts,
                             Communicator& group);

}  // namespace assay::te
