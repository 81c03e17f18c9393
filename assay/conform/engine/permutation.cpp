// permutation: tokens sorted by expert and merged again, chunks of rows in
// another order; forward and backward.
#include <fmt/format.h>

#include <vector>

#include "assay/base/error.h"
#include "assay/conform/engine/engine.h"
#include "assay/numerics/element.h"
#include "assay/te/ops/permute.h"

namespace assay::conform {
namespace {

// The first `rows` rows: how many a permutation gives depends on its data, so
// inputs that go with its result are drawn with room.
Tensor first_rows(const AdapterCall& call, const std::string& name,
                  std::int64_t rows) {
  const Tensor& given = call.input(name);
  if (given.shape().empty() || given.shape()[0] < rows)
    throw Error(Code::kUsage, fmt::format("{}: input {}: fewer than {} rows",
                                          call.module, name, rows));
  Tensor part = given;
  part.view.shape[0] = rows;
  return part;
}

// Columns [0, count) of [rows, n].
Tensor first_columns(const Tensor& t, std::int64_t count) {
  Tensor part = t;
  if (part.view.strides.empty()) part.view.strides = {t.shape()[1], 1};
  part.view.shape[1] = count;
  return contiguous(part);
}

std::vector<std::int64_t> integers(const Tensor& t) {
  const Tensor dense = contiguous(t);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < dense.numel(); ++i)
    values.push_back(static_cast<std::int64_t>(
        load_as_double(dense.dtype(), dense.data<std::byte>(), i)));
  return values;
}

// Mask: zero or one for each expert; index: the experts of each choice, the
// first topk of a permutation.
te::RowMap map_of(const AdapterCall& call) {
  const std::int64_t rows = call.integer("num_out_tokens");
  const std::string& type = call.text("map_type");
  if (type != "mask" && type != "index")
    throw Error(Code::kUsage, fmt::format("{}: map_type {}, expected mask or "
                                          "index",
                                          call.module, type));
  if (type == "index")
    return te::row_map_from_indices(
        first_columns(call.input("expert_order"), call.integer("topk")), rows);
  const std::int64_t align =
      call.text("op") == "permute_and_pad" ? call.integer("align_size") : 0;
  return te::row_map_from_mask(call.input("routing_map"), rows, align);
}

void put_permuted(AdapterResult& result, const AdapterCall& call,
                  const te::RowMap& map) {
  const bool with_probs = call.text("op") != "permute";
  std::optional<Tensor> probs, d_probs;
  if (with_probs) {
    probs = call.input("probs");
    d_probs = first_rows(call, "d_permuted_probs", map.rows);
  }
  te::Permuted out = te::moe_permute_forward(call.input("x"), map, probs);
  te::PermuteGradients g = te::moe_permute_backward(
      first_rows(call, "d_permuted", map.rows), map, d_probs);
  result.outputs["permuted"] = out.rows;
  result.outputs["grad.x"] = g.tokens;
  if (with_probs) {
    result.outputs["permuted_probs"] = out.probs;
    result.outputs["grad.probs"] = g.probs;
  }
  if (call.text("op") == "permute_and_pad")
    result.outputs["target_tokens_per_expert"] = map.padded_tokens_per_expert;
}

void put_merged(AdapterResult& result, const AdapterCall& call,
                const te::RowMap& map) {
  const Tensor rows = first_rows(call, "rows", map.rows);
  std::optional<Tensor> merging;
  if (call.flag("merging")) merging = call.input("merging_probs");
  result.outputs["merged"] = te::moe_unpermute_forward(rows, map, merging);
  te::UnpermuteGradients g = te::moe_unpermute_backward(
      call.input("d_merged"), map, merging ? std::optional(rows) : std::nullopt,
      merging);
  result.outputs["grad.rows"] = g.rows;
  if (merging) result.outputs["grad.merging_probs"] = g.merging_probs;
}

void put_sorted(AdapterResult& result, const AdapterCall& call) {
  const auto sizes = integers(call.input("split_sizes"));
  const auto order = integers(call.input("sorted_index"));
  std::optional<Tensor> probs, d_probs;
  if (call.flag("merging")) {
    probs = call.input("chunk_probs");
    d_probs = call.input("d_chunk_probs");
  }
  const te::Permuted out =
      te::moe_sort_chunks_forward(call.input("x"), sizes, order, probs);
  const te::Permuted g = te::moe_sort_chunks_backward(call.input("d_merged"),
                                                      sizes, order, d_probs);
  result.outputs["sorted"] = out.rows;
  result.outputs["grad.x"] = g.rows;
  if (!probs) return;
  result.outputs["sorted_probs"] = out.probs;
  result.outputs["grad.chunk_probs"] = g.probs;
}

}  // namespace

AdapterResult run_permutation(const AdapterCall& call) {
  AdapterResult result;
  if (call.text("op") == "sort_chunks") {
    put_sorted(result, call);
    return result;
  }
  const te::RowMap map = map_of(call);
  put_permuted(result, call, map);
  put_merged(result, call, map);
  return result;
}

}  // namespace assay::conform
