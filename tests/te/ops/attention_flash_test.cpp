// Tiled attention on every instruction set against the plain loops in fp64.
#include "assay/te/ops/attention_flash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "assay/base/parallel.h"
#include "tests/te/ops/attention_heads.h"

namespace assay::te {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The part of the error that belongs to the tiles: bf16 elements round p (and
// dS) to 2^-9 relative; fp32 sums and exponentials cost a few 2^-22.
double tile_error(const AttentionTileChoice& tiles, DType dtype) {
  return tiles.fast->element_bytes == 2 && dtype == DType::kBF16 ? 0x1p-8
                                                                 : 4e-6;
}

// What the plain loops give for one head, once for all tables.
struct Expected {
  HeadForward forward, magnitude;  // magnitude: with |v|
  HeadBackward backward;
};

Expected expected_of(OwnedHead& h) {
  Expected e;
  e.forward = run_forward(h, nullptr);
  e.backward = run_backward(h, e.forward, nullptr);
  const Values saved = h.v;
  for (std::int64_t j = 0; j < h.head.keys; ++j)
    for (std::int64_t d = 0; d < h.head.v_dim; ++d)
      h.v.set(j, d, std::fabs(saved.at(j, d)));
  e.magnitude = run_forward(h, nullptr);
  h.v = saved;
  h.point();
  return e;
}

void expect_row_term(float got, float ref) {
  if (ref > -1e30f)
    EXPECT_NEAR(got, ref, 1e-5);
  else
    EXPECT_EQ(got, ref);
}

// |out - ref| against tile_error * sum p |v|, plus one rounding of out.
void expect_forward(const OwnedHead& h, const Expected& e,
                    const AttentionTileChoice& tiles) {
  const HeadForward& ref = e.forward;
  const HeadForward got = run_forward(h, &tiles);
  const double error = tile_error(tiles, h.head.dtype);
  const double u = unit_roundoff(h.head.dtype);
  for (std::int64_t i = 0; i < h.head.queries; ++i) {
    const auto r = static_cast<std::size_t>(i);
    expect_row_term(got.lse[r], ref.lse[r]);
    expect_row_term(got.row_max[r], ref.row_max[r]);
    for (std::int64_t d = 0; d < h.head.v_dim; ++d) {
      const double bound = error * e.magnitude.out.at(i, d) +
                           2 * u * std::fabs(ref.out.at(i, d)) + 1e-7;
      ASSERT_NEAR(got.out.at(i, d), ref.out.at(i, d), bound)
          << tiles.fast->isa << " [" << i << ", " << d << "]";
    }
  }
}

void expect_close(const std::vector<float>& got, const std::vector<float>& ref,
                  double error, const std::string& what) {
  double scale = 0;
  for (float x : ref) scale = std::max(scale, std::fabs(double{x}));
  ASSERT_EQ(got.size(), ref.size());
  for (std::size_t i = 0; i < ref.size(); ++i)
    ASSERT_NEAR(got[i], ref[i], error * scale + 4e-6) << what << " at " << i;
}

// Against the greatest value of each gradient: dS cancels, so that no element
// has a bound of its own size.
void expect_backward(const OwnedHead& h, const Expected& e,
                     const AttentionTileChoice& tiles) {
  const HeadBackward& ref = e.backward;
  const HeadBackward got = run_backward(h, e.forward, &tiles);
  const double error = 2 * tile_error(tiles, h.head.dtype) + 1e-5;
  const std::string isa = tiles.fast->isa;
  expect_close(got.dq, ref.dq, error, isa + " dq");
  expect_close(got.dk, ref.dk, error, isa + " dk");
  expect_close(got.dv, ref.dv, error, isa + " dv");
  // dS itself is never rounded to bf16 on its way to the bias.
  expect_close(got.d_bias, ref.d_bias, 4e-5, isa + " d_bias");
  EXPECT_NEAR(got.d_sink, ref.d_sink, 1e-4 * (1 + std::fabs(ref.d_sink)));
}

void expect_same(OwnedHead& h) {
  const Expected e = expected_of(h);
  for (const AttentionTileChoice& tiles : all_choices()) {
    if (tiles.fast->element_bytes == 2 && h.head.dtype != DType::kBF16)
      continue;
    expect_forward(h, e, tiles);
    expect_backward(h, e, tiles);
    if (testing::Test::HasFatalFailure()) return;
  }
}

constexpr DType kDTypes3[] = {DType::kF32, DType::kBF16, DType::kF16};

TEST(AttentionFlash, EveryTableOfThisMachineIsListedOnce) {
  for (const AttentionTiles* a : all_attention_tiles())
    for (const AttentionTiles* b : all_attention_tiles())
      EXPECT_TRUE(a == b || std::string(a->isa) != b->isa);
}

TEST(AttentionFlash, F45_LengthsOnAndBesideTheTiles) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const std::int64_t keys : {1, 31, 32, 33, 63, 64, 65, 127, 128, 129})
      for (const std::int64_t queries : {1, 16, 17, 64, 65}) {
        OwnedHead h(dtype, queries, keys, 64, 64,
                    static_cast<std::uint64_t>(keys * 100 + queries));
        expect_same(h);
      }
}

