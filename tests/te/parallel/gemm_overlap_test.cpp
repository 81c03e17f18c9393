#include "assay/te/parallel/gemm_overlap.h"

#include <gmock/gmock.h>

#include <cmath>

#include "assay/base/parallel.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

// Rows that no number of pieces divides, more pieces than rows, one row.
TEST(GemmOverlap, PiecesOfAnySizeGiveTheSameBits) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t rows : {1, 5, 37}) {
      const Tensor a = normal(dtype, {48, 80}, 1);
      const Tensor b = normal(dtype, {rows * ranks(), 80},
                              2 + static_cast<unsigned>(rank()));
      const Tensor plain = gemm_reduce_scatter(a, b, GemmLayout::kTN, *group());
      for (const int splits : {1, 2, 3, 64}) {
        expect_same_bits(
            gemm_reduce_scatter(a, b, GemmLayout::kTN, *group(), {},
                                {OverlapMethod::kPipeline, splits}),
            plain, "scatter in " + std::to_string(splits));
      }
      const Tensor own = normal(dtype, {rows, 80}, 9);
      const GatheredGemm ring =
          all_gather_gemm(a, own, GemmLayout::kTN, *group(), {},
                          {OverlapMethod::kRingExchange});
      expect_same_bits(*ring.b, gathered(own), "gathered");
      expect_same_bits(ring.d, gemm(a, gathered(own), GemmLayout::kTN).d,
                       "gather");
    }
  }
}

// What a product in one process gives: sums over K are cut across the ranks.
TEST(GemmOverlap, ReferenceSumsInFp64) {
  const auto reference = [](Tensor t) {
    t.device = Device::kReference;
    return t;
  };
  const Tensor a = normal(DType::kF32, {24, 16 * ranks()}, 3);
  const Tensor b = normal(DType::kF32, {8 * ranks(), 16 * ranks()}, 4);
  const Tensor exact = gemm(reference(a), reference(b), GemmLayout::kTN).d;
  const Tensor terms = magnitude(b, a);
  for (const OverlapMethod method :
       {OverlapMethod::kNone, OverlapMethod::kRingExchange}) {
    const Tensor part =
        gemm_reduce_scatter(reference(columns_of(a)), reference(columns_of(b)),
                            GemmLayout::kTN, *group(), {}, {method});
    EXPECT_EQ(part.device, Device::kReference);
    // Each rank's part is rounded to f32 once, as is the sum.
    const Tensor whole = gathered(part);
    for (std::int64_t i = 0; i < whole.numel(); ++i)
      ASSERT_NEAR(static_cast<double>(whole.data<float>()[i]),
                  static_cast<double>(exact.data<float>()[i]),
                  std::ldexp(3 * terms.data<double>()[i], -24));
  }
}

TEST(GemmOverlap, ThreadsDoNotChangeBits) {
  const Tensor a = normal(DType::kBF16, {256, 128}, 5);
  const Tensor b = normal(DType::kBF16, {96 * ranks(), 128}, 6);
  const GemmOverlap ring{OverlapMethod::kRingExchange};
  const int before = thread_count();
  set_thread_count(1);
  const Tensor one =
      gemm_reduce_scatter(a, b, GemmLayout::kTN, *group(), {}, ring);
  set_thread_count(4);
  expect_same_bits(
      gemm_reduce_scatter(a, b, GemmLayout::kTN, *group(), {}, ring), one,
      "threads");
  set_thread_count(before);
}

TEST(GemmOverlap, WhatCannotBeIsRefused) {
  const Tensor x = normal(DType::kF32, {4, 8}, 7);
  const auto gather = [&](GemmLayout layout, const GemmOptions& options,
                          const GemmOverlap& overlap) {
    return error_of(
        [&] { all_gather_gemm(x, x, layout, *group(), options, overlap); });
  };
  EXPECT_THAT(gather(GemmLayout::kNT, {}, {}),
              HasSubstr("all_gather_gemm: layout: NT"));
  EXPECT_THAT(gather(GemmLayout::kTN, {}, {OverlapMethod::kPipeline}),
              HasSubstr("all_gather_gemm: method: pipeline"));
  GemmOptions gelu;
  gelu.gelu = true;
  EXPECT_THAT(gather(GemmLayout::kTN, gelu, {}),
              HasSubstr("all_gather_gemm: options"));
  GemmOptions bias;
  bias.bias = &x;
  EXPECT_THAT(error_of([&] {
                gemm_reduce_scatter(x, x, GemmLayout::kTN, *group(), bias);
              }),
              HasSubstr("gemm_reduce_scatter: bias"));
  EXPECT_THAT(error_of([&] {
                gemm_reduce_scatter(x, x, GemmLayout::kTN, *group(), {},
                                    {OverlapMethod::kPipeline, 0});
              }),
              HasSubstr("num_splits: 0"));
}

}  // namespace
}  // namespace assay::te
