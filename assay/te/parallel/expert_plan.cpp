// Who sends how many rows to whom.
#include <algorithm>
#include <numeric>
#include <string>

#include "assay/base/round_up.h"
#include "assay/te/check.h"
#include "assay/te/ops/pad.h"
#include "assay/te/parallel/agreement.h"
#include "assay/te/parallel/expert_parallel.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "ep_prepare";
using Counts = std::vector<std::int64_t>;

bool is_mask(const Tensor& routing) {
  return routing.dtype() == DType::kBool || routing.dtype() == DType::kU8;
}

void check(const Tensor& routing, std::int64_t experts, std::int64_t alignment,
           int ranks) {
  require_rank(kOp, "routing", routing, 2);
  require_dtype(kOp, "routing", routing,
                {DType::kBool, DType::kU8, DType::kI32, DType::kI64});
  require(experts > 0, kOp, "experts", std::to_string(experts), "1 or more");
  require_multiple(kOp, "experts", experts, ranks);
  require(alignment >= 0, kOp, "alignment", std::to_string(alignment),
          "0 or more");
  if (is_mask(routing))
    require_shape(kOp, "routing", routing, {routing.shape()[0], experts});
}

// Rows of each expert that a map of choices has.
Counts count_choices(const Tensor& routing, std::int64_t experts) {
  const Tensor flat = contiguous(routing);
  Counts counts(static_cast<std::size_t>(experts));
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const std::int64_t e = flat.dtype() == DType::kI64
                               ? flat.data<std::int64_t>()[i]
                               : std::int64_t{flat.data<std::int32_t>()[i]};
    if (e < -1 || e >= experts)
      fail(kOp, "routing",
           std::to_string(e) + " at " + index_text(flat.shape(), i),
           "an expert below " + std::to_string(experts) + ", or -1 for none");
    if (e >= 0) ++counts[static_cast<std::size_t>(e)];
  }
  return counts;
}

Counts counts_of(const RowMap& map) {
  const auto* counts = map.tokens_per_expert.data<std::int64_t>();
  return {counts, counts + map.tokens_per_expert.numel()};
}

// [ranks][experts]: rows of each expert on every rank.
Counts gather_counts(const Counts& own, Communicator& group) {
  Counts all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(own)),
                   std::as_writable_bytes(std::span(all)));
  return all;
}

void fill_receive(EpPlan& plan, const Counts& all, std::int64_t rank,
                  std::int64_t ranks, std::int64_t alignment) {
  const std::int64_t own = plan.local_experts;
  plan.tokens_per_expert.assign(static_cast<std::size_t>(own), 0);
  for (std::int64_t s = 0; s < ranks; ++s) {
    const auto* counts = all.data() + s * plan.experts + rank * own;
    plan.chunks.insert(plan.chunks.end(), counts, counts + own);
    plan.receive_counts.push_back(
        std::accumulate(counts, counts + own, std::int64_t{0}));
    for (std::int64_t e = 0; e < own; ++e)
      plan.tokens_per_expert[static_cast<std::size_t>(e)] += counts[e];
  }
  for (std::int64_t e = 0; e < own; ++e)
    for (std::int64_t s = 0; s < ranks; ++s) plan.order.push_back(s * own + e);
  plan.padded_tokens_per_expert = plan.tokens_per_expert;
  for (std::int64_t& rows : plan.padded_tokens_per_expert) {
    if (alignment > 0) rows = round_up(rows, alignment);
    plan.rows += rows;
  }
}

}  // namespace

EpPlan ep_prepare(const Tensor& routing, std::int64_t experts,
                  Communicator& group, std::int64_t alignment) {
  EpPlan plan;
  Counts own;
  agree(kOp, group, [&] {
    check(routing, experts, alignment, group.size());
    if (is_mask(routing)) {
      plan.map = row_map_from_mask(routing);
      own = counts_of(plan.map);
    } else {
      own = count_choices(routing, experts);
      plan.map = row_map_from_indices(routing);
    }
    return std::to_string(experts) + " experts, alignment " +
           std::to_string(alignment);
  });
  const std::int64_t ranks = group.size();
  plan.experts = experts;
  plan.local_experts = experts / ranks;
  for (std::int64_t r = 0; r < ranks; ++r) {
    const auto begin = own.begin() + r * plan.local_experts;
    plan.send_counts.push_back(
        std::accumulate(begin, begin + plan.local_experts, std::int64_t{0}));
  }
  fill_receive(plan, gather_counts(own, group), group.rank(), ranks, alignment);
  return plan;
}

}  // namespace assay::te