TEST(AttentionFlash, F45_LongKeys) {
  for (const std::int64_t keys : {255, 256, 257, 512}) {
    OwnedHead h(DType::kBF16, 70, keys, 64, 64);
    expect_same(h);
    const HeadForward f = run_forward(h, &all_choices()[0]);
    for (std::int64_t i = 0; i < 70; ++i)
      EXPECT_TRUE(std::isfinite(f.out.at(i, 0))) << keys;
  }
}

TEST(AttentionFlash, DimsOfAnySize) {
  for (const DType dtype : kDTypes3)
    for (const auto& [qk, v] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                {7, 33},
                                {31, 8},
                                {32, 64},
                                {80, 96},
                                {128, 128},
                                {192, 128}}) {
      OwnedHead h(dtype, 40, 70, qk, v);
      expect_same(h);
    }
}

TEST(AttentionFlash, WindowsAndDiagonals) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const std::int64_t offset : {-40, 0, 3, 60})
      for (const auto& [left, right] :
           {std::pair<std::int64_t, std::int64_t>{-1, 0},
            {5, 0},
            {70, 9},
            {0, 0},
            {-1, 4}}) {
        OwnedHead h(dtype, 131, 140, 32, 32);
        if (left >= 0) h.head.low = offset - left;
        h.head.high = offset + right;
        expect_same(h);
      }
}

TEST(AttentionFlash, ArbitraryMasks) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    OwnedHead h(dtype, 70, 129, 40, 24);
    h.add_mask();
    h.head.high = 60;
    expect_same(h);
  }
}

TEST(AttentionFlash, BiasesOfEveryKind) {
  for (const DType dtype : kDTypes3)
    for (const DType bias : kDTypes3) {
      OwnedHead h(dtype, 66, 70, 32, 32);
      h.add_bias(bias);
      h.head.bias.scale = 0.5f;
      h.head.bias.slope = 0.25f;
      h.head.bias.offset = 4;
      h.head.high = 4;
      expect_same(h);
    }
}

TEST(AttentionFlash, Sinks) {
  for (const float sink : {0.0f, 3.5f, -90.0f, 90.0f}) {
    OwnedHead h(DType::kF32, 66, 70, 32, 32);
    h.head.has_sink = true;
    h.head.sink = sink;
    h.head.high = 0;
    expect_same(h);
  }
}

TEST(AttentionFlash, Dropout) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    OwnedHead h(dtype, 70, 133, 32, 32);
    h.head.dropout = {.draw = {.seed = 7, .offset = 4, .threshold = 80},
                      .keep_scale = 1.5f,
                      .first = 1000003,
                      .row = 133};
    h.head.high = 30;
    expect_same(h);
  }
}

TEST(AttentionFlash, NegativeScale) {
  OwnedHead h(DType::kBF16, 70, 133, 32, 32);
  h.head.scale = -0.3f;
  expect_same(h);
}

