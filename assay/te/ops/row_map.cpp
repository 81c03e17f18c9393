// Where the rows of a permutation go: counting sorts by expert.
#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "assay/base/round_up.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/ops/copy_runs.h"
#include "assay/te/ops/pad.h"
#include "assay/te/ops/permute.h"
#include "assay/te/splits.h"

namespace assay::te {
namespace {

// Tokens counted and placed together; fixed, so that the order is.
constexpr std::int64_t kTokens = 256;
constexpr std::int64_t kMaxExperts = std::int64_t{1} << 16;

using Counts = std::vector<std::int64_t>;

RowMap empty_map(std::int64_t tokens, std::int64_t width, std::int64_t rows,
                 Device device) {
  require(rows <= std::numeric_limits<std::int32_t>::max(), "moe_permute",
          "permuted rows", std::to_string(rows), "less than 2^31");
  RowMap map;
  map.tokens = tokens;
  map.width = width;
  map.rows = rows;
  map.slots = Tensor::empty(DType::kI32, {tokens, 2 * width + 1}, device);
  map.source = Tensor::empty(DType::kI32, {rows}, device);
  std::fill_n(map.slots.mutable_data<std::int32_t>(), map.slots.numel(), -1);
  std::fill_n(map.source.mutable_data<std::int32_t>(), rows, -1);
  return map;
}

// The slots of one token, filled one copy after the other.
class TokenSlots {
 public:
  TokenSlots(RowMap& map, std::int64_t token)
      : map_(map),
        token_(static_cast<std::int32_t>(token)),
        slots_(map.slots.mutable_data<std::int32_t>() +
               token * (2 * map.width + 1)) {}
  ~TokenSlots() { slots_[2 * map_.width] = count_; }

  void add(std::int64_t row, std::int64_t column) {
    if (row >= map_.rows) return;  // dropped
    slots_[count_] = static_cast<std::int32_t>(row);
    slots_[map_.width + count_] = static_cast<std::int32_t>(column);
    map_.source.mutable_data<std::int32_t>()[row] = token_;
    ++count_;
  }

 private:
  RowMap& map_;
  std::int32_t token_, count_ = 0;
  std::int32_t* slots_;
};

// [blocks][experts]: routed tokens of every block of kTokens.
Counts count_blocks(const std::uint8_t* routed, std::int64_t tokens,
                    std::int64_t experts) {
  const std::int64_t blocks = (tokens + kTokens - 1) / kTokens;
  Counts counts(static_cast<std::size_t>(blocks * experts));
  parallel_for(blocks, [&](std::int64_t block) {
    std::int64_t* count = counts.data() + block * experts;
    const std::int64_t end = std::min(tokens, (block + 1) * kTokens);
    for (std::int64_t t = block * kTokens; t < end; ++t)
      for (std::int64_t e = 0; e < experts; ++e)
        count[e] += routed[t * experts + e] != 0;
  });
  return counts;
}

Tensor counts_tensor(const Counts& counts, Device device) {
  const auto n = static_cast<std::int64_t>(counts.size());
  Tensor out = Tensor::empty(DType::kI64, {n}, device);
  std::copy(counts.begin(), counts.end(), out.mutable_data<std::int64_t>());
  return out;
}

// Of groups that start at `start`, what is left of the first `rows` rows.
Counts cut(const Counts& groups, const Counts& start, std::int64_t rows) {
  Counts out(groups.size());
  for (std::size_t e = 0; e < groups.size(); ++e)
    out[e] = std::clamp<std::int64_t>(rows - start[e], 0, groups[e]);
  return out;
}

Counts exclusive_sums(const Counts& counts) {
  Counts out(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), out.begin(),
                      std::int64_t{0});
  return out;
}

}  // namespace

