// How a module's weights are cut across a tensor parallel group.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "assay/te/parallel/communicator.h"

namespace assay::te {

enum class ParallelMode : std::uint8_t {
  kNone,
  kColumn,  // outputs cut: every rank has rows of the weight
  kRow,     // inputs cut: every rank has columns of the weight
};
// "column", "row", "" or "none"; Error{kUsage} for anything else.
ParallelMode parse_parallel_mode(std::string_view text);

struct TensorParallel {
  std::shared_ptr<Communicator> group;  // null: this process alone
  // Activations between a row- and a column-parallel layer are cut along the
  // first dimension: gathered before the one, reduce-scattered after the other.
  bool sequence_parallel = false;

  int size() const { return group ? group->size() : 1; }
  int rank() const { return group ? group->rank() : 0; }
};

// total / ranks; Error{kUsage} naming module and argument where it is no whole
// number.
std::int64_t shard_size(std::string_view module, std::string_view argument,
                        std::int64_t total, int ranks);

}  // namespace assay::te