// Logits of hundreds: the running maximum moves by far more than fp32's range
// of exponents.
TEST(AttentionFlash, LargeLogits) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    OwnedHead h(dtype, 64, 200, 32, 32);
    h.head.scale = 16.0f;
    for (const AttentionTileChoice& tiles : all_choices()) {
      const HeadForward f = run_forward(h, &tiles);
      const HeadForward ref = run_forward(h, nullptr);
      for (std::int64_t i = 0; i < 64; ++i)
        for (std::int64_t d = 0; d < 32; ++d)
          ASSERT_NEAR(f.out.at(i, d), ref.out.at(i, d), 0.02)
              << tiles.fast->isa;
    }
  }
}

// No key: zeros, -inf, no gradient.
TEST(AttentionFlash, T11_RowsWithoutKeysAreZero) {
  for (const DType dtype : kDTypes3) {
    OwnedHead h(dtype, 70, 66, 32, 32);
    h.head.high = -20;  // the first twenty queries see nothing
    expect_same(h);
    for (const AttentionTileChoice& tiles : all_choices()) {
      const HeadForward f = run_forward(h, &tiles);
      const HeadBackward b = run_backward(h, f, &tiles);
      EXPECT_EQ(f.lse[19], -std::numeric_limits<float>::infinity());
      EXPECT_GT(f.lse[20], -100);
      for (std::int64_t d = 0; d < 32; ++d) {
        EXPECT_EQ(f.out.at(19, d), 0);
        EXPECT_EQ(b.dq[static_cast<std::size_t>(19 * 32 + d)], 0);
      }
      for (float x : b.dk) EXPECT_TRUE(std::isfinite(x));
    }
  }
}

TEST(AttentionFlash, NoKeysAndNoQueries) {
  for (const AttentionTileChoice& tiles : all_choices()) {
    OwnedHead none(DType::kBF16, 3, 0, 8, 8);
    const HeadForward f = run_forward(none, &tiles);
    for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(f.out.at(i, 7), 0);
    const HeadBackward b = run_backward(none, f, &tiles);
    for (float x : b.dq) EXPECT_EQ(x, 0);
    OwnedHead nobody(DType::kBF16, 0, 3, 8, 8);
    const HeadBackward n =
        run_backward(nobody, run_forward(nobody, &tiles), &tiles);
    for (float x : n.dk) EXPECT_EQ(x, 0);
    for (float x : n.dv) EXPECT_EQ(x, 0);
  }
}

// The contract: an excluded pair takes no part, whatever stands there.
TEST(AttentionFlash, F37_NaNInAMaskedKeyStaysThere) {
  for (const DType dtype : kDTypes3) {
    OwnedHead h(dtype, 70, 70, 32, 32);
    h.head.high = 0;
    for (std::int64_t d = 0; d < 32; ++d) {
      h.k.set(69, d, kInf);
      h.v.set(69, d, std::nan(""));
    }
    for (const AttentionTileChoice& tiles : all_choices()) {
      const HeadForward f = run_forward(h, &tiles);
      const HeadBackward b = run_backward(h, f, &tiles);
      for (std::int64_t i = 0; i < 69; ++i)
        for (std::int64_t d = 0; d < 32; ++d) {
          ASSERT_TRUE(std::isfinite(f.out.at(i, d))) << tiles.fast->isa << i;
          const auto at = static_cast<std::size_t>(i * 32 + d);
          ASSERT_TRUE(std::isfinite(b.dq[at])) << tiles.fast->isa << i;
        }
      // The query that sees it gets it, and its gradient.
      EXPECT_TRUE(std::isnan(f.out.at(69, 0)));
      EXPECT_TRUE(std::isnan(b.dq[69 * 32]));
    }
    const HeadForward plain = run_forward(h, nullptr);
    EXPECT_TRUE(std::isfinite(plain.out.at(68, 0)));
    EXPECT_TRUE(std::isnan(plain.out.at(69, 0)));
  }
}

TEST(AttentionFlash, NaNQueryIsANaNRowAlone) {
  OwnedHead h(DType::kBF16, 70, 70, 32, 32);
  h.q.set(5, 0, std::nan(""));
  for (const AttentionTileChoice& tiles : all_choices()) {
    const HeadForward f = run_forward(h, &tiles);
    EXPECT_TRUE(std::isnan(f.out.at(5, 31))) << tiles.fast->isa;
    EXPECT_TRUE(std::isfinite(f.out.at(4, 31)));
    EXPECT_TRUE(std::isfinite(f.out.at(6, 31)));
  }
}

