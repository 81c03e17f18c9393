// Gradients over replicas against plain loops; norms; corrupt replicas.
#include "assay/te/parallel/data_parallel.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "assay/base/parallel.h"
#include "assay/te/parallel/replicas.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

struct Form {
  DType dtype;
  Shape shape;
};

// Two dtypes in turn, empty tensors, odd sizes.
const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {DType::kF32, {7, 3}},   {DType::kF32, {1}},     {DType::kBF16, {33}},
      {DType::kBF16, {0, 4}},  {DType::kBF16, {5, 5}}, {DType::kF32, {100, 3}},
      {DType::kF16, {2, 2, 2}}};
  return all;
}

Tensor of_rank(const Form& f, std::size_t i, int r, unsigned round) {
  return normal(
      f.dtype, f.shape,
      static_cast<unsigned>(1000 * round + 100 * i) + static_cast<unsigned>(r));
}

std::vector<Tensor> own_gradients(unsigned round) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < forms().size(); ++i)
    out.push_back(of_rank(forms()[i], i, rank(), round));
  return out;
}

// fp32 from rank 0 on, a mean divided in fp32, rounded once.
Tensor expected(std::size_t i, GradientOp op, unsigned round) {
  const Form& f = forms()[i];
  Tensor out = Tensor::empty(f.dtype, f.shape);
  std::vector<Tensor> parts;
  for (int r = 0; r < ranks(); ++r) parts.push_back(of_rank(f, i, r, round));
  for (std::int64_t e = 0; e < out.numel(); ++e) {
    float sum = 0;
    for (std::size_t r = 0; r < parts.size(); ++r) {
      const auto x =
          static_cast<float>(load_as_double(f.dtype, parts[r].view.data, e));
      sum = r == 0 ? x : sum + x;
    }
    if (op == GradientOp::kMean) sum /= static_cast<float>(ranks());
    store_from_double(f.dtype, static_cast<double>(sum), out.mutable_data(), e);
  }
  return out;
}

// The same bits for every size of bucket, and every rank marks in an order of
// its own, twice over the same buckets.
TEST(DataParallel, BitsDoNotDependOnBucketsAndOrder) {
  for (const GradientOp op : {GradientOp::kSum, GradientOp::kMean})
    for (const std::int64_t bytes : {1, 64, 200, 1 << 20}) {
      std::vector<Tensor> gradients = own_gradients(0);
      GradientBuckets buckets(gradients, {.op = op, .bucket_bytes = bytes},
                              group());
      EXPECT_LE(buckets.buckets(), forms().size());
      if (bytes == 1) EXPECT_EQ(buckets.buckets(), forms().size());
      if (bytes == 1 << 20) EXPECT_EQ(buckets.buckets(), 4u);
      for (unsigned round = 0; round < 2; ++round) {
        const std::vector<Tensor> fresh = own_gradients(round);
        for (std::size_t i = 0; i < fresh.size(); ++i)
          std::copy_n(fresh[i].view.data, fresh[i].view.bytes().size(),
                      gradients[i].mutable_data());
        std::vector<std::size_t> order(forms().size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::mt19937 random(7 * round + static_cast<unsigned>(rank()));
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) buckets.mark_ready(i);
        buckets.wait();
        for (std::size_t i = 0; i < gradients.size(); ++i)
          expect_same_bits(gradients[i], expected(i, op, round),
                           "gradient " + std::to_string(i));
      }
    }
}

TEST(DataParallel, BucketsStartWhenTheyAreReadyInTheirOrder) {
  std::vector<Tensor> gradients = own_gradients(0);
  GradientBuckets buckets(gradients, {.bucket_bytes = 1 << 20}, group());
  buckets.mark_ready(2);
  buckets.mark_ready(0);
  EXPECT_EQ(buckets.started(), 0u);  // gradient 1 is missing
  buckets.mark_ready(1);
  EXPECT_EQ(buckets.started(), 1u);
  buckets.mark_ready(3);
  EXPECT_EQ(buckets.started(), 1u);
  buckets.mark_ready(5);
  buckets.mark_ready(6);
  EXPECT_EQ(buckets.started(), 1u);  // bucket 1 is not ready
  try {
    buckets.wait();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "GradientBuckets::wait: gradient 4: not marked, expected all "
                 "ready");
  }
  EXPECT_THROW(buckets.mark_ready(3), Error);
  EXPECT_THROW(buckets.mark_ready(7), Error);
  buckets.mark_ready(4);
  EXPECT_EQ(buckets.started(), buckets.buckets());
  buckets.wait();
  for (std::size_t i = 0; i < gradients.size(); ++i)
    expect_same_bits(gradients[i], expected(i, GradientOp::kMean, 0), "after");
}