RowMap row_map_from_mask(const Tensor& routing_map, std::int64_t num_out_tokens,
                         std::int64_t alignment) {
  constexpr std::string_view kOp = "row_map_from_mask";
  require_rank(kOp, "routing_map", routing_map, 2);
  require_dtype(kOp, "routing_map", routing_map, {DType::kBool, DType::kU8});
  require(alignment <= 0 || num_out_tokens < 0, kOp, "num_out_tokens",
          std::to_string(num_out_tokens) + " with an alignment",
          "negative: padding sets the number of rows");
  require(alignment <= std::numeric_limits<std::int32_t>::max(), kOp,
          "alignment", std::to_string(alignment), "less than 2^31");
  const Tensor routed = contiguous(routing_map);
  const std::int64_t tokens = routed.shape()[0], experts = routed.shape()[1];
  Counts counts = count_blocks(routed.data<std::uint8_t>(), tokens, experts);

  Counts totals(static_cast<std::size_t>(experts));
  for (std::size_t i = 0; i < counts.size(); ++i)
    totals[i % static_cast<std::size_t>(experts)] += counts[i];
  Counts padded = totals;
  if (alignment > 0)
    for (auto& count : padded) count = round_up(count, alignment);
  const Counts start = exclusive_sums(padded);
  const std::int64_t all = total_of(kOp, "padded rows", padded);
  RowMap map =
      empty_map(tokens, experts, num_out_tokens < 0 ? all : num_out_tokens,
                routing_map.device);
  map.tokens_per_expert =
      counts_tensor(cut(totals, start, map.rows), routing_map.device);
  map.padded_tokens_per_expert =
      counts_tensor(cut(padded, start, map.rows), routing_map.device);

  // From counts to the next free row of each expert in each block.
  Counts next = start;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    auto& row = next[i % static_cast<std::size_t>(experts)];
    row += std::exchange(counts[i], row);
  }
  const std::uint8_t* mask = routed.data<std::uint8_t>();
  const std::int64_t blocks = (tokens + kTokens - 1) / kTokens;
  parallel_for(experts == 0 ? 0 : blocks, [&](std::int64_t block) {
    std::int64_t* row = counts.data() + block * experts;
    const std::int64_t end = std::min(tokens, (block + 1) * kTokens);
    for (std::int64_t t = block * kTokens; t < end; ++t) {
      TokenSlots slots(map, t);
      for (std::int64_t e = experts - 1; e >= 0; --e)
        if (mask[t * experts + e] != 0) slots.add(row[e]++, e);
    }
  });
  if (experts == 0)
    std::fill_n(map.slots.mutable_data<std::int32_t>(), tokens, 0);
  return map;
}

RowMap row_map_from_indices(const Tensor& indices,
                            std::int64_t num_out_tokens) {
  constexpr std::string_view kOp = "row_map_from_indices";
  require_rank(kOp, "indices", indices, 2);
  require_dtype(kOp, "indices", indices, {DType::kI32, DType::kI64});
  const Tensor flat = contiguous(indices);
  const std::int64_t tokens = flat.shape()[0], width = flat.shape()[1];
  const auto expert = [&](std::int64_t i) {
    return flat.dtype() == DType::kI64
               ? flat.data<std::int64_t>()[i]
               : std::int64_t{flat.data<std::int32_t>()[i]};
  };
  Counts counts;
  for (std::int64_t i = 0; i < tokens * width; ++i) {
    const std::int64_t e = expert(i);
    require(e >= -1 && e < kMaxExperts, kOp, "indices", std::to_string(e),
            "an expert below 65536, or -1 for none");
    if (e >= static_cast<std::int64_t>(counts.size()))
      counts.resize(static_cast<std::size_t>(e) + 1);
    if (e >= 0) ++counts[static_cast<std::size_t>(e)];
  }
  const std::int64_t all =
      std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  RowMap map = empty_map(
      tokens, width, num_out_tokens < 0 ? all : num_out_tokens, indices.device);
  Counts next = exclusive_sums(counts);
  for (std::int64_t t = 0; t < tokens; ++t) {
    TokenSlots slots(map, t);
    for (std::int64_t k = 0; k < width; ++k) {
      const std::int64_t e = expert(t * width + k);
      if (e >= 0) slots.add(next[static_cast<std::size_t>(e)]++, k);
    }
  }
  return map;
}

}  // namespace assay::te
