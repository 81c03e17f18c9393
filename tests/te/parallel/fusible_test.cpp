// Operations that exchange rows, and linear ones that are cut, against one
// process.
#include "assay/te/fusible/activation.h"
#include "assay/te/fusible/collective.h"
#include "assay/te/fusible/linear.h"
#include "assay/te/fusible/sequential.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te::ops {
namespace {

constexpr std::int64_t kIn = 32, kHidden = 64;

double distance(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double difference = 0, norm = 0;
  const Tensor x = contiguous(a), y = contiguous(b);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double e = load_as_double(y.dtype(), y.view.data, i);
    const double d = load_as_double(x.dtype(), x.view.data, i) - e;
    difference += d * d;
    norm += e * e;
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

TEST(FusibleParallel, CollectivesAndTheirGradients) {
  const std::int64_t rows = 2 * ranks();
  const Tensor whole = normal(DType::kF32, {rows, 3}, 1);
  Sequential gather(std::make_shared<AllGather>(group()));
  Sequential::Context a;
  expect_same_bits(gather.forward(part_of(whole), &a), whole, "gathered");
  // Every rank's gradient is the same here: their sum is ranks() times it.
  const Tensor dx = gather.backward(whole, a);
  const Tensor part = part_of(whole);
  for (std::int64_t i = 0; i < part.numel(); ++i)
    ASSERT_EQ(dx.data<float>()[i],
              static_cast<float>(ranks()) * part.data<float>()[i]);

  Sequential scatter(std::make_shared<ReduceScatter>(group()));
  Sequential::Context b;
  expect_same_bits(scatter.forward(whole, &b), dx, "scattered");
  expect_same_bits(scatter.backward(part, b), whole, "gathered gradient");

  Sequential sum(std::make_shared<AllReduce>(group()));
  Sequential::Context c;
  expect_same_bits(sum.forward(whole, &c), all_reduce_sum(whole, *group()),
                   "summed");
  expect_same_bits(sum.backward(whole, c), whole, "gradient as it is");
}

// Column-parallel, activation, row-parallel, with and without the sequence
// cut: one linear block of one process, but for the order of sums. The whole
// biases of the second are rank 0's, the others' are zero (linear.h).
TEST(FusibleParallel, ACutBlockIsTheWholeBlock) {
  for (bool sequence : {false, true}) {
    BasicLinearOptions column, row;
    column.tensor_parallel_mode = ParallelMode::kColumn;
    row.tensor_parallel_mode = ParallelMode::kRow;
    column.tensor_parallel = row.tensor_parallel = {group(), sequence};
    // Weights begin as the whole one does, cut.
    const auto block = [&](bool cut) {
      manual_seed(5);
      const BasicLinearOptions none;
      return std::make_unique<Sequential>(
          std::make_shared<Linear>(kIn, kHidden, true, cut ? column : none),
          std::make_shared<GELU>(),
          std::make_shared<Linear>(kHidden, kIn, true, cut ? row : none));
    };
    auto whole = block(false), mine = block(true);
    auto set_bias = [](Parameter& p, const Tensor& values) {
      const Tensor from = contiguous(values);
      std::memcpy(p.value->mutable_data(), from.view.data,
                  from.view.bytes().size());
    };
    const Tensor b1 = normal(DType::kF32, {kHidden}, 8);
    const Tensor b2 = normal(DType::kF32, {kIn}, 9);
    set_bias(*whole->parameters()[1].parameter, b1);
    set_bias(*whole->parameters()[3].parameter, b2);
    set_bias(*mine->parameters()[1].parameter, part_of(b1));
    if (rank() == 0) set_bias(*mine->parameters()[3].parameter, b2);

    const std::int64_t rows = 4 * ranks();
    const Tensor x = normal(DType::kF32, {rows, kIn}, 1);
    const Tensor dy = normal(DType::kF32, {rows, kIn}, 2);
    Sequential::Context a, b;
    const Tensor y = whole->forward(x, &a);
    const Tensor dx = whole->backward(dy, a);
    const Tensor z = mine->forward(sequence ? part_of(x) : x, &b);
    const Tensor dz = mine->backward(sequence ? part_of(dy) : dy, b);
    EXPECT_LT(distance(sequence ? gathered(z) : z, y), 2e-6) << sequence;
    EXPECT_LT(distance(sequence ? gathered(dz) : dz, dx), 2e-6) << sequence;
    const auto grad = [](Sequential& m, std::size_t i) {
      return *m.parameters()[i].parameter->grad;
    };
    EXPECT_LT(distance(grad(*mine, 0), part_of(grad(*whole, 0))), 2e-6);
    EXPECT_LT(distance(grad(*mine, 1), part_of(grad(*whole, 1))), 2e-6);
    EXPECT_LT(distance(grad(*mine, 2), columns_of(grad(*whole, 2))), 2e-6);
    EXPECT_LT(distance(grad(*mine, 3), grad(*whole, 3)), 2e-6);
  }
}

}  // namespace
}  // namespace assay::te::ops
