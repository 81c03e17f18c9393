#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "assay/te/parallel/quantized_rows.h"
#include "assay/te/quantize/layout.h"
#include "tests/te/parallel/parallel_test.h"
#include "tests/te/parallel/recipe_quantizers.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

// Rows of rank r are 2^r as large as those of rank 0: a scale of a rank's own
// is seen.
Tensor uneven(const Shape& local, unsigned seed) {
  Shape whole = local;
  whole[0] *= ranks();
  Tensor t = normal(DType::kBF16, whole, seed);
  const std::int64_t n = t.numel() / ranks();
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const double x = load_as_double(t.dtype(), t.view.data, i);
    store_from_double(t.dtype(), std::ldexp(x, static_cast<int>(i / n)),
                      t.mutable_data(), i);
  }
  return t;
}

QuantizedTensor in_layout(QuantizedTensor q, ScaleLayout layout) {
  if (q.rowwise) q.rowwise = with_layout(*q.rowwise, q.shape, layout);
  if (q.columnwise) q.columnwise = with_layout(*q.columnwise, q.shape, layout);
  return q;
}

TEST(QuantizedGather, IsWhatQuantisingTheWholeGives) {
  for (const Usage usage :
       {Usage{true, true}, Usage{true, false}, Usage{false, true}}) {
    for (const Shape& local :
         {Shape{128, 96}, Shape{32, 4, 64}, Shape{0, 64}}) {
      const Tensor whole = uneven(local, 3);
      for (auto& [name, quantizer] :
           recipe_quantizers(group_amax_reduction(group()))) {
        quantizer->set_usage(usage);
        EXPECT_TRUE(can_gather_quantized(*quantizer, local, *group())) << name;
        const auto expected = quantizer->clone()->quantize(whole);
        const auto q = quantizer->quantize(part_of(whole));
        expect_same_quantized(all_gather_first_dim(q, *group()), expected,
                              name + to_string(local));
      }
    }
  }
}

TEST(QuantizedGather, KeepsTheLayoutOfScales) {
  const Tensor whole = uneven({128, 160}, 4);
  for (auto& [name, quantizer] :
       recipe_quantizers(group_amax_reduction(group()))) {
    if (name == "hybrid") continue;  // one of its modes has no tiles
    const bool tiles = quantizer->mode() == ScalingMode::kMXFP8 ||
                       quantizer->mode() == ScalingMode::kNVFP4;
    for (const ScaleLayout layout :
         {ScaleLayout::kGemmReady, ScaleLayout::kSwizzled}) {
      if (layout == ScaleLayout::kSwizzled && !tiles) continue;
      const auto expected =
          in_layout(quantizer->clone()->quantize(whole), layout);
      const auto q = in_layout(quantizer->quantize(part_of(whole)), layout);
      expect_same_quantized(all_gather_first_dim(q, *group()), expected, name);
    }
  }
}

// Rowwise blocks and per-tensor scales belong to rows: any number of them.
TEST(QuantizedGather, RowsOfRowwiseBlocksAreFree) {
  const Tensor whole = uneven({5, 384}, 5);
  for (auto& [name, quantizer] :
       recipe_quantizers(group_amax_reduction(group()))) {
    if (name.find("delayed") != 0 && name != "current" &&
        name != "block 1 x 128")
      continue;
    quantizer->set_usage({true, false});
    EXPECT_TRUE(can_gather_quantized(*quantizer, {5, 384}, *group()));
    const auto expected = quantizer->clone()->quantize(whole);
    expect_same_quantized(
        all_gather_first_dim(quantizer->quantize(part_of(whole)), *group()),
        expected, name);
  }
}

TEST(QuantizedGather, RowScaledNvfp4HasItsAmaxes) {
  NVFP4Options options;
  options.row_scaled = true;
  NVFP4Quantizer quantizer(options);
  quantizer.set_usage({true, false});
  EXPECT_TRUE(can_gather_quantized(quantizer, {16, 64}, *group()));
  const Tensor whole = uneven({16, 64}, 6);
  const auto gathered =
      all_gather_first_dim(quantizer.quantize(part_of(whole)), *group());
  EXPECT_EQ(gathered.rowwise->amax.shape(), (Shape{16 * ranks()}));
  expect_same_quantized(gathered, quantizer.quantize(whole), "row scaled");
}

