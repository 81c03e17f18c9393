// Arguments that would size memory, index past it or be read as what they are
// not: every one is an Error that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "assay/te/ops/attention.h"
#include "assay/te/ops/cross_entropy.h"
#include "assay/te/ops/gemm.h"
#include "assay/te/ops/grouped_gemm.h"
#include "assay/te/ops/kv_cache.h"
#include "assay/te/ops/pad.h"
#include "assay/te/ops/permute.h"
#include "assay/te/ops/rope.h"
#include "assay/te/ops/router.h"
#include "assay/te/ops/sequence.h"
#include "assay/te/ops/split.h"
#include "assay/te/quantize/mxfp8.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kQuarter = std::int64_t{1} << 62;
// Four quarters wrap to 0: without a check the sum is 4.
const std::vector<std::int64_t> kWraps = {kQuarter, kQuarter, kQuarter,
                                          kQuarter, 4};

template <typename Call>
std::string message(Call call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

Tensor offsets(const std::vector<double>& values) {
  return make_tensor(values, {static_cast<std::int64_t>(values.size())},
                     DType::kI32);
}

// The elements of `t` at twice the distance, with `junk` between.
Tensor spread(const Tensor& t, double junk) {
  std::vector<double> wide;
  for (double v : values_of(t)) {
    wide.push_back(v);
    wide.push_back(junk);
  }
  Shape shape = t.shape();
  shape.back() *= 2;
  Tensor out = make_tensor(wide, shape, t.dtype());
  out.view.shape = t.shape();
  out.view.strides = contiguous_strides(t.shape());
  for (auto& stride : out.view.strides) stride *= 2;
  return out;
}

TEST(Arguments, SplitsThatWrap) {
  const Tensor x = normal_tensor({4, 8}, DType::kF32, 1);
  Tensor out = normal_tensor({4, 8}, DType::kF32, 1);
  const Tensor bias = normal_tensor({5, 8}, DType::kF32, 2);
  const Tensor empty = Tensor::empty(DType::kF32, {4, 0});
  const std::vector<std::int64_t> order = {0, 1, 2, 3, 4},
                                  five = {4, 0, 0, 0, 0};
  EXPECT_THAT(message([&] { grouped_bias_add(out, bias, kWraps, nullptr); }),
              HasSubstr("grouped_bias_add: splits: "));
  EXPECT_THAT(message([&] { split_rows(x, kWraps); }), HasSubstr("splits: "));
  EXPECT_THAT(message([&] { split_rows(empty, kWraps); }),
              HasSubstr("splits: "));
  EXPECT_THAT(message([&] { split(x, kWraps, 0); }), HasSubstr("sizes: "));
  EXPECT_THAT(message([&] { pad_groups(x, kWraps, kWraps); }),
              HasSubstr("pad_groups: rows: "));
  EXPECT_THAT(message([&] { unpad_groups(x, kWraps, kWraps); }),
              HasSubstr("unpad_groups: rows: "));
  EXPECT_THAT(message([&] { pad_groups(x, five, kWraps); }),
              HasSubstr("pad_groups: padded_rows: "));
  const std::vector<std::int64_t> four = {4}, quarter = {kQuarter};
  EXPECT_NE(message([&] { pad_groups(x, four, quarter); }), "no error");
  EXPECT_THAT(message([&] { moe_sort_chunks_forward(x, kWraps, order); }),
              HasSubstr("moe_sort_chunks_forward: split_sizes: "));
  EXPECT_THAT(message([&] { moe_sort_chunks_backward(x, kWraps, order); }),
              HasSubstr("moe_sort_chunks_backward: split_sizes: "));
  const std::vector<std::int64_t> much = {kQuarter}, first = {0};
  EXPECT_THAT(message([&] { moe_sort_chunks_forward(x, much, first); }),
              HasSubstr("moe_sort_chunks_forward: x: "));
}

TEST(Arguments, RowMapAlignment) {
  const Tensor map = make_tensor({1, 1, 1, 1, 1, 1}, {1, 6}, DType::kU8);
  for (std::int64_t alignment : {kQuarter, kMost, std::int64_t{1} << 31})
    EXPECT_THAT(message([&] { row_map_from_mask(map, -1, alignment); }),
                HasSubstr("row_map_from_mask: alignment: "));
  // Each fits, six do not.
  EXPECT_THAT(message([&] { row_map_from_mask(map, -1, (1LL << 31) - 1); }),
              HasSubstr("permuted rows: "));
}

TEST(Arguments, SequenceLengths) {
  const Tensor x = normal_tensor({4, 8}, DType::kF32, 1);
  const Tensor one = offsets({0, 4}), none = offsets({0, 0});
  const Tensor long_one = offsets({0, 2147483647});
  const Tensor nothing = Tensor::empty(DType::kF32, {0, 8});
  for (std::int64_t length : {std::int64_t{1} << 61, kMost})
    EXPECT_NE(message([&] { thd_to_bshd(x, one, length); }), "no error");
  EXPECT_THAT(message([&] { thd_to_bshd(x, one, -1); }),
              HasSubstr("thd_to_bshd: max_length: -1"));
  EXPECT_THAT(message([&] { thd_to_bshd(x, long_one, 2147483647); }),
              HasSubstr("thd_to_bshd: x: 4 tokens"));
  EXPECT_THAT(message([&] { thd_read_half(x, long_one, 0); }),
              HasSubstr("thd_read_half: "));
  for (std::int64_t world : {kMost, kQuarter, std::int64_t{0}, -kMost - 1}) {
    EXPECT_THAT(message([&] { thd_to_rank_order(x, one, world); }),
                HasSubstr("thd_to_rank_order: world: "));
    EXPECT_THAT(message([&] { thd_from_rank_order(x, one, world); }),
                HasSubstr("thd_from_rank_order: world: "));
    EXPECT_THAT(message([&] { thd_partition_indices(one, world, 0); }),
                HasSubstr("thd_partition_indices: world: "));
  }
  // Nothing to place: done at once for any number of ranks.
  EXPECT_EQ(thd_to_rank_order(nothing, none, 2147483647).numel(), 0);
  EXPECT_THAT(message([&] { thd_to_bshd(on(Device::kReference, x), one, 4); }),
              HasSubstr("thd_to_bshd: device: "));
  EXPECT_THAT(message([&] { bshd_to_thd(x, none); }),
              HasSubstr("bshd_to_thd: x: shape [4, 8], expected 1 sequences"));
}

TEST(Arguments, AlibiHeads) {
  for (std::int64_t heads : {kQuarter, std::int64_t{-1}})
    EXPECT_THAT(message([&] { alibi_slopes(heads); }),
                HasSubstr("alibi_slopes: heads: "));
  EXPECT_EQ(alibi_slopes(8).size(), 8u);
}

TEST(Arguments, PreGeluIsHighPrecision) {
  const Tensor a = normal_tensor({8, 16}, DType::kF32, 1);
  const Tensor b = normal_tensor({4, 16}, DType::kF32, 2);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool fine =
        dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
    GemmOptions o{.gelu = true, .pre_gelu_dtype = dtype};
    const auto text = message([&] { gemm(a, b, GemmLayout::kTN, o); });
    if (fine)
      EXPECT_EQ(text, "no error");
    else
      EXPECT_THAT(text, HasSubstr("gemm: pre_gelu_dtype: "));
    o = {.out_dtype = dtype};
    const auto out = message([&] { gemm(a, b, GemmLayout::kTN, o); });
    EXPECT_EQ(out == "no error", fine) << out;
    const Tensor other = Tensor::zeros(dtype, {4, 8});
    o = {.dgelu_input = &other};
    EXPECT_EQ(message([&] { gemm(a, b, GemmLayout::kTN, o); }) == "no error",
              fine);
    o = {.beta = 1, .c = &other};
    EXPECT_EQ(message([&] { gemm(a, b, GemmLayout::kTN, o); }) == "no error",
              fine);
  }
}

