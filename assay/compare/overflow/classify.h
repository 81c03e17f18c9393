// From origins of rows to kinds of operators.
#pragma once

#include <memory>
#include <vector>

#include "assay/compare/engine.h"
#include "assay/compare/localise.h"
#include "assay/compare/overflow/overflow.h"
#include "assay/compare/overflow/scan.h"

namespace assay {

// One rank of a step, and what is known of its values.
struct RankScan {
  TracePair pair;
  Scan scan;
  std::vector<Meaning> meanings;
};

// Appends the operators of the step to `out.found`, counts them, and names the
// first and what carried it on, unless an earlier step had it. The three
// vectors are parallel; origins are those of find_across_ranks.
void classify(const std::vector<std::unique_ptr<RankScan>>& ranks,
              const std::vector<GroupFindings>& findings,
              const Comparison& result, OverflowReport& out);

}  // namespace assay
