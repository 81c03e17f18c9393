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

// A dropped pair gives nothing to dv, a NaN logit included.
TEST(AttentionFlash, DroppedNaNIsZero) {
  OwnedHead h(DType::kF32, 1, 40, 8, 8);
  h.head.dropout = {.draw = {.seed = 7, .offset = 4, .threshold = 80},
                    .keep_scale = 1.5f,
                    .row = 40};
  h.q.set(0, 0, std::nan(""));
  std::vector<AttentionTileChoice> choices = all_choices();
  for (std::size_t c = 0; c <= choices.size(); ++c) {
    const auto* tiles = c == choices.size() ? nullptr : &choices[c];
    const HeadBackward b = run_backward(h, run_forward(h, tiles), tiles);
    for (std::int64_t j = 0; j < 40; ++j) {
      const bool dropped = attention_kept(h.head.dropout, 0, j) == 0;
      const float dv = b.dv[static_cast<std::size_t>(j * 8)];
      EXPECT_EQ(std::isnan(dv), !dropped) << c << " " << j;
      if (dropped) {
        EXPECT_EQ(dv, 0);
      }
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

// The gradients of excluded keys are zero whatever the keys hold, and nothing
// of them reaches another gradient: tiles of padded queries and whole tiles.
TEST(AttentionFlash, F37_NaNInAnExcludedKeyHasNoGradient) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const std::int64_t queries : {1, 2, 15, 16, 17, 64, 65})
      for (const std::int64_t keys : {2, 3, 64, 65, 128})
        for (const bool by_mask : {false, true}) {
          OwnedHead h(dtype, queries, keys, 8, 8);
          if (by_mask) {
            h.mask.assign(static_cast<std::size_t>(queries * keys), 0);
            for (std::int64_t i = 0; i < queries; ++i)
              h.mask[static_cast<std::size_t>(i * keys + keys - 1)] = 1;
            h.head.mask = h.mask.data();
            h.head.mask_row = keys;
            h.head.mask_column = 1;
          } else {
            h.head.high = keys - 1 - queries;
          }
          const HeadForward clean = run_forward(h, nullptr);
          const HeadBackward ref = run_backward(h, clean, nullptr);
          for (const double special : {std::nan(""), kInf, -kInf}) {
            for (std::int64_t d = 0; d < 8; ++d) {
              h.k.set(keys - 1, d, special);
              h.v.set(keys - 1, d, special);
            }
            for (const AttentionTileChoice& tiles : all_choices()) {
              const HeadForward f = run_forward(h, &tiles);
              const HeadBackward b = run_backward(h, f, &tiles);
              const std::string what = std::string(tiles.fast->isa) + " " +
                                       std::to_string(queries) + "x" +
                                       std::to_string(keys);
              const double error = dtype == DType::kBF16 ? 0x1p-7 : 2e-5;
              expect_close(b.dq, ref.dq, error, what + " dq");
              expect_close(b.dk, ref.dk, error, what + " dk");
              expect_close(b.dv, ref.dv, error, what + " dv");
              for (std::int64_t d = 0; d < 8; ++d) {
                const auto at = static_cast<std::size_t>((keys - 1) * 8 + d);
                EXPECT_EQ(b.dk[at], 0) << what;
                EXPECT_EQ(b.dv[at], 0) << what;
              }
              if (HasFatalFailure()) return;
            }
          }
        }
}

// A NaN key that some queries see, beside queries that do not exist.
TEST(AttentionFlash, F37_PaddedQueriesAddNothing) {
  OwnedHead h(DType::kF32, 1, 64, 8, 8);
  h.v.set(5, 0, std::nan(""));
  const HeadBackward ref = run_backward(h, run_forward(h, nullptr), nullptr);
  for (const AttentionTileChoice& tiles : all_choices()) {
    const HeadForward f = run_forward(h, &tiles);
    const HeadBackward b = run_backward(h, f, &tiles);
    for (std::size_t i = 0; i < ref.dk.size(); ++i) {
      EXPECT_EQ(std::isnan(b.dk[i]), std::isnan(ref.dk[i])) << i;
      EXPECT_EQ(std::isnan(b.dv[i]), std::isnan(ref.dv[i])) << i;
    }
  }
}

// One query against keys whose logits are as given; v = 1, 2, 3 ...
HeadForward forward_of_logits(OwnedHead& h, const std::vector<double>& logits,
                              const AttentionTileChoice* tiles) {
  h.head.scale = 1;
  h.q.set(0, 0, 1);
  for (std::int64_t j = 0; j < h.head.keys; ++j) {
    h.k.set(j, 0, logits[static_cast<std::size_t>(j)]);
    h.v.set(j, 0, static_cast<double>(j + 1));
  }
  return run_forward(h, tiles);
}

// The greatest logit weighs 1 however great it is.
TEST(AttentionFlash, GreatFiniteLogits) {
  for (const double great : {2e9, 1e10, 3e20, 1e36, 3e38})
    for (const std::int64_t keys : {2, 64, 70})
      for (const float scale : {1.0f, -1.0f, 0.3f}) {
        OwnedHead h(DType::kF32, 1, keys, 1, 1);
        std::vector<double> logits(static_cast<std::size_t>(keys), 1.0);
        logits[1] = great * (scale < 0 ? -1 : 1);
        for (const AttentionTileChoice& tiles : all_choices()) {
          if (tiles.fast->element_bytes == 2) continue;
          forward_of_logits(h, logits, &tiles);
          h.head.scale = scale;
          const HeadForward f = run_forward(h, &tiles);
          EXPECT_EQ(f.out.at(0, 0), 2) << tiles.fast->isa << great;
          EXPECT_EQ(f.lse[0], static_cast<float>(h.k.at(1, 0)) * scale);
          const HeadBackward b = run_backward(h, f, &tiles);
          EXPECT_EQ(b.dv[1], static_cast<float>(h.d_out.at(0, 0)));
          EXPECT_EQ(b.dv[0], 0);
        }
      }
}

// A finite bias of any size: forward and backward as the plain loops.
TEST(AttentionFlash, F38_GreatFiniteBiases) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const std::vector<std::vector<double>> rows = {
      {-2e38, -2e38}, {3e38, 0},  {-kMost, -kMost},
      {-kMost, 0},    {kMost, 0}, {-kMost, kMost}};
  for (const auto& row : rows) {
    OwnedHead h(DType::kF32, 1, 2, 1, 1);
    h.add_bias(DType::kF32);
    for (std::int64_t j = 0; j < 2; ++j)
      h.bias.set(0, j, row[static_cast<std::size_t>(j)]);
    const HeadForward ref = forward_of_logits(h, {0.5, 0.5}, nullptr);
    const HeadBackward ref_b = run_backward(h, ref, nullptr);
    for (const AttentionTileChoice& tiles : all_choices()) {
      if (tiles.fast->element_bytes == 2) continue;
      const HeadForward f = run_forward(h, &tiles);
      EXPECT_EQ(f.out.at(0, 0), ref.out.at(0, 0)) << tiles.fast->isa << row[0];
      EXPECT_EQ(f.lse[0], ref.lse[0]) << row[0];
      const HeadBackward b = run_backward(h, f, &tiles);
      for (std::size_t j = 0; j < 2; ++j) {
        EXPECT_NEAR(b.dv[j], ref_b.dv[j], 1e-6) << row[0] << ", " << row[1];
        EXPECT_NEAR(b.dk[j], ref_b.dk[j], 1e-6) << row[0] << ", " << row[1];
      }
    }
  }
}

