#include "assay/compare/overflow/step_search.h"

#include <algorithm>
#include <utility>

#include "assay/compare/overflow/classify.h"
#include "assay/compare/overflow/layout.h"
#include "assay/compare/overflow/range.h"
#include "assay/compare/rank_order.h"

namespace assay {

void StepSearch::add(Trace trace, Scan scan) {
  auto rank = std::make_unique<RankScan>();
  rank->scan = std::move(scan);
  rank->pair.golden = std::move(trace);
  const Trace& golden = rank->pair.golden;
  rank->meanings = find_meanings(golden, rank->scan.values);
  find_range_notes(golden, rank->scan, rank->meanings, options_.only, out_);
  const auto group = static_cast<std::uint32_t>(result_.groups.size());
  lay_out(rank->pair, rank->scan, rank->meanings, options_.only, result_);
  const bool earlier = out_.first.has_value();
  findings_.push_back(localise_group(rank->pair, group, result_, earlier));
  list_unseen(*rank);
  ranks_.push_back(std::move(rank));
}

void StepSearch::list_unseen(const RankScan& rank) {
  const Trace& trace = rank.pair.golden;
  const std::size_t first_row =
      result_.rows.size() - rank.pair.matching.pairs.size();
  for (std::size_t i = 0; i < rank.pair.matching.pairs.size(); ++i) {
    ++out_.counts.records;
    if (result_.rows[first_row + i].verdict != Verdict::kIncomplete) continue;
    ++out_.counts.unseen;
    if (out_.unseen.size() == kListedUnseen) continue;
    const std::int32_t at = rank.pair.matching.pairs[i].golden;
    const auto why = rank.scan.unseen.find(static_cast<std::uint32_t>(at));
    out_.unseen.push_back({trace.step, trace.rank,
                           trace.name(trace.records[at]),
                           why == rank.scan.unseen.end() ? "" : why->second});
  }
  for (const OpPair& op : rank.pair.matching.ops)
    out_.counts.ops += op.count > 0;
}

void StepSearch::finish() {
  find_across_ranks(findings_, result_);
  classify(ranks_, findings_, result_, out_);
}

}  // namespace assay
