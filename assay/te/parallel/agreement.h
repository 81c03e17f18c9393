// Checks that every rank of a group passes, or none.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "assay/te/parallel/communicator.h"

namespace assay::te {

// Runs `check` on every rank and compares what it returns: the shape, dtype or
// sizes, as text, that have to be the same. Collective. Where a check throws
// an Error, that rank throws it on and the others one that names it; where the
// texts differ all throw Error{kUsage} with the ranks of each text. No rank is
// left waiting for one that has thrown. One small message to every rank.
void agree(std::string_view op, Communicator& group,
           const std::function<std::string()>& check);

}  // namespace assay::te