TEST(Arguments, OneDevice) {
  const Tensor w = normal_tensor({32, 32}, DType::kF32, 1);
  const QuantizedTensor q = MXFP8Quantizer(DType::kE4M3FN).quantize(w);
  const Tensor bias =
      on(Device::kReference, normal_tensor({32}, DType::kF32, 2));
  GemmOptions o{.bias = &bias};
  const auto device = HasSubstr("device: tensors on ");
  EXPECT_THAT(message([&] { gemm(q, q, GemmLayout::kTN, o); }), device);
  EXPECT_THAT(message([&] { gemm(w, w, GemmLayout::kTN, o); }), device);
  Tensor d = on(Device::kReference, Tensor::zeros(DType::kF32, {32, 32}));
  EXPECT_THAT(message([&] { gemm_into(d, q, q, GemmLayout::kTN, {}); }),
              device);
  EXPECT_THAT(message([&] { gemm_into(d, w, w, GemmLayout::kTN, {}); }),
              device);

  const RowMap map =
      row_map_from_mask(make_tensor({1, 0, 0, 1}, {2, 2}, DType::kU8));
  const Tensor x = normal_tensor({2, 8}, DType::kF32, 1);
  const Tensor far = on(Device::kReference, x);
  const Tensor probs =
      on(Device::kReference, normal_tensor({2}, DType::kF32, 1));
  EXPECT_THAT(message([&] { moe_permute_forward(far, map); }), device);
  EXPECT_THAT(message([&] { moe_permute_backward(far, map); }), device);
  EXPECT_THAT(message([&] { moe_unpermute_forward(far, map); }), device);
  EXPECT_THAT(message([&] { moe_unpermute_backward(far, map); }), device);
  EXPECT_THAT(message([&] { moe_permute_backward(x, map, probs); }), device);
}

