// Expert parallelism: the bits of one process that has all tokens.
#include "assay/te/parallel/expert_parallel.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "assay/te/ops/pad.h"
#include "assay/te/ops/split.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

using testing::HasSubstr;
using Counts = std::vector<std::int64_t>;

// Tokens of each rank: uneven, and none on the third.
Counts tokens_of_ranks() {
  const Counts all = {7, 13, 0, 5};
  return {all.begin(), all.begin() + ranks()};
}

// This rank's rows of a tensor with those of all, by `counts` a rank.
Tensor part_by(const Tensor& whole, const Counts& counts) {
  return split(whole, counts, 0)[static_cast<std::size_t>(rank())];
}
Tensor own(const Tensor& whole) { return part_by(whole, tokens_of_ranks()); }

std::int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

constexpr std::int64_t kExperts = 8, kHidden = 6;

// Expert 3 gets no token, and the last two (all of rank 3 of 4) none either.
Tensor mask_routing(std::int64_t tokens) {
  std::mt19937 random(3);
  Tensor t = Tensor::zeros(DType::kBool, {tokens, kExperts});
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const std::int64_t e = i % kExperts;
    t.mutable_data<std::uint8_t>()[i] = e != 3 && e < 6 && random() % 3 == 0;
  }
  return t;
}

Tensor index_routing(std::int64_t tokens, DType dtype) {
  std::mt19937 random(4);
  Tensor t = Tensor::empty(dtype, {tokens, 3});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(dtype, static_cast<double>(random() % 7) - 1,
                      t.mutable_data(), i);
  return t;
}

// Rows [begin, end) of local experts, from those of all experts.
Tensor own_experts(const Tensor& rows, const Counts& per_expert) {
  Counts by_rank;
  const std::int64_t local = kExperts / ranks();
  for (std::int64_t r = 0; r < ranks(); ++r)
    by_rank.push_back(std::accumulate(per_expert.begin() + r * local,
                                      per_expert.begin() + (r + 1) * local,
                                      std::int64_t{0}));
  return part_by(rows, by_rank);
}

Counts rows_per_expert(const Tensor& routing) {
  Counts counts(kExperts);
  const bool mask = routing.dtype() == DType::kBool;
  for (std::int64_t i = 0; i < routing.numel(); ++i) {
    const auto v = static_cast<std::int64_t>(
        load_as_double(routing.dtype(), routing.view.data, i));
    if (mask ? v != 0 : v >= 0)
      ++counts[static_cast<std::size_t>(mask ? i % kExperts : v)];
  }
  return counts;
}

struct Routed {
  Tensor routing, probs;
  RowMap map;  // of all tokens in one process
  Counts per_expert;
};

Routed routed(const Tensor& routing, DType dtype) {
  Routed r{routing, normal(dtype, routing.shape(), 9, 1), {}, {}};
  r.map = routing.dtype() == DType::kBool ? row_map_from_mask(routing)
                                          : row_map_from_indices(routing);
  r.per_expert = rows_per_expert(routing);
  return r;
}

std::vector<Routed> all_routings(DType dtype) {
  const std::int64_t tokens = total(tokens_of_ranks());
  return {routed(mask_routing(tokens), dtype),
          routed(index_routing(tokens, DType::kI32), dtype),
          routed(index_routing(tokens, DType::kI64), dtype)};
}

TEST(ExpertParallel, DispatchAndCombineAreThoseOfOneProcess) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Routed& r : all_routings(dtype)) {
      const std::int64_t tokens = r.map.tokens;
      const Tensor x = normal(dtype, {tokens, kHidden}, 1);
      const EpPlan plan = ep_prepare(own(r.routing), kExperts, *group());
      EXPECT_EQ(
          plan.tokens_per_expert,
          (Counts{r.per_expert.begin() + rank() * plan.local_experts,
                  r.per_expert.begin() + (rank() + 1) * plan.local_experts}));

      const Permuted one = moe_permute_forward(x, r.map, r.probs);
      const Permuted there =
          ep_dispatch_forward(own(x), plan, *group(), own(r.probs));
      expect_same_bits(there.rows, own_experts(one.rows, r.per_expert), "rows");
      expect_same_bits(there.probs, own_experts(one.probs, r.per_expert),
                       "probs");

      // What experts make of them, and the gradients of that.
      const Tensor y = normal(dtype, one.rows.shape(), 2);
      const Tensor d_out = normal(dtype, x.shape(), 5);
      const Tensor local_y = own_experts(y, r.per_expert);
      for (const bool weighted : {false, true}) {
        const auto probs =
            weighted ? std::optional(r.probs) : std::optional<Tensor>{};
        const auto own_probs =
            weighted ? std::optional(own(r.probs)) : std::optional<Tensor>{};
        const Tensor merged = moe_unpermute_forward(y, r.map, probs);
        const EpCombined combined =
            ep_combine_forward(local_y, plan, *group(), own_probs);
        expect_same_bits(combined.out, own(merged), "combined");
        const UnpermuteGradients g =
            moe_unpermute_backward(d_out, r.map, y, probs);
        const UnpermuteGradients back = ep_combine_backward(
            own(d_out), plan, *group(), combined.rows, own_probs);
        expect_same_bits(back.rows, own_experts(g.rows, r.per_expert), "d_y");
        if (weighted)
          expect_same_bits(back.merging_probs, own(g.merging_probs), "d_probs");
      }
      const Tensor d_probs = normal(dtype, {r.map.rows}, 6);
      const PermuteGradients g = moe_permute_backward(y, r.map, d_probs);
      const PermuteGradients back = ep_dispatch_backward(
          local_y, plan, *group(), own_experts(d_probs, r.per_expert));
      expect_same_bits(back.tokens, own(g.tokens), "d tokens");
      expect_same_bits(back.probs, own(g.probs), "d probs");
    }
}