// Logits that are all -inf by themselves weigh nothing: as a row without keys,
// also where v holds a NaN.
TEST(AttentionFlash, RowsOfMinusInfinityAreZero) {
  for (const std::int64_t keys : {2, 64, 70})
    for (const double v : {1.0, std::nan("")}) {
      OwnedHead h(DType::kF32, 1, keys, 1, 1);
      const std::vector<double> logits(static_cast<std::size_t>(keys), -kInf);
      forward_of_logits(h, logits, nullptr);
      h.v.set(0, 0, v);
      std::vector<AttentionTileChoice> choices = all_choices();
      for (std::size_t c = 0; c <= choices.size(); ++c) {
        const auto* tiles = c == choices.size() ? nullptr : &choices[c];
        const HeadForward f = run_forward(h, tiles);
        EXPECT_EQ(f.out.at(0, 0), 0) << c;
        EXPECT_EQ(f.lse[0], -kInf);
        const HeadBackward b = run_backward(h, f, tiles);
        EXPECT_EQ(b.dq[0], 0) << c;
        for (float x : b.dk) EXPECT_EQ(x, 0) << c;
        for (float x : b.dv) EXPECT_EQ(x, 0) << c;
      }
    }
}

// p is rebuilt from an fp32 lse: an error of |lse| 2^-24 in its exponent.
TEST(AttentionFlash, GradientsUnderGreatLogitsKeepTheirBound) {
  OwnedHead h(DType::kF32, 1, 8, 1, 1);
  std::vector<double> logits;
  for (int j = 0; j < 8; ++j) logits.push_back(1e4 + j * 0.25);
  const HeadForward ref = forward_of_logits(h, logits, nullptr);
  double sum = 0;
  for (double x : logits) sum += std::exp(x - logits.back());
  const double error = 2 * 1e4 * 0x1p-24 + 4e-6;
  for (const AttentionTileChoice& tiles : all_choices()) {
    if (tiles.fast->element_bytes == 2) continue;
    const HeadForward f = run_forward(h, &tiles);
    EXPECT_NEAR(f.out.at(0, 0), ref.out.at(0, 0), 4e-6 * 8);
    const HeadBackward b = run_backward(h, f, &tiles);
    for (std::size_t j = 0; j < 8; ++j) {
      const double p = std::exp(logits[j] - logits.back()) / sum;
      EXPECT_NEAR(b.dv[j] / h.d_out.at(0, 0), p, error * p) << tiles.fast->isa;
    }
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