TEST(Arguments, KvCacheTakesBothOrNeither) {
  const auto refused = message([] {
    KvCache({.max_batch = 1,
             .max_length = 4,
             .heads = 1,
             .k_dim = 2,
             .v_dim = 2,
             .dtype = DType::kE2M1});
  });
  EXPECT_THAT(refused, HasSubstr("kv_cache: dtype: float4_e2m1fn"));

  KvCache cache({.max_batch = 1,
                 .max_length = 4,
                 .heads = 1,
                 .k_dim = 2,
                 .v_dim = 2,
                 .dtype = DType::kF32});
  const std::vector<SequenceStep> step = {{.id = 1, .tokens = 1}};
  cache.begin_step(step);
  const Tensor k = make_tensor({1, 2}, {1, 1, 1, 2});
  const Tensor other = make_tensor({5, 6}, {1, 1, 1, 2});
  cache.append(0, k, k, QkvFormat::kBshd);
  const Tensor wrong = Tensor::zeros(DType::kF32, {1, 1, 1, 3});
  EXPECT_THAT(message([&] { cache.append(0, other, wrong, QkvFormat::kBshd); }),
              HasSubstr("kv_cache: v: shape [1, 1, 1, 3]"));
  EXPECT_THAT(message([&] {
                cache.append(0, other, on(Device::kReference, k),
                             QkvFormat::kBshd);
              }),
              HasSubstr("kv_cache: v: a tensor on "));
  EXPECT_TRUE(same_bits(cache.keys(0), k));
}

TEST(Arguments, QuantileBins) {
  const Tensor logits = make_tensor({4, 1, -1, -4}, {1, 4});
  const Tensor bias = make_tensor({0, 0, 0, 0}, {4});
  const Tensor bounds = make_tensor({-1, 0}, {2});
  for (std::int64_t bins :
       {std::int64_t{0}, (std::int64_t{1} << 24) + 1, std::int64_t{1} << 25,
        std::int64_t{1} << 31, kMost})
    EXPECT_THAT(message([&] {
                  router_quantile_forward(logits, 1, bias, bounds, bins);
                }),
                HasSubstr("router_quantile_forward: bins: "));
  // Scores below the cutoff need more than the upper bound: the last bin.
  const std::int64_t most = std::int64_t{1} << 24;
  const Tensor counts =
      router_quantile_forward(logits, 1, bias, bounds, most).histogram;
  EXPECT_EQ(counts.data<std::int32_t>()[3 * most + most - 1], 1);

  const auto spread_out =
      router_quantile_forward(logits, 1, bias, spread(bounds, -7), 8);
  const auto dense = router_quantile_forward(logits, 1, bias, bounds, 8);
  EXPECT_TRUE(same_bits(spread_out.histogram, dense.histogram));
  EXPECT_THAT(message([&] {
                router_quantile_forward(logits, 1, bias,
                                        on(Device::kReference, bounds), 8);
              }),
              HasSubstr("router_quantile_forward: device: "));
}

