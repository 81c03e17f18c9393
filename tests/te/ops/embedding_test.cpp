// Embedding: torch's numbers, field log, slices of a vocabulary, threads.
#include "assay/te/ops/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "assay/te/precision.h"
#include "tests/te/absent.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

constexpr Device kRef = Device::kReference;

Tensor ids_of(const std::vector<double>& values, Shape shape,
              DType dtype = DType::kI64) {
  return make_tensor(values, std::move(shape), dtype);
}

// torch 2.13: d_out = (arange(24, float64) / 8 - 1).view(2, 3, 4), gradient of
// a table of 5 rows by F.embedding(ids, table, padding_idx).backward(d_out).
TEST(Embedding, TorchNumbers) {
  std::vector<double> d;
  for (int i = 0; i < 24; ++i) d.push_back(i / 8.0 - 1);
  const Tensor ids = ids_of({3, 0, 3, 4, 3, 1}, {2, 3});
  const std::vector<double> expected = {
      -.5, -.375, -.25, -.125, 1.5, 1.625, 1.75, 1.875, 0,   0,
      0,   0,     0,    .375,  .75, 1.125, .5,   .625,  .75, .875};
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (Device device : {Device::kCpu, kRef}) {
      const Tensor d_out = make_tensor(d, {2, 3, 4}, dtype, device);
      EXPECT_EQ(values_of(embedding_backward(d_out, on(device, ids), 5)),
                expected);
      for (auto [padding, row] : {std::pair{3, 3}, {-5, 0}}) {
        auto without = expected;
        for (int c = 0; c < 4; ++c)
          without[static_cast<std::size_t>(4 * row + c)] = 0;
        EXPECT_EQ(values_of(embedding_backward(d_out, on(device, ids), 5,
                                               {.padding_id = padding})),
                  without);
      }
    }
}

TEST(Embedding, ForwardCopiesRowsOfEveryShape) {
  const Tensor table = make_tensor({0, 1, 10, 11, 20, 21}, {3, 2});
  const Tensor ids = ids_of({2, 0, 2, 1}, {2, 2}, DType::kI32);
  const Tensor out = embedding_forward(table, ids);
  EXPECT_EQ(out.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(values_of(out),
            (std::vector<double>{20, 21, 0, 1, 20, 21, 10, 11}));
  EXPECT_TRUE(same_bits(out, embedding_forward(strided_like(table), ids)));
  // padding_id changes nothing forward; a NaN and a -0 are copied.
  Tensor odd = make_tensor({-0.0, std::nan(""), 1, 2}, {2, 2});
  const Tensor one =
      embedding_forward(odd, ids_of({0}, {1}), {.padding_id = 0});
  EXPECT_EQ(std::memcmp(one.view.data, odd.view.data, 8), 0);
}

// The table is the first five rows of a buffer of six.
TEST(Embedding, F40_IdsOutOfRangeAreErrors) {
  Tensor buffer = normal_tensor({6, 3}, DType::kF32, 1);
  std::fill_n(buffer.mutable_data<float>() + 15, 3, 777.0f);
  Tensor table = buffer;
  table.view.shape = {5, 3};
  for (DType dtype : {DType::kI32, DType::kI64}) {
    EXPECT_EQ(error_of([&] {
                embedding_forward(table, ids_of({0, 4, 5, 1}, {2, 2}, dtype));
              }),
              "embedding_forward: ids: 5 at [1, 0], expected 0 to 4");
    EXPECT_EQ(error_of([&] {
                embedding_forward(table, ids_of({0, -1}, {2}, dtype));
              }),
              "embedding_forward: ids: -1 at [1], expected 0 to 4");
    EXPECT_EQ(error_of([&] {
                embedding_backward(normal_tensor({2, 3}, DType::kF32, 1),
                                   ids_of({0, 5}, {2}, dtype), 5);
              }),
              "embedding_backward: ids: 5 at [1], expected 0 to 4");
    Tensor gradient = buffer;
    gradient.view.shape = {5, 3};
    error_of([&] {
      embedding_backward_accumulate(normal_tensor({1, 3}, DType::kF32, 1),
                                    ids_of({-1}, {1}, dtype), gradient);
    });
  }
  for (int i = 15; i < 18; ++i) EXPECT_EQ(buffer.data<float>()[i], 777.0f);
}

// Any order of equal ids is legal elsewhere; here it is that of the tokens, in
// fp64: 2^24 + 1 + 1 is 2^24 + 2 though fp32 would lose both.
TEST(Embedding, F50_DuplicatesAddUp) {
  const Tensor d = make_tensor({0x1p24, 1, 1, 7}, {4, 1});
  const Tensor ids = ids_of({1, 1, 1, 0}, {4});
  EXPECT_EQ(values_of(embedding_backward(d, ids, 2)),
            (std::vector<double>{7, 0x1p24 + 2}));
  PrecisionScope scope("embedding", InternalPrecision::kWorking);
  EXPECT_EQ(values_of(embedding_backward(d, ids, 2)),
            (std::vector<double>{7, 0x1p24}));
}

TEST(Embedding, AccumulatesInPlaceAndLeavesOtherRows) {
  Tensor main = make_tensor({1, 2, -0.0, 4, 5, 6}, {3, 2});
  embedding_backward_accumulate(
      make_tensor({10, 20, .5, .25}, {2, 2}, DType::kBF16), ids_of({2, 2}, {2}),
      main);
  EXPECT_EQ(values_of(main), (std::vector<double>{1, 2, -0.0, 4, 15.5, 26.25}));
  EXPECT_TRUE(std::signbit(main.data<float>()[2]));
}

TEST(Embedding, SlicesTogetherAreTheWholeVocabulary) {
  const Tensor table = normal_tensor({10, 6}, DType::kBF16, 1);
  const Tensor ids = ids_of({9, 0, 3, 4, 4, 8, 3}, {7});
  const Tensor d = normal_tensor({7, 6}, DType::kBF16, 2);
  const Tensor whole = embedding_forward(table, ids);
  const Tensor gradient = embedding_backward(d, ids, 10, {.padding_id = -2});
  std::vector<double> sum(42, 0.0), rows;
  for (auto [offset, count] : {std::pair{0, 4}, {4, 0}, {4, 6}}) {
    const EmbeddingOptions o{
        .vocab_offset = offset, .vocab_size = 10, .padding_id = -2};
    Tensor part = table;
    part.view.shape = {count, 6};
    part.view.data += offset * 6 * 2;
    const auto values = values_of(embedding_forward(part, ids, o));
    for (std::size_t i = 0; i < 42; ++i) sum[i] += values[i];
    const auto g = values_of(embedding_backward(d, ids, count, o));
    rows.insert(rows.end(), g.begin(), g.end());
  }
  EXPECT_EQ(sum, values_of(whole));
  EXPECT_EQ(rows, values_of(gradient));
  EXPECT_EQ(error_of([&] {
              embedding_forward(table, ids,
                                {.vocab_offset = 1, .vocab_size = 10});
            }),
            "embedding_forward: vocab_offset: 1 with 10 rows, expected a slice "
            "of the vocabulary of 10");
  error_of([&] { embedding_forward(table, ids, {.padding_id = 10}); });
}

// 513 columns cross a chunk; one id has half of the tokens.
TEST(Embedding, AgreesWithPlainSumsOnAnyThreads) {
  const std::int64_t tokens = 600, rows = 40;
  std::vector<double> list;
  for (std::int64_t t = 0; t < tokens; ++t)
    list.push_back(t % 2 == 0 ? 7 : static_cast<double>(t * 37 % rows));
  const Tensor ids = ids_of(list, {tokens});
  for (std::int64_t columns : {1, 511, 512, 513})
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const Tensor d = normal_tensor({tokens, columns}, dtype, 3);
      const auto values = values_of(d);
      std::vector<double> sums(static_cast<std::size_t>(rows * columns));
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t c = 0; c < columns; ++c)
          sums[static_cast<std::size_t>(
              static_cast<std::int64_t>(list[static_cast<std::size_t>(t)]) *
                  columns +
              c)] += values[static_cast<std::size_t>(t * columns + c)];
      const Tensor expected = make_tensor(sums, {rows, columns}, dtype);
      EXPECT_TRUE(same_bits(embedding_backward(d, ids, rows), expected));
      expect_thread_invariance(
          [&] { return std::vector<Tensor>{embedding_backward(d, ids, rows)}; },
          "embedding_backward");
      PrecisionScope scope("embedding", InternalPrecision::kF64);
      EXPECT_TRUE(same_bits(embedding_backward(d, ids, rows), expected));
    }
}

