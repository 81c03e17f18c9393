#include "assay/te/modules/tensor_parallel_config.h"

#include <string>

#include "assay/te/check.h"

namespace assay::te {

ParallelMode parse_parallel_mode(std::string_view text) {
  if (text == "column") return ParallelMode::kColumn;
  if (text == "row") return ParallelMode::kRow;
  require(text.empty() || text == "none", "module", "parallel_mode",
          "\"" + std::string(text) + "\"", "column, row or none");
  return ParallelMode::kNone;
}

std::int64_t shard_size(std::string_view module, std::string_view argument,
                        std::int64_t total, int ranks) {
  require(total % ranks == 0, module, argument, std::to_string(total),
          "a multiple of tp_size " + std::to_string(ranks));
  return total / ranks;
}

}  // namespace assay::te