TEST(Arguments, CrossEntropyStats) {
  const Tensor logits = normal_tensor({3, 5}, DType::kF32, 1);
  const Tensor target = make_tensor({0, 4, 2}, {3}, DType::kI64);
  const Tensor ones = make_tensor({1, 1, 1}, {3});
  CrossEntropyResult r = cross_entropy_forward(logits, target, {});
  const Tensor expected = cross_entropy_backward(ones, logits, target, r, {});
  const Tensor stats = r.stats;
  r.stats = spread(stats, 100);
  EXPECT_TRUE(
      same_bits(cross_entropy_backward(ones, logits, target, r, {}), expected));
  r.stats = Tensor::zeros(DType::kBF16, {3, 2});
  EXPECT_THAT(
      message([&] { cross_entropy_backward(ones, logits, target, r, {}); }),
      HasSubstr("cross_entropy_backward: stats: bfloat16"));
}

TEST(Arguments, CrossEntropyVocabulary) {
  const Tensor logits = normal_tensor({1, 5}, DType::kF32, 1);
  const Tensor target = make_tensor({0}, {1}, DType::kI64);
  const auto error = [&](std::int64_t offset, std::int64_t size) {
    return message([&] {
      cross_entropy_forward(logits, target,
                            {.vocab_offset = offset, .vocab_size = size});
    });
  };
  EXPECT_THAT(error(kMost - 2, kMost), HasSubstr("vocab_offset: "));
  EXPECT_THAT(error(-1, kMost), HasSubstr("vocab_offset: "));
  EXPECT_THAT(error(0, 4), HasSubstr("vocab_offset: "));
  EXPECT_THAT(error(0, -5), HasSubstr("vocab_size: -5"));
  EXPECT_EQ(error(0, 5), "no error");
}

TEST(Arguments, RopePositions) {
  const Tensor freqs = rope_frequencies({.dim = 4}, 16);
  const Tensor x = normal_tensor({4, 2, 1, 4}, DType::kF32, 1);
  for (double start : {-1.0, -2.0})
    EXPECT_THAT(
        message([&] {
          rope_forward(x, freqs, {.start_positions = offsets({0, start})});
        }),
        HasSubstr("rope_forward: start_positions: -"));
  const Tensor packed = normal_tensor({8, 1, 4}, DType::kF32, 1);
  const auto error = [&](const Tensor& cu, std::int64_t ranks) {
    return message([&] {
      const Tensor part = normal_tensor({8 / ranks, 1, 4}, DType::kF32, 1);
      rope_forward(
          part, freqs,
          {.format = QkvFormat::kThd, .cp_size = ranks, .cu_seqlens = cu});
    });
  };
  EXPECT_THAT(error(offsets({-1, 8}), 1), HasSubstr("cu_seqlens: -1"));
  EXPECT_THAT(error(offsets({-1, 8}), 2), HasSubstr("cu_seqlens: -1"));
  EXPECT_THAT(error(offsets({0, 5, 8}), 2), HasSubstr("cu_seqlens: 5"));
  EXPECT_THAT(error(offsets({0, 6, 8}), 2), HasSubstr("cu_seqlens: 6"));
  EXPECT_EQ(error(offsets({0, 4, 8}), 2), "no error");
  EXPECT_EQ(error(offsets({0, 5, 8}), 1), "no error");
  EXPECT_THAT(error(on(Device::kReference, offsets({0, 4, 8})), 1),
              HasSubstr("rope_forward: device: "));
}

}  // namespace
}  // namespace assay::te