// Every expert's rows are padded with zeros, and the padding is dropped again.
TEST(ExpertParallel, RowsOfExpertsArePadded) {
  const Routed r = all_routings(DType::kF32)[0];
  const Tensor x = normal(DType::kF32, {r.map.tokens, kHidden}, 1);
  const EpPlan plan = ep_prepare(own(r.routing), kExperts, *group(), 16);
  const EpPlan plain = ep_prepare(own(r.routing), kExperts, *group());
  for (std::int64_t e = 0; e < plan.local_experts; ++e) {
    const auto i = static_cast<std::size_t>(e);
    EXPECT_EQ(plan.padded_tokens_per_expert[i],
              (plain.tokens_per_expert[i] + 15) / 16 * 16);
  }
  const Tensor rows = ep_dispatch_forward(own(x), plan, *group()).rows;
  const Tensor dense = ep_dispatch_forward(own(x), plain, *group()).rows;
  ASSERT_EQ(rows.shape(),
            (Shape{total(plan.padded_tokens_per_expert), kHidden}));
  expect_same_bits(
      rows,
      pad_groups(dense, plan.tokens_per_expert, plan.padded_tokens_per_expert),
      "padded");
  expect_same_bits(ep_combine_forward(rows, plan, *group()).out,
                   ep_combine_forward(dense, plain, *group()).out, "combined");
  expect_same_bits(ep_dispatch_backward(rows, plan, *group()).tokens,
                   ep_dispatch_backward(dense, plain, *group()).tokens,
                   "d tokens");
  expect_same_bits(
      ep_combine_backward(own(x), plan, *group()).rows,
      pad_groups(ep_combine_backward(own(x), plain, *group()).rows,
                 plan.tokens_per_expert, plan.padded_tokens_per_expert),
      "d rows");
}

// One process quantises what its experts got; ranks send codes instead.
TEST(ExpertParallel, CodesTravelWithTheirScales) {
  const Routed r = all_routings(DType::kF32)[0];
  const Tensor x = normal(DType::kBF16, {r.map.tokens, 160}, 1);
  const auto reduction = group_amax_reduction(group());
  NVFP4Options fp4;
  fp4.amax_reduction = reduction;
  std::vector<std::pair<std::unique_ptr<Quantizer>, std::unique_ptr<Quantizer>>>
      all;
  all.emplace_back(
      std::make_unique<Block128Quantizer>(Block128Options{.block_dim = 1}),
      std::make_unique<Block128Quantizer>(Block128Options{.block_dim = 1}));
  all.emplace_back(std::make_unique<MXFP8Quantizer>(
                       DType::kE4M3FN, MXFP8Options{.partial_blocks = true}),
                   std::make_unique<MXFP8Quantizer>(
                       DType::kE4M3FN, MXFP8Options{.partial_blocks = true}));
  all.emplace_back(
      std::make_unique<CurrentScalingQuantizer>(
          CurrentScalingOptions{.amax_reduction = reduction}),
      std::make_unique<CurrentScalingQuantizer>(CurrentScalingOptions{}));
  const Usage rowwise{.rowwise = true, .columnwise = false};
  for (const auto& [parted, one] : all) {
    const EpPlan plan = ep_prepare(own(r.routing), kExperts, *group());
    const EpDispatchedCodes there =
        ep_dispatch_quantized(own(x), plan, *parted, *group());
    one->set_usage(rowwise);
    // One scale of the tensor: of all tokens, before they are copied.
    const QuantizedTensor whole = one->quantize(x);
    Tensor codes = moe_permute_forward(whole.rowwise->data, r.map).rows;
    expect_same_bits(there.rows.rowwise->data, own_experts(codes, r.per_expert),
                     "codes");
    const Tensor scales =
        whole.rowwise->mode == ScalingMode::kTensor
            ? whole.rowwise->scale_inv
            : own_experts(
                  moe_permute_forward(whole.rowwise->scale_inv, r.map).rows,
                  r.per_expert);
    expect_same_bits(there.rows.rowwise->scale_inv, scales, "scales");
    EXPECT_EQ(there.rows.shape, (Shape{plan.rows, 160}));
    EXPECT_TRUE(parted->usage().columnwise);
    // Block by block that is what quantising the rows that arrived gives.
    if (whole.rowwise->mode == ScalingMode::kTensor) continue;
    const Tensor rows = ep_dispatch_forward(own(x), plan, *group()).rows;
    expect_same_quantized(there.rows, one->quantize(rows), "requantised");
  }
}

