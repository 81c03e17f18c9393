// Embedding and cross entropy over a cut vocabulary against one process.
#include "assay/te/parallel/vocab_parallel.h"

#include <gmock/gmock.h>

#include <cmath>

#include "assay/te/ops/split.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

using testing::HasSubstr;
using Counts = std::vector<std::int64_t>;

// Rows of each rank: even, or uneven with a rank that has none.
Counts rows_of_ranks(bool even) {
  if (even) return Counts(static_cast<std::size_t>(ranks()), 40 / ranks());
  if (ranks() == 1) return {40};
  if (ranks() == 2) return {33, 7};
  return {11, 0, 28, 1};
}

Tensor own(const Tensor& whole, const Counts& counts, int dim) {
  return split(whole, counts, dim)[static_cast<std::size_t>(rank())];
}

Tensor ids_of(const std::vector<double>& values, Shape shape,
              DType dtype = DType::kI64) {
  Tensor t = Tensor::empty(dtype, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(dtype, values[i], t.mutable_data(),
                      static_cast<std::int64_t>(i));
  return t;
}

// 8 x 2 tokens of 40 entries, some twice, both ends of every slice.
Tensor tokens(DType dtype) {
  return ids_of({0, 39, 10, 11, 12, 11, 9, 20, 19, 30, 29, 38, 39, 0, 32, 33},
                {8, 2}, dtype);
}

TEST(VocabParallel, EmbeddingIsThatOfOneProcess) {
  for (const bool even : {true, false})
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const DType id : {DType::kI32, DType::kI64}) {
        const Counts counts = rows_of_ranks(even);
        const Tensor table = normal(dtype, {40, 6}, 1), ids = tokens(id);
        const Tensor d_out = normal(dtype, {8, 2, 6}, 2);
        VocabParallelEmbeddingOptions o{
            .slice =
                vocab_slice(counts[static_cast<std::size_t>(rank())], *group()),
            .padding_id = 11};
        EXPECT_EQ(o.slice.vocab_size, 40);
        const Tensor local = own(table, counts, 0);
        const Tensor expected = embedding_forward(table, ids);
        const Tensor gradient = own(
            embedding_backward(d_out, ids, 40, {.padding_id = 11}), counts, 0);
        expect_same_bits(
            vocab_parallel_embedding_forward(local, ids, o, *group()), expected,
            "all-reduced");
        expect_same_bits(
            vocab_parallel_embedding_backward(d_out, ids, o, *group()),
            gradient, "gradient");
        o.sequence_parallel = true;
        expect_same_bits(
            vocab_parallel_embedding_forward(local, ids, o, *group()),
            part_of(expected), "reduce-scattered");
        expect_same_bits(
            vocab_parallel_embedding_backward(part_of(d_out), ids, o, *group()),
            gradient, "gradient");
        Tensor main = normal(DType::kF32, local.shape(), 3);
        vocab_parallel_embedding_backward_accumulate(part_of(d_out), ids, main,
                                                     o, *group());
        Tensor alone = normal(DType::kF32, local.shape(), 3);
        embedding_backward_accumulate(d_out, ids, alone,
                                      {.vocab_offset = o.slice.offset,
                                       .vocab_size = 40,
                                       .padding_id = 11});
        expect_same_bits(main, alone, "main gradient");
      }
}

void expect_near(const Tensor& got, const Tensor& expected, double rtol,
                 double atol, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  ASSERT_EQ(got.dtype(), expected.dtype()) << what;
  for (std::int64_t i = 0; i < expected.numel(); ++i) {
    const double a = load_as_double(got.dtype(), got.view.data, i);
    const double b = load_as_double(got.dtype(), expected.view.data, i);
    ASSERT_NEAR(a, b, atol + rtol * std::fabs(b)) << what << " at " << i;
  }
}

TEST(VocabParallel, CrossEntropyIsThatOfOneProcess) {
  for (const bool even : {true, false})
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const bool reduce : {false, true}) {
        const Counts counts = rows_of_ranks(even);
        const Tensor logits = normal(dtype, {6, 40}, 1, 4);
        const Tensor target = ids_of({0, 10, 11, 39, -100, 38}, {6});
        const CrossEntropyOptions o{.label_smoothing = 0.1,
                                    .reduce_loss = reduce};
        const VocabSlice slice =
            vocab_slice(counts[static_cast<std::size_t>(rank())], *group());
        const Tensor d = normal(DType::kF32, {reduce ? 1 : 6}, 5, 1);
        const CrossEntropyResult one = cross_entropy_forward(logits, target, o);
        const Tensor g =
            own(cross_entropy_backward(d, logits, target, one, o), counts, 1);
        const Tensor local = own(logits, counts, 1);
        const CrossEntropyResult r = vocab_parallel_cross_entropy_forward(
            local, target, o, slice, group());
        expect_near(r.loss, one.loss, 2e-6, 2e-6, "loss");
        EXPECT_EQ(r.counted, 5);
        // The same bits everywhere.
        const Tensor all = gathered(r.loss);
        for (std::int64_t i = 0; i < all.numel(); ++i)
          EXPECT_EQ(all.data<float>()[i],
                    r.loss.data<float>()[i % r.loss.numel()]);
        const double u = unit_roundoff(dtype);
        expect_near(vocab_parallel_cross_entropy_backward(d, local, target, r,
                                                          o, slice),
                    g, 2 * u + 5e-6, 1e-7, "gradient");
        Tensor in_place = own(logits, counts, 1);
        const CrossEntropyResult r2 =
            vocab_parallel_cross_entropy_forward_in_place(in_place, target, o,
                                                          slice, group());
        expect_near(r2.loss, one.loss, 2e-6, 2e-6, "loss in place");
        Tensor whole = split(logits, Counts{40}, 1)[0];
        cross_entropy_forward_in_place(whole, target, o);
        expect_near(in_place, own(whole, counts, 1), 2 * u + 5e-6, 1e-7,
                    "gradient in place");
      }
}