TEST(Embedding, EmptySizes) {
  const Tensor none = ids_of({}, {0, 3});
  EXPECT_EQ(
      embedding_forward(normal_tensor({5, 2}, DType::kF32, 1), none).shape(),
      (Shape{0, 3, 2}));
  EXPECT_EQ(values_of(embedding_backward(Tensor::empty(DType::kF32, {0, 3, 2}),
                                         none, 2)),
            (std::vector<double>(4, 0.0)));
  EXPECT_EQ(embedding_backward(Tensor::empty(DType::kF32, {2, 0}),
                               ids_of({0, 1}, {2}), 3)
                .shape(),
            (Shape{3, 0}));
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  const Tensor table = normal_tensor({5, 3}, DType::kF32, 1);
  const Tensor ids = ids_of({1, 2}, {2});
  EXPECT_EQ(error_of([&] {
              embedding_backward(normal_tensor({2, 4}, DType::kF32, 1),
                                 ids_of({1, 2}, {1, 2}), 5);
            }),
            "embedding_backward: d_out: shape [2, 4], expected [1, 2, 4]");
  error_of([&] { embedding_forward(table, make_tensor({1}, {1})); });
  error_of([&] { embedding_forward(table, on(kRef, ids)); });
  error_of([&] { embedding_backward(table, ids, -1); });
  Tensor read_only = normal_tensor({5, 3}, DType::kF32, 1);
  read_only.writable = false;
  const Tensor d = normal_tensor({2, 3}, DType::kF32, 1);
  error_of([&] { embedding_backward_accumulate(d, ids, read_only); });
  expect_absent_refused(
      "embedding_forward", {table, ids},
      [](std::vector<Tensor>& t) { embedding_forward(t[0], t[1]); });
  expect_absent_refused(
      "embedding_backward", {d, ids},
      [](std::vector<Tensor>& t) { embedding_backward(t[0], t[1], 5); });
  expect_absent_refused("embedding_backward_accumulate",
                        {d, ids, normal_tensor({5, 3}, DType::kF32, 1)},
                        [](std::vector<Tensor>& t) {
                          embedding_backward_accumulate(t[0], t[1], t[2]);
                        });
}

}  // namespace
}  // namespace assay::te