// -3.4028e38 on every logit of a row, and scores that overflow under it.
TEST(AttentionFlash, F38_GreatestNegativeMaskIsNoNaN) {
  OwnedHead h(DType::kF32, 4, 8, 2, 4);
  h.add_bias(DType::kF32);
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t j = 0; j < 8; ++j)
      h.bias.set(i, j, -std::numeric_limits<float>::max());
  h.head.scale = 1;
  for (std::int64_t d = 0; d < 2; ++d) {
    for (std::int64_t i = 0; i < 4; ++i) h.q.set(i, d, i < 2 ? 1.0 : 1e16);
    for (std::int64_t j = 0; j < 8; ++j) h.k.set(j, d, -1e16);
  }
  const HeadForward plain = run_forward(h, nullptr);
  for (const AttentionTileChoice& tiles : all_choices()) {
    const HeadForward f = run_forward(h, &tiles);
    const HeadBackward b = run_backward(h, f, &tiles);
    for (std::int64_t i = 0; i < 4; ++i)
      for (std::int64_t d = 0; d < 4; ++d) {
        EXPECT_TRUE(std::isfinite(f.out.at(i, d))) << tiles.fast->isa;
        EXPECT_NEAR(f.out.at(i, d), plain.out.at(i, d), 1e-6);
      }
    for (float x : b.dq) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST(AttentionFlash, BiasOfMinusInfinityExcludes) {
  OwnedHead h(DType::kF32, 70, 70, 32, 32);
  h.add_bias(DType::kBF16);
  for (std::int64_t i = 0; i < 70; ++i)
    for (std::int64_t j = 0; j < 70; ++j)
      if ((i + j) % 3 == 0 || i == 7) h.bias.set(i, j, -kInf);
  expect_same(h);
}

// A unit that flushes subnormals must not see them.
TEST(AttentionFlash, SubnormalsAreKept) {
  OwnedHead h(DType::kBF16, 16, 64, 32, 32);
  for (std::int64_t j = 0; j < 64; ++j)
    for (std::int64_t d = 0; d < 32; ++d) h.v.set(j, d, 0x1p-130);
  for (const AttentionTileChoice& tiles : all_choices()) {
    const HeadForward f = run_forward(h, &tiles);
    EXPECT_NEAR(f.out.at(3, 3), 0x1p-130, 0x1p-133) << tiles.fast->isa;
  }
}

// Every key the same: the mean of v, which bf16 probabilities must not move.
TEST(AttentionFlash, EqualKeysGiveTheMean) {
  OwnedHead h(DType::kBF16, 16, 256, 32, 32);
  for (std::int64_t j = 0; j < 256; ++j)
    for (std::int64_t d = 0; d < 32; ++d) {
      h.k.set(j, d, 0.5);
      h.v.set(j, d, j % 2 == 0 ? 3 : -1);
    }
  for (const AttentionTileChoice& tiles : all_choices()) {
    const HeadForward f = run_forward(h, &tiles);
    for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(f.out.at(i, 5), 1.0);
  }
}

TEST(AttentionFlash, BitsDoNotDependOnTheNumberOfThreads) {
  OwnedHead h(DType::kBF16, 300, 1100, 64, 64);
  h.add_bias(DType::kF32);
  for (const AttentionTileChoice& tiles : all_choices()) {
    set_thread_count(1);
    const HeadForward f1 = run_forward(h, &tiles);
    const HeadBackward b1 = run_backward(h, f1, &tiles);
    set_thread_count(4);
    const HeadForward f4 = run_forward(h, &tiles);
    const HeadBackward b4 = run_backward(h, f4, &tiles);
    set_thread_count(0);
    EXPECT_EQ(f1.out.bytes, f4.out.bytes) << tiles.fast->isa;
    EXPECT_EQ(f1.lse, f4.lse);
    EXPECT_EQ(b1.dq, b4.dq) << tiles.fast->isa;
    EXPECT_EQ(b1.dk, b4.dk);
    EXPECT_EQ(b1.dv, b4.dv);
    EXPECT_EQ(b1.d_bias, b4.d_bias);
  }
}

}  // namespace
}  // namespace assay::te
