// The cache of keys and values: a prompt and then token by token is the whole
// sequence at once.
#include "assay/te/ops/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "assay/core/philox.h"
#include "assay/numerics/element.h"
#include "tests/te/ops/tensor_helpers.h"

namespace assay::te {
namespace {

constexpr std::int64_t kHeads = 2, kKDim = 8, kVDim = 6, kQHeads = 4;

KvCacheOptions options(bool paged) {
  KvCacheOptions o;
  o.layers = 2;
  o.max_batch = 3;
  o.max_length = 20;
  o.heads = kHeads;
  o.k_dim = kKDim;
  o.v_dim = kVDim;
  o.dtype = DType::kF32;
  o.paged = paged;
  o.page_size = 4;
  o.total_pages = 12;
  return o;
}

// Row `token` of sequence `id` in one of q, k, v: a function of its place.
void fill_row(float* to, std::int64_t n, std::int64_t id, std::int64_t token,
              std::uint64_t what) {
  PhiloxStream stream(what, static_cast<std::uint64_t>(id * 1000 + token));
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = static_cast<float>(stream.next_normal());
}

// [b, most, h, d] of tokens [before, length) of every sequence of the step.
Tensor tokens_of(const KvCache& cache, const std::vector<SequenceStep>& step,
                 std::int64_t heads, std::int64_t dim, std::uint64_t what,
                 QkvFormat format) {
  std::int64_t most = 0, all = 0;
  for (const SequenceStep& s : step) {
    most = std::max(most, s.tokens);
    all += s.tokens;
  }
  const auto b = static_cast<std::int64_t>(step.size());
  const bool packed = format == QkvFormat::kThd;
  Tensor t = Tensor::zeros(DType::kF32, packed ? Shape{all, heads, dim}
                                        : format == QkvFormat::kBshd
                                            ? Shape{b, most, heads, dim}
                                            : Shape{most, b, heads, dim});
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < b; ++i)
    for (std::int64_t n = 0; n < step[static_cast<std::size_t>(i)].tokens;
         ++n, ++row) {
      const std::int64_t at = packed                       ? row
                              : format == QkvFormat::kBshd ? i * most + n
                                                           : n * b + i;
      fill_row(t.mutable_data<float>() + at * heads * dim, heads * dim,
               step[static_cast<std::size_t>(i)].id, cache.length_before(i) + n,
               what);
    }
  return t;
}

void run_step(KvCache& cache, const std::vector<SequenceStep>& step,
              QkvFormat format) {
  cache.begin_step(step);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const auto what = static_cast<std::uint64_t>(layer) * 10;
    cache.append(layer, tokens_of(cache, step, kHeads, kKDim, what + 1, format),
                 tokens_of(cache, step, kHeads, kVDim, what + 2, format),
                 format);
  }
}

// What the cache must hold.
void expect_rows(const KvCache& cache, const std::vector<SequenceStep>& step) {
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const Tensor k = cache.keys(layer), v = cache.values(layer);
    const std::int64_t longest = k.shape()[1];
    for (std::int64_t b = 0; b < cache.batch(); ++b)
      for (std::int64_t t = 0; t < longest; ++t) {
        std::vector<float> row(kHeads * kKDim, 0.0f);
        std::vector<float> v_row(kHeads * kVDim, 0.0f);
        const std::int64_t id = step[static_cast<std::size_t>(b)].id;
        const auto what = static_cast<std::uint64_t>(layer) * 10;
        if (t < cache.length(b)) {
          fill_row(row.data(), kHeads * kKDim, id, t, what + 1);
          fill_row(v_row.data(), kHeads * kVDim, id, t, what + 2);
        }
        EXPECT_EQ(
            std::memcmp(row.data(),
                        k.data<float>() + (b * longest + t) * kHeads * kKDim,
                        row.size() * 4),
            0)
            << layer << " " << b << " " << t;
        EXPECT_EQ(
            std::memcmp(v_row.data(),
                        v.data<float>() + (b * longest + t) * kHeads * kVDim,
                        v_row.size() * 4),
            0);
      }
  }
}