// A rank's own scale cannot be that of the whole: an Error on all ranks.
TEST(QuantizedGather, ScalesThatDifferAreRefused) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has one scale";
  const Tensor whole = uneven({128, 64}, 7);
  for (auto& [name, quantizer] : recipe_quantizers(nullptr)) {
    const bool own = name == "current" || name.find("nvfp4") == 0;
    EXPECT_EQ(can_gather_quantized(*quantizer, {128, 64}, *group()), !own)
        << name;
    if (!own) continue;
    const auto q = quantizer->quantize(part_of(whole));
    EXPECT_THAT(error_of([&] { all_gather_first_dim(q, *group()); }),
                HasSubstr(name == "current" ? "concatenate_rows: scale_inv: "
                                            : "concatenate_rows: amax: "))
        << name;
  }
}

TEST(QuantizedGather, BlocksAcrossRanksAreRefused) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has whole blocks";
  Block128Quantizer rows({DType::kE4M3FN, 1}), tiles({DType::kE4M3FN, 2});
  for (Block128Quantizer* quantizer : {&rows, &tiles}) {
    EXPECT_FALSE(can_gather_quantized(*quantizer, {64, 32}, *group()));
    const auto q = quantizer->quantize(normal(DType::kBF16, {64, 32}, 8));
    EXPECT_THAT(error_of([&] { all_gather_first_dim(q, *group()); }),
                HasSubstr("64 rows a rank, expected a multiple of 128"));
  }
  rows.set_usage({true, false});
  EXPECT_TRUE(can_gather_quantized(rows, {64, 32}, *group()));
  tiles.set_usage({true, false});
  EXPECT_FALSE(can_gather_quantized(tiles, {64, 32}, *group()));
}

TEST(QuantizedGather, RanksThatDifferAreNamed) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  MXFP8Quantizer e4m3(DType::kE4M3FN), e5m2(DType::kE5M2);
  const Tensor x = normal(DType::kBF16, {32, 32}, 9);
  const auto q = (rank() == 1 ? e5m2 : e4m3).quantize(x);
  EXPECT_THAT(error_of([&] { all_gather_first_dim(q, *group()); }),
              AllOf(HasSubstr("the ranks differ"), HasSubstr("mxfp8 e5m2")));
  QuantizedTensor none = e4m3.quantize(x);
  if (rank() == 1) none.rowwise->data = Tensor{};
  EXPECT_THAT(error_of([&] { all_gather_first_dim(none, *group()); }),
              HasSubstr("all_gather_first_dim: data"));
}

TEST(QuantizedReduceScatter, SumsWhatTheCodesStandFor) {
  const Shape shape = {128 * ranks(), 96};
  for (auto& [name, quantizer] : recipe_quantizers(nullptr)) {
    for (const DType out : {DType::kF32, DType::kBF16}) {
      std::vector<Tensor> decoded;
      QuantizedTensor own;
      for (int r = 0; r < ranks(); ++r) {
        const Tensor x =
            normal(DType::kBF16, shape, 20 + static_cast<unsigned>(r),
                   std::ldexp(1.0f, r));
        const auto q = quantizer->clone()->quantize(x);
        if (r == rank()) own = q;
        decoded.push_back(dequantize(q, DType::kF32));
      }
      Tensor expected = Tensor::empty(out, shape);
      for (std::int64_t i = 0; i < expected.numel(); ++i) {
        float sum = decoded[0].data<float>()[i];
        for (std::size_t r = 1; r < decoded.size(); ++r)
          sum += decoded[r].data<float>()[i];
        store_from_double(out, static_cast<double>(sum),
                          expected.mutable_data(), i, Overflow::kSpecial);
      }
      expect_same_bits(reduce_scatter_first_dim(own, out, *group()),
                       part_of(expected), name);
    }
  }
}

