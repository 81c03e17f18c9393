// The plan of context parallelism: every pair that a mask keeps is in one call
// of one rank, and causal work is shared evenly.
#include "assay/te/parallel/context_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "assay/te/parallel/packet.h"
#include "tests/te/quantize/tensors.h"

namespace assay::te {
namespace {

using Pairs = std::map<std::pair<std::int64_t, std::int64_t>, int>;

std::vector<std::int64_t> items(const Tensor& t) {
  return {t.data<std::int32_t>(), t.data<std::int32_t>() + t.numel()};
}

// Positions in sequence b of the rows that a call takes, by its own tensors.
std::vector<std::int64_t> taken(const CutSide& side, Held held,
                                std::int64_t rank, std::int64_t b) {
  const auto lengths = items(cut_lengths(side, held, rank, Device::kCpu));
  const auto begins = items(cut_begins(side, held, Device::kCpu));
  const auto whole = items(cut_begins(side, Held::kBoth, Device::kCpu));
  const auto i = static_cast<std::size_t>(b);
  std::vector<std::int64_t> out;
  for (std::int64_t t = 0; t < lengths[i + 1] - lengths[i]; ++t) {
    const std::int64_t row = begins[i] + t - whole[i], chunk = side.chunk(b);
    const Held half = row < chunk ? Held::kFirst : Held::kSecond;
    out.push_back(chunk_of(half, rank, side.ranks) * chunk + row % chunk);
  }
  return out;
}

bool in_window(const AttentionOptions& o, std::int64_t i, std::int64_t j) {
  return (o.window_left < 0 || j >= i - o.window_left) &&
         (o.window_right < 0 || j <= i + o.window_right);
}

void add_pairs(const CutSide& q, const CutSide& kv, const AttentionOptions& o,
               const CutCall& call, std::int64_t rank, std::int64_t from,
               std::int64_t b, Pairs& pairs) {
  const auto queries = taken(q, call.q, rank, b);
  const auto keys = taken(kv, call.kv, from, b);
  for (std::size_t i = 0; i < queries.size(); ++i)
    for (std::size_t j = 0; j < keys.size(); ++j) {
      // As attention sees it: by position where chunks are placed, else by
      // row.
      const bool before = call.placed ? keys[j] <= queries[i] : j <= i;
      if (call.causal && !before) continue;
      if (call.placed && !in_window(o, queries[i], keys[j])) continue;
      ++pairs[{queries[i], keys[j]}];
    }
}

TEST(ContextCut, EveryPairIsInOneCall) {
  using enum AttentionMask;
  const std::vector<AttentionOptions> all = {
      {.mask = kNone},
      {.mask = kCausal},
      {.mask = kCausal, .window_left = 5},
      {.mask = kNone, .window_left = 2, .window_right = 9},
      {.mask = kCausal, .bias = AttentionBiasType::kAlibi}};
  for (const std::int64_t n : {1, 2, 3, 4})
    for (const AttentionOptions& o : all)
      for (const std::int64_t longer : {1, 2}) {
        const CutSide q{{8 * n, 2 * n, 0}, {7 * n, 1, 0}, n};
        const CutSide kv{{8 * n * longer, 2 * n, 2 * n}, {8 * n, 2, 1}, n};
        for (std::int64_t b = 0; b < 3; ++b) {
          Pairs pairs, expected;
          const auto i = static_cast<std::size_t>(b);
          for (std::int64_t rank = 0; rank < n; ++rank) {
            int sinks[2] = {0, 0};
            for (std::int64_t from = 0; from < n; ++from)
              for (const CutCall& call : cut_calls(q, kv, o, rank, from)) {
                add_pairs(q, kv, o, call, rank, from, b, pairs);
                sinks[0] += call.sink && call.q != Held::kSecond;
                sinks[1] += call.sink && call.q != Held::kFirst;
              }
            EXPECT_EQ(sinks[0], 1);
            EXPECT_EQ(sinks[1], 1);
          }
          for (std::int64_t x = 0; x < q.valid[i]; ++x)
            for (std::int64_t y = 0; y < kv.valid[i]; ++y)
              if ((o.mask == kNone || y <= x) && in_window(o, x, y))
                expected[{x, y}] = 1;
          EXPECT_EQ(pairs, expected) << "ranks " << n << " sequence " << b;
        }
      }
}

// What the two chunks are for: without them the last rank has n times the work
// of the first.
TEST(ContextCut, CausalWorkIsEven) {
  const CutSide side{{64}, {64}, 4};
  const AttentionOptions o{.mask = AttentionMask::kCausal};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    Pairs pairs;
    for (std::int64_t from = 0; from < 4; ++from)
      for (const CutCall& call : cut_calls(side, side, o, rank, from))
        add_pairs(side, side, o, call, rank, from, 0, pairs);
    EXPECT_EQ(pairs.size(), 64u * 65 / 2 / 4);
  }
}

// Chunks that a window cannot reach are not computed.
TEST(ContextCut, CallsWithoutAPairAreLeftOut) {
  const CutSide side{{64}, {64}, 4};
  const AttentionOptions o{.mask = AttentionMask::kCausal, .window_left = 7};
  std::size_t calls = 0;
  for (std::int64_t rank = 0; rank < 4; ++rank)
    for (std::int64_t from = 0; from < 4; ++from)
      calls += cut_calls(side, side, o, rank, from).size();
  // Each of 8 chunks with itself, and all but the first with the one before.
  EXPECT_EQ(calls, 8u + 7u);
}

TEST(Packet, PartsKeepTheirBytesAndLieAligned) {
  const Tensor a = normal(DType::kBF16, {3, 5}, 1);
  const Tensor none = Tensor::empty(DType::kF32, {0, 7});
  Tensor strided = normal(DType::kF32, {4, 6}, 2);
  strided.view.shape = {4, 3};
  strided.view.strides = {6, 2};
  const Packet p = Packet::of(std::vector<Tensor>{a, none, strided});
  EXPECT_EQ(p.bytes().size(), 64u + 0 + 64);
  expect_same_bits(p.part(0), a, "a");
  expect_same_bits(p.part(2), contiguous(strided), "strided");
  EXPECT_EQ(p.part(1).shape(), (Shape{0, 7}));
  // Over the bytes of another packet of the same form.
  const Packet q = p.like();
  std::copy(p.bytes().begin(), p.bytes().end(), q.bytes().begin());
  expect_same_bits(q.part(2), contiguous(strided), "arrived");
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ((q.part(i).data<std::byte>() - q.bytes().data()) % 64, 0);
  EXPECT_TRUE(Packet::of({}).bytes().empty());
}

}  // namespace
}  // namespace assay::te