// Five rows in all; what one rank has behind its own is never read.
TEST(VocabParallel, F40_IdsOutOfRangeAreErrorsOnEveryRank) {
  const std::int64_t rows = rank() == 0 ? 5 : 0;
  Tensor buffer = normal(DType::kF32, {6, 3}, 1);
  Tensor table = buffer;
  table.view.shape = {rows, 3};
  const VocabParallelEmbeddingOptions o{.slice = vocab_slice(rows, *group())};
  for (const double id : {5.0, -1.0})
    EXPECT_THAT(error_of([&] {
                  vocab_parallel_embedding_forward(table, ids_of({0, id}, {2}),
                                                   o, *group());
                }),
                HasSubstr(std::to_string(static_cast<int>(id)) +
                          " at [1], expected 0 to 4"));
  const Tensor logits = normal(DType::kF32, {2, rows}, 1);
  EXPECT_THAT(error_of([&] {
                vocab_parallel_cross_entropy_forward(
                    logits, ids_of({0, 5}, {2}), {}, o.slice, group());
              }),
              HasSubstr("target: 5 in row 1"));
  if (ranks() == 1) return;
  // Ids that one rank has otherwise are no ids.
  EXPECT_THAT(error_of([&] {
                vocab_parallel_embedding_forward(
                    table, ids_of({0, rank() == 1 ? 2.0 : 1.0}, {2}), o,
                    *group());
              }),
              HasSubstr("rank"));
  EXPECT_THAT(error_of([&] {
                vocab_parallel_cross_entropy_forward(
                    logits, ids_of({0, rank() == 1 ? 2.0 : 1.0}, {2}), {},
                    o.slice, group());
              }),
              HasSubstr("rank"));
}

TEST(VocabParallel, RefusesWhatDoesNotFit) {
  const VocabSlice slice = vocab_slice(3, *group());
  const Tensor ids = ids_of({0, 1, 2}, {3});
  const Tensor table = normal(DType::kF32, {3, 2}, 1);
  EXPECT_THAT(error_of([&] {
                vocab_parallel_embedding_forward(normal(DType::kF32, {4, 2}, 1),
                                                 ids, {.slice = slice},
                                                 *group());
              }),
              HasSubstr("table: shape [4, 2], expected [3, 2]"));
  EXPECT_THAT(error_of([&] {
                vocab_parallel_embedding_forward(table, ids, {}, *group());
              }),
              HasSubstr("slice.vocab_size: 0"));
  EXPECT_THAT(error_of([&] {
                vocab_parallel_cross_entropy_forward(
                    normal(DType::kF32, {3, 4}, 1), ids, {}, slice, group());
              }),
              HasSubstr("expected 3 entries, those of the slice"));
  if (ranks() == 1) return;
  EXPECT_THAT(error_of([&] {
                vocab_parallel_embedding_forward(
                    table, ids, {.slice = slice, .sequence_parallel = true},
                    *group());
              }),
              HasSubstr("first dimension of ids: 3, expected a multiple of " +
                        std::to_string(ranks())));
}

TEST(VocabParallel, NoTokens) {
  const VocabSlice slice = vocab_slice(3, *group());
  const Tensor ids = ids_of({}, {0, 2});
  const Tensor table = normal(DType::kF32, {3, 2}, 1);
  for (const bool cut : {false, true}) {
    const VocabParallelEmbeddingOptions o{.slice = slice,
                                          .sequence_parallel = cut};
    const Tensor out =
        vocab_parallel_embedding_forward(table, ids, o, *group());
    EXPECT_EQ(out.shape(), (Shape{0, 2, 2}));
    EXPECT_EQ(floats(vocab_parallel_embedding_backward(out, ids, o, *group())),
              std::vector<float>(6, 0.0f));
  }
}

}  // namespace
}  // namespace assay::te