// A strided gradient is read and written where its strides say.
TEST(DataParallel, F39_StridedGradientsAreReducedInPlace) {
  Tensor base = normal(DType::kF32, {3, 8}, 50 + static_cast<unsigned>(rank()));
  Tensor transposed = base;
  transposed.view.shape = {4, 3};
  transposed.view.strides = {2, 8};  // every other column
  std::vector<float> sum(24);
  for (int r = 0; r < ranks(); ++r) {
    const Tensor other =
        normal(DType::kF32, {3, 8}, 50 + static_cast<unsigned>(r));
    for (std::size_t i = 0; i < 24; ++i)
      sum[i] =
          r == 0 ? other.data<float>()[i] : sum[i] + other.data<float>()[i];
  }
  const std::vector<float> before = floats(base);
  reduce_gradients(std::vector<Tensor>{transposed}, {.op = GradientOp::kSum},
                   group());
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_EQ(base.data<float>()[i], i % 2 == 0 ? sum[i] : before[i]) << i;
}

TEST(DataParallel, NumberOfThreadsDoesNotMatter) {
  std::vector<std::vector<Tensor>> results;
  for (const int threads : {1, 4}) {
    set_thread_count(threads);
    std::vector<Tensor> big = {
        normal(DType::kBF16, {300, 501}, 60 + static_cast<unsigned>(rank()))};
    reduce_gradients(big, {}, group());
    results.push_back(big);
  }
  set_thread_count(1);
  expect_same_bits(results[0][0], results[1][0], "mean");
}

TEST(DataParallel, NoGradients) {
  reduce_gradients({}, {}, group());
  EXPECT_EQ(gradient_norm({}, *group()), 0);
}

TEST(DataParallel, DifferentGradientsAreRefusedEverywhere) {
  if (ranks() == 1) return;
  const std::vector<Tensor> own = {
      normal(DType::kF32, {rank() == 1 ? 4 : 3}, 1)};
  try {
    reduce_gradients(own, {}, group());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("float32[4]"));
  }
}

TEST(DataParallel, NormOfAllRanks) {
  double squares = 0;
  std::vector<Tensor> own;
  for (int r = 0; r < ranks(); ++r)
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      // Ranks hold different numbers of elements.
      const Tensor t =
          normal(dtype, {10 * r, 7}, 70 + static_cast<unsigned>(r));
      for (const float x : floats(t))
        squares += static_cast<double>(x) * static_cast<double>(x);
      if (r == rank()) own.push_back(t);
    }
  EXPECT_NEAR(gradient_norm(own, *group()), std::sqrt(squares),
              1e-7 * std::sqrt(squares));
  // A NaN of the last rank shows on all.
  const float bad =
      rank() == ranks() - 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
  EXPECT_TRUE(std::isnan(
      gradient_norm(std::vector<Tensor>{f32({1}, {bad})}, *group())));
}

std::vector<NamedTensor> parameters(unsigned seed) {
  return {{"embedding.weight", normal(DType::kBF16, {5, 3}, seed)},
          {"layers.0.weight", normal(DType::kF32, {4, 4}, seed + 1)},
          {"layers.0.bias", Tensor::zeros(DType::kF32, {0})}};
}

TEST(Replicas, BroadcastGivesEveryoneTheRoots) {
  for (int root = 0; root < ranks(); ++root) {
    auto own = parameters(10 * static_cast<unsigned>(rank()));
    broadcast_tensors(own, root, *group());
    const auto theirs = parameters(10 * static_cast<unsigned>(root));
    for (std::size_t i = 0; i < own.size(); ++i)
      expect_same_bits(own[i].tensor, theirs[i].tensor, own[i].name);
    require_same_bytes_everywhere(own, *group());
  }
}

std::string refusal(std::span<const NamedTensor> tensors) {
  try {
    require_same_bytes_everywhere(tensors, *group());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// One bit of one weight of one replica.
TEST(Replicas, F52_ACorruptReplicaIsNamed) {
  auto own = parameters(1);
  EXPECT_EQ(refusal(own), "no error");
  if (ranks() == 1) return;
  const int corrupt = ranks() - 1;
  if (rank() == corrupt) own[1].tensor.mutable_data()[5] ^= std::byte{1};
  const std::string others = ranks() == 2 ? "rank 0" : "ranks 0, 1, 2";
  EXPECT_EQ(refusal(own),
            "require_same_bytes_everywhere: 1 of 3 tensors hold other bytes on "
            "some ranks: layers.0.weight: " +
                others + "; rank " + std::to_string(corrupt));
  // -0 is another replica's +0.
  auto zeros = parameters(1);
  zeros[0].tensor = f32({1}, {rank() == 0 ? 0.0f : -0.0f});
  EXPECT_THAT(refusal(zeros), HasSubstr("embedding.weight: "));
  // What is not comparable is no match.
  auto renamed = parameters(1);
  if (rank() == 1) renamed[0].name = "other";
  EXPECT_THAT(refusal(renamed), HasSubstr("the ranks differ"));
}

}  // namespace
}  // namespace assay::te
