// The overflow search over the ranks of one step.
#pragma once

#include <memory>
#include <vector>

#include "assay/compare/localise.h"
#include "assay/compare/overflow/classify.h"
#include "assay/compare/overflow/overflow.h"

namespace assay {

class StepSearch {
 public:
  // `out` outlives the search.
  StepSearch(const OverflowOptions& options, OverflowReport& out)
      : options_(options), out_(out) {}

  // The next rank. Its records are counted, those not known listed.
  void add(Trace trace, Scan scan);
  // Classifies what was found, and appends it. Sets out.first unless it is
  // known from an earlier step.
  void finish();

 private:
  void list_unseen(const RankScan& rank);

  const OverflowOptions& options_;
  OverflowReport& out_;
  Comparison result_;
  std::vector<GroupFindings> findings_;
  std::vector<std::unique_ptr<RankScan>> ranks_;
};

}  // namespace assay