TEST(KvCache, HoldsWhatWasAppended) {
  for (const bool paged : {false, true})
    for (const QkvFormat format :
         {QkvFormat::kBshd, QkvFormat::kSbhd, QkvFormat::kThd}) {
      KvCache cache(options(paged));
      std::vector<SequenceStep> step = {{7, 5}, {3, 8}};
      run_step(cache, step, format);
      expect_rows(cache, step);
      // Another order, one token each, a new sequence.
      step = {{3, 1}, {9, 4}, {7, 1}};
      run_step(cache, step, format);
      EXPECT_EQ(cache.length_before(0), 8);
      EXPECT_EQ(cache.length(2), 6);
      expect_rows(cache, step);
      // 3 is finished; its pages go to 11.
      step = {{7, 1}, {11, 12}};
      run_step(cache, step, format);
      expect_rows(cache, step);
    }
}

TEST(KvCache, PagesAreFreedAndNamed) {
  KvCache cache(options(true));
  cache.begin_step(std::vector<SequenceStep>{{1, 5}, {2, 4}});
  EXPECT_EQ(cache.free_pages(), 9);
  const Tensor table = cache.page_table();
  EXPECT_EQ(table.shape(), (Shape{2, 2}));
  const std::int32_t expected[] = {0, 1, 2, -1};
  EXPECT_EQ(std::memcmp(table.data<std::int32_t>(), expected, 16), 0);
  cache.begin_step(std::vector<SequenceStep>{{2, 1}});
  EXPECT_EQ(cache.free_pages(), 10);
}

// A prompt of 6, then one token at a time, against the causal attention of the
// whole sequence.
TEST(KvCache, StepsAreTheWholeSequence) {
  for (const bool paged : {false, true}) {
    KvCache cache(options(paged));
    AttentionInputs whole;
    const auto rows = [](std::int64_t heads, std::int64_t dim,
                         std::uint64_t what) {
      Tensor t = Tensor::empty(DType::kF32, {12, 1, heads, dim});
      for (std::int64_t i = 0; i < 12; ++i)
        fill_row(t.mutable_data<float>() + i * heads * dim, heads * dim, 4, i,
                 what);
      return t;
    };
    whole.q = rows(kQHeads, kKDim, 3);
    whole.k = rows(kHeads, kKDim, 1);
    whole.v = rows(kHeads, kVDim, 2);
    const Tensor expected = attention_forward(whole, {}).out;
    for (std::int64_t at = 0; at < 12; at += at == 0 ? 6 : 1) {
      const std::vector<SequenceStep> step = {{4, at == 0 ? 6 : 1}, {5, 2}};
      run_step(cache, step, QkvFormat::kBshd);
      const AttentionResult r = attention_over_cache(
          cache, 0, tokens_of(cache, step, kQHeads, kKDim, 3, QkvFormat::kBshd),
          {.q_format = QkvFormat::kBshd,
           .mask = AttentionMask::kPaddingCausalBottomRight});
      for (std::int64_t i = 0; i < step[0].tokens * kQHeads * kVDim; ++i)
        EXPECT_NEAR(r.out.data<float>()[i],
                    expected.data<float>()[at * kQHeads * kVDim + i], 2e-6)
            << "token " << at;
    }
  }
}

TEST(KvCache, StepsThatDoNotFitChangeNothing) {
  KvCache cache(options(true));
  const auto begin = [&](std::vector<SequenceStep> step) {
    return message([&] { cache.begin_step(step); });
  };
  cache.begin_step(std::vector<SequenceStep>{{1, 15}});
  EXPECT_EQ(begin({{1, 6}}),
            "kv_cache: step: sequence 1 of 21 tokens, expected at most 20");
  EXPECT_EQ(begin({{1, 1}, {1, 1}}),
            "kv_cache: step: sequence 1 twice, expected every one once");
  EXPECT_EQ(begin({{1, 5}, {2, 20}, {3, 20}}),
            "kv_cache: step: 15 pages, expected the 12 there are");
  EXPECT_EQ(begin({{1, 0}, {2, 0}, {3, 0}, {4, 0}}),
            "kv_cache: step: 4 sequences, expected at most 3");
  EXPECT_EQ(cache.batch(), 1);
  EXPECT_EQ(cache.length(0), 15);
  EXPECT_EQ(message([&] { cache.keys(2); }),
            "kv_cache: layer: 2, expected below 2");
  EXPECT_NE(message([&] {
              cache.append(0, Tensor::zeros(DType::kF32, {1, 14, 2, 8}),
                           Tensor::zeros(DType::kF32, {1, 14, 2, 6}),
                           QkvFormat::kBshd);
            }).find("up to 15 new tokens of 2 x 8"),
            std::string::npos);
}

}  // namespace
}  // namespace assay::te
