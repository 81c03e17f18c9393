#include "assay/te/parallel/transfer_checks.h"

#include <string>

#include "assay/te/check.h"
#include "assay/te/splits.h"

namespace assay::te {

void check_all_gather(std::size_t from, std::size_t to, int ranks) {
  const auto expected = from * static_cast<std::size_t>(ranks);
  require(to == expected, "all_gather", "to", std::to_string(to) + " bytes",
          std::to_string(expected) + ", " + std::to_string(ranks) +
              " ranks of " + std::to_string(from));
}

void check_block_sizes(const char* argument,
                       std::span<const std::int64_t> sizes, std::size_t bytes,
                       int ranks) {
  require(sizes.size() == static_cast<std::size_t>(ranks), "all_to_all",
          argument, std::to_string(sizes.size()) + " sizes",
          std::to_string(ranks) + ", one a rank");
  require_splits("all_to_all", argument, sizes,
                 static_cast<std::int64_t>(bytes));
}

void check_rank(const char* call, const char* argument, int rank, int ranks) {
  require(rank >= 0 && rank < ranks, call, argument, std::to_string(rank),
          "a rank in [0, " + std::to_string(ranks) + ")");
}

std::vector<std::size_t> block_offsets(std::span<const std::int64_t> sizes) {
  std::vector<std::size_t> out;
  std::size_t next = 0;
  for (const std::int64_t size : sizes) {
    out.push_back(next);
    next += static_cast<std::size_t>(size);
  }
  return out;
}

}  // namespace assay::te