TEST(QuantizedReduceScatter, KeepsLeadingDimensionsAndTakesNoRows) {
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  const auto q = quantizer.quantize(normal(DType::kBF16, {4, 32, 64}, 10));
  EXPECT_EQ(reduce_scatter_first_dim(q, DType::kBF16, *group()).shape(),
            (Shape{4 / ranks(), 32, 64}));
  const auto none = quantizer.quantize(normal(DType::kBF16, {0, 64}, 10));
  EXPECT_EQ(reduce_scatter_first_dim(none, DType::kF32, *group()).shape(),
            (Shape{0, 64}));
  if (ranks() == 1) return;
  const auto odd =
      quantizer.quantize(normal(DType::kBF16, {ranks() + 1, 32, 64}, 10));
  EXPECT_THAT(
      error_of([&] { reduce_scatter_first_dim(odd, DType::kF32, *group()); }),
      HasSubstr("x: first dimension: " + std::to_string(ranks() + 1)));
  EXPECT_THAT(
      error_of([&] { reduce_scatter_first_dim(q, DType::kI32, *group()); }),
      HasSubstr("out: int32"));
}

// Rank r sends rank s (r + 2 s) % 4 units of rows: some of them none.
struct Counts {
  std::vector<std::int64_t> sent, received;
  std::int64_t total = 0;
};
Counts counts_of(int r, std::int64_t unit) {
  Counts c;
  for (int s = 0; s < ranks(); ++s) {
    c.sent.push_back((r + 2 * s) % 4 * unit);
    c.received.push_back((s + 2 * r) % 4 * unit);
    c.total += c.sent.back();
  }
  return c;
}

TEST(AllToAllRows, PlainRowsGoWhereTheyAreWanted) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32}) {
    const auto rows_of = [&](int r) {
      return normal(dtype, {counts_of(r, 1).total, 3, 2},
                    30 + static_cast<unsigned>(r));
    };
    std::vector<std::byte> expected;
    const std::int64_t bytes = 6 * traits(dtype).bits / 8;
    for (int r = 0; r < ranks(); ++r) {
      const Tensor x = rows_of(r);
      const auto sent = counts_of(r, 1).sent;
      std::int64_t begin = 0;
      for (int s = 0; s < rank(); ++s)
        begin += sent[static_cast<std::size_t>(s)];
      const auto part = x.view.bytes().subspan(
          static_cast<std::size_t>(begin * bytes),
          static_cast<std::size_t>(sent[static_cast<std::size_t>(rank())] *
                                   bytes));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const Counts own = counts_of(rank(), 1);
    const Tensor got =
        all_to_all_rows(rows_of(rank()), own.sent, own.received, *group());
    const auto bits = got.view.bytes();
    EXPECT_EQ(std::vector<std::byte>(bits.begin(), bits.end()), expected);
    EXPECT_EQ(got.shape()[1], 3);
    // And back.
    expect_same_bits(all_to_all_rows(got, own.received, own.sent, *group()),
                     rows_of(rank()), "back");
  }
}

TEST(AllToAllRows, QuantisedRowsBringTheirScales) {
  for (const bool whole_blocks : {true, false}) {
    const std::int64_t unit = whole_blocks ? 128 : 16;
    for (auto& [name, quantizer] : recipe_quantizers(nullptr)) {
      if (!whole_blocks) {
        if (name == "block 128 x 128" || name.find("mxfp8") == 0 ||
            name == "hybrid")
          continue;
        quantizer->set_usage({true, false});
      }
      std::vector<std::vector<QuantizedTensor>> slices;
      std::vector<QuantizedTensor> inputs;
      for (int r = 0; r < ranks(); ++r) {
        const Counts c = counts_of(r, unit);
        inputs.push_back(quantizer->clone()->quantize(
            normal(DType::kBF16, {c.total, 64}, 40 + static_cast<unsigned>(r),
                   std::ldexp(1.0f, r))));
        slices.push_back(slice_rows(inputs.back(), c.sent));
      }
      const Counts own = counts_of(rank(), unit);
      const auto got = all_to_all_rows(inputs[static_cast<std::size_t>(rank())],
                                       own.sent, own.received, *group());
      ASSERT_EQ(got.size(), static_cast<std::size_t>(ranks()));
      for (std::size_t r = 0; r < got.size(); ++r)
        expect_same_quantized(got[r],
                              slices[r][static_cast<std::size_t>(rank())],
                              name + " from " + std::to_string(r));
    }
  }
}