TEST(ExpertParallel, Fp4CodesTravelUnderOneAmax) {
  const Counts tokens(static_cast<std::size_t>(ranks()), 16);
  const Tensor routing = index_routing(total(tokens), DType::kI32);
  const Tensor x = normal(DType::kBF16, {total(tokens), 32}, 1);
  NVFP4Options options;
  options.amax_reduction = group_amax_reduction(group());
  NVFP4Quantizer parted(options), one;
  const EpPlan plan =
      ep_prepare(part_by(routing, tokens), kExperts, *group(), 16);
  const EpDispatchedCodes there =
      ep_dispatch_quantized(part_by(x, tokens), plan, parted, *group());
  one.set_usage({.rowwise = true, .columnwise = false});
  const Tensor whole = dequantize(one.quantize(x), DType::kF32);
  const Tensor rows =
      ep_dispatch_forward(part_by(whole, tokens), plan, *group()).rows;
  expect_same_bits(dequantize(there.rows, DType::kF32), rows, "values");
}

TEST(ExpertParallel, ScalesThatRanksDoNotShareAreRefused) {
  if (ranks() == 1) return;
  const Routed r = all_routings(DType::kF32)[0];
  const EpPlan plan = ep_prepare(own(r.routing), kExperts, *group());
  CurrentScalingQuantizer quantizer({});
  const Tensor x = normal(DType::kF32, {plan.map.tokens, kHidden},
                          20 + static_cast<unsigned>(rank()));
  try {
    ep_dispatch_quantized(x, plan, quantizer, *group());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("must share"));
  }
}

// No rank has a token: nothing travels, and nothing is refused.
TEST(ExpertParallel, NoTokensAtAll) {
  const Tensor routing = Tensor::empty(DType::kBool, {0, kExperts});
  const EpPlan plan = ep_prepare(routing, kExperts, *group());
  const Tensor x = Tensor::empty(DType::kF32, {0, kHidden});
  EXPECT_EQ(ep_dispatch_forward(x, plan, *group()).rows.shape(),
            (Shape{0, kHidden}));
  EXPECT_EQ(ep_combine_forward(x, plan, *group()).out.shape(),
            (Shape{0, kHidden}));
}

TEST(ExpertParallel, MistakesOfOneRankAreErrorsOfAll) {
  const auto prepare = [](std::vector<double> ids, std::int64_t experts) {
    Tensor t =
        Tensor::empty(DType::kI32, {static_cast<std::int64_t>(ids.size()), 1});
    for (std::size_t i = 0; i < ids.size(); ++i)
      store_from_double(DType::kI32, ids[i], t.mutable_data(),
                        static_cast<std::int64_t>(i));
    return ep_prepare(t, experts, *group());
  };
  const int last = ranks() - 1;
  EXPECT_THAT(
      error_of([&] {
        prepare({1, rank() == last ? 8.0 : 2.0}, kExperts);
      }),
      HasSubstr("routing: 8 at [1, 0], expected an expert below 8, or -1"));
  EXPECT_THAT(error_of([&] {
                prepare({1, rank() == last ? -2.0 : 2.0}, kExperts);
              }),
              HasSubstr("-2 at [1, 0]"));
  EXPECT_THAT(error_of([&] { prepare({0}, 0); }), HasSubstr("experts: 0"));
  if (ranks() > 1) {
    EXPECT_THAT(error_of([&] { prepare({0}, ranks() + 1); }),
                HasSubstr("a multiple of " + std::to_string(ranks())));
    EXPECT_THAT(error_of([&] { prepare({0}, rank() == 0 ? 8 : 16); }),
                HasSubstr("rank"));
  }
  const EpPlan plan = prepare({0, 1}, kExperts);
  const Tensor two = normal(DType::kF32, {2, kHidden}, 1);
  const Tensor three = normal(DType::kF32, {3, kHidden}, 1);
  const Tensor bad = rank() == last ? three : two;
  EXPECT_NE(error_of([&] { ep_dispatch_forward(bad, plan, *group()); }),
            "no error");
  EXPECT_NE(error_of([&] { ep_combine_backward(bad, plan, *group()); }),
            "no error");
  const Tensor rows = normal(DType::kF32, {plan.rows, kHidden}, 1);
  const Tensor more = normal(DType::kF32, {plan.rows + 1, kHidden}, 1);
  const Tensor wrong = rank() == last ? more : rows;
  EXPECT_NE(error_of([&] { ep_combine_forward(wrong, plan, *group()); }),
            "no error");
  EXPECT_NE(error_of([&] { ep_dispatch_backward(wrong, plan, *group()); }),
            "no error");
}

}  // namespace
}  // namespace assay::te
