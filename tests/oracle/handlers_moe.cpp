// Reference vectors of permutation: mask and index maps, chunk sorting.
#include <cmath>
#include <vector>

#include "assay/te/ops/permute.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

// Rows that are copies of fp32 rows, for comparison bit by bit.
Tensor as_f64(const Tensor& x) {
  Tensor out = Tensor::empty(DType::kF64, x.shape());
  for (std::int64_t i = 0; i < x.numel(); ++i)
    out.mutable_data<double>()[i] = x.data<float>()[i];
  return out;
}

void run_mask(const Case& c, Answers& answers) {
  c.states("tokens", c.dim("tokens", 0));
  c.states("hidden", c.dim("tokens", 1));
  c.states("experts", c.dim("routing_map", 1));
  const Tensor probs = c.array("probs");
  const te::RowMap map = te::row_map_from_mask(c.array("routing_map"));
  const te::Permuted permuted =
      te::moe_permute_forward(c.array("tokens"), map, probs);
  answers.give("permuted", permuted.rows);
  answers.give("permuted_probs", permuted.probs);
  answers.give("sorted_indices", map.source);
  answers.give("d_tokens",
               te::moe_permute_backward(c.array("d_permuted"), map).tokens);

  const Tensor expert_out = c.array("expert_out");
  const Tensor d_out = c.array("d_unpermuted");
  answers.give("unpermuted_prob_f64",
               te::moe_unpermute_forward(expert_out, map, probs));
  answers.give("unpermuted_noprob_f64",
               te::moe_unpermute_forward(expert_out, map));
  const te::UnpermuteGradients weighted =
      te::moe_unpermute_backward(d_out, map, expert_out, probs);
  answers.give("d_expert_out_prob_f64", weighted.rows);
  answers.give("d_probs_f64", weighted.merging_probs);
  answers.give("d_expert_out_noprob_f64",
               as_f64(te::moe_unpermute_backward(d_out, map).rows));
}

void run_index(const Case& c, Answers& answers) {
  c.states("tokens", c.dim("tokens", 0));
  c.states("hidden", c.dim("tokens", 1));
  c.states("topk", c.dim("indices", 1));
  c.describes({"experts"});  // the largest index bounds it, no more
  const Tensor indices = c.array("indices"), probs = c.array("probs");
  const std::int64_t rows = c.integer("num_out_tokens");
  const te::RowMap map = te::row_map_from_indices(indices, rows);
  answers.give("permuted",
               te::moe_permute_forward(c.array("tokens"), map).rows);
  // The whole sort, dropped rows too: place k of a token is its flat index.
  const te::RowMap whole = te::row_map_from_indices(indices);
  Tensor sorted = Tensor::empty(DType::kI32, {whole.rows});
  for (std::int64_t t = 0; t < whole.tokens; ++t)
    for (std::int64_t k = 0; k < whole.width; ++k) {
      const std::int32_t* slots =
          whole.slots.data<std::int32_t>() + t * (2 * whole.width + 1);
      sorted.mutable_data<std::int32_t>()[slots[k]] =
          static_cast<std::int32_t>(t * whole.width + slots[whole.width + k]);
    }
  answers.give("sorted_indices", sorted);
  answers.give("d_tokens",
               te::moe_permute_backward(c.array("d_permuted"), map).tokens);
  const Tensor expert_out = c.array("expert_out");
  const Tensor merged = te::moe_unpermute_forward(expert_out, map, probs);
  answers.give("unpermuted_f32", merged);
  answers.give("unpermuted_f64", merged);
  const te::UnpermuteGradients gradients = te::moe_unpermute_backward(
      c.array("d_unpermuted"), map, expert_out, probs);
  answers.give("d_expert_out_f64", gradients.rows);
  answers.give("d_probs_f64", gradients.merging_probs);
}

std::vector<std::int64_t> integers(const Case& c, std::string_view array) {
  std::vector<std::int64_t> out;
  for (double v : c.values(array)) out.push_back(std::llround(v));
  return out;
}

void run_chunks(const Case& c, Answers& answers) {
  answers.give("out", te::moe_sort_chunks_forward(c.array("x"),
                                                  integers(c, "split_sizes"),
                                                  integers(c, "sorted_idxs"))
                          .rows);
}

const Registration kMask{"moe_permute_mask_", run_mask};
const Registration kIndex{"moe_permute_index_", run_index};
const Registration kChunks{"moe_sort_chunks", run_chunks};

}  // namespace
}  // namespace assay::oracle