TEST(AllToAllRows, CountsThatDoNotFitAreRefusedOnEveryRank) {
  const Tensor x = normal(DType::kF32, {ranks(), 2}, 11);
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(ranks()), 1);
  auto wrong = ones;
  if (ranks() > 1 && rank() == 1) wrong[0] = 2;
  if (ranks() > 1) {
    EXPECT_THAT(
        error_of([&] { all_to_all_rows(x, ones, wrong, *group()); }),
        HasSubstr("all_to_all_rows: receive_counts: rank 1 receives 2 rows "
                  "from rank 0, expected 1, which it sends"));
    EXPECT_THAT(error_of([&] { all_to_all_rows(x, wrong, ones, *group()); }),
                HasSubstr("all_to_all_rows: send_counts"));
  }
}

// Counts are summed in 64 bits, and checked before anything is allocated by
// them.
TEST(AllToAllRows, F20_CountsDoNotOverflow) {
  const Tensor x = normal(DType::kF32, {ranks(), 2}, 11);
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(ranks()), 1);
  auto huge = ones;
  huge[0] = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(error_of([&] { all_to_all_rows(x, ones, huge, *group()); }),
            "no error");
  huge.push_back(1);
  EXPECT_THAT(error_of([&] { all_to_all_rows(x, ones, huge, *group()); }),
              HasSubstr("all_to_all_rows: receive_counts"));
}

TEST(GroupReductions, AmaxIsTheLargestAndNoNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float values[] = {static_cast<float>(rank()), rank() == 0 ? 5.0f : nan, 0,
                    rank() == 0 ? std::numeric_limits<float>::infinity() : 1};
  group_amax_reduction(group())->reduce_max(values, 4);
  EXPECT_EQ(values[0], static_cast<float>(ranks() - 1));
  EXPECT_EQ(values[1], 5.0f);
  EXPECT_EQ(values[2], 0.0f);
  EXPECT_TRUE(std::isinf(values[3]));
  EXPECT_THAT(error_of([] { group_amax_reduction(nullptr); }),
              HasSubstr("group_amax_reduction: group: null"));
}

// Losses of a vocabulary cut across the ranks: each is m + log d - x, and d a
// sum of V positive fp32 terms in another order, so log d moves by no more than
// 2 gamma(V) plus the roundings of m + log d to fp32.
TEST(GroupReductions, CrossEntropyOfACutVocabulary) {
  constexpr std::int64_t kRows = 7, kVocab = 40;
  const Tensor logits = normal(DType::kF32, {kRows, kVocab}, 12);
  Tensor target = Tensor::empty(DType::kI64, {kRows});
  for (std::int64_t i = 0; i < kRows; ++i)
    target.mutable_data<std::int64_t>()[i] = i * 6 % kVocab;
  CrossEntropyOptions options;
  options.label_smoothing = 0.1;
  const auto whole = cross_entropy_forward(logits, target, options);
  const auto reducer = group_vocab_reducer(group());
  options.reducer = reducer.get();
  options.vocab_size = kVocab;
  options.vocab_offset = rank() * kVocab / ranks();
  const auto cut = cross_entropy_forward(columns_of(logits), target, options);
  for (std::int64_t i = 0; i < kRows; ++i) {
    const double expected = static_cast<double>(whole.loss.data<float>()[i]);
    EXPECT_NEAR(static_cast<double>(cut.loss.data<float>()[i]), expected,
                std::ldexp(2.0 * kVocab + 4 * std::abs(expected) + 40, -24));
  }
}

}  // namespace
}  // namespace assay::te
