// SGD: steps by hand, options that exclude each other, dtypes.
#include "assay/te/optim/sgd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

struct Set {
  std::vector<Tensor> g, p, b, copies;
  Set(const std::vector<double>& grad, const std::vector<double>& param,
      const std::vector<double>& buffer, DType dtype = DType::kF32) {
    const auto n = static_cast<std::int64_t>(grad.size());
    g = {make_tensor(grad, {n}, dtype)};
    p = {make_tensor(param, {n}, dtype)};
    b = {make_tensor(buffer, {n}, dtype)};
  }
  SgdTensors lists() { return {g, p, b, copies}; }
};

TEST(Sgd, ByHand) {
  SgdOptions o{.lr = .5, .momentum = .5, .dampening = .25};
  Set s({4}, {10}, {8});
  multi_tensor_sgd(s.lists(), o);  // buf = 4 + .75 * 4 = 7
  EXPECT_EQ(values_of(s.b[0])[0], 7);
  EXPECT_EQ(values_of(s.p[0])[0], 6.5);
  o.first_run = true;  // buf = g
  Set f({4}, {10}, {8});
  multi_tensor_sgd(f.lists(), o);
  EXPECT_EQ(values_of(f.b[0])[0], 4);
  EXPECT_EQ(values_of(f.p[0])[0], 8);
  Set n({4}, {10}, {8});  // buf = 8, g + .5 buf = 8
  multi_tensor_sgd(n.lists(), {.lr = .5, .momentum = .5, .nesterov = true});
  EXPECT_EQ(values_of(n.b[0])[0], 8);
  EXPECT_EQ(values_of(n.p[0])[0], 6);
}

TEST(Sgd, DecayBeforeOrAfterMomentum) {
  SgdOptions o{.lr = .5, .momentum = .5, .weight_decay = .1};
  Set before({4}, {10}, {8});  // g = 5, buf = 9
  multi_tensor_sgd(before.lists(), o);
  EXPECT_EQ(values_of(before.b[0])[0], 9);
  EXPECT_EQ(values_of(before.p[0])[0], 5.5);
  o.decay_after_momentum = true;  // buf = 8, g = 9
  Set after({4}, {10}, {8});
  multi_tensor_sgd(after.lists(), o);
  EXPECT_EQ(values_of(after.b[0])[0], 8);
  EXPECT_EQ(values_of(after.p[0])[0], 5.5);
}

TEST(Sgd, NesterovNeedsMomentumAndNoDampening) {
  Set s({1}, {1}, {1});
  EXPECT_EQ(error_of([&] { multi_tensor_sgd(s.lists(), {.nesterov = true}); }),
            "multi_tensor_sgd: nesterov: set with momentum 0.000000 and "
            "dampening 0.000000, expected momentum > 0 and dampening 0");
  error_of([&] {
    multi_tensor_sgd(s.lists(),
                     {.momentum = .9, .dampening = .1, .nesterov = true});
  });
  EXPECT_EQ(values_of(s.p[0])[0], 1);  // nothing was touched
}

TEST(Sgd, ScaleNoopCopiesAndNoBuffer) {
  Set s({8}, {10}, {0});
  s.copies = {Tensor::empty(DType::kF16, {1})};
  const Tensor flag = make_tensor({1}, {1}, DType::kI32);
  multi_tensor_sgd(s.lists(), {.lr = .5, .scale = .5}, &flag);
  EXPECT_EQ(values_of(s.p[0])[0], 10);
  SgdTensors lists = s.lists();
  lists.momentum = {};
  multi_tensor_sgd(lists, {.lr = .5, .scale = .5});
  EXPECT_EQ(values_of(s.p[0])[0], 8);
  EXPECT_EQ(values_of(s.copies[0])[0], 8);
  EXPECT_EQ(values_of(s.g[0])[0], 8);  // gradients stay
  error_of([&] { multi_tensor_sgd(lists, {.momentum = .5}); });
}

TEST(Sgd, DtypesAndStrides) {
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    Set s({4, 1}, {10, 2}, {8, 0}, dtype);
    multi_tensor_sgd(s.lists(), {.lr = .5, .momentum = .5});
    EXPECT_EQ(values_of(s.p[0]), (std::vector<double>{6, 1.5}));
    EXPECT_EQ(values_of(s.b[0]), (std::vector<double>{8, 1}));
  }
  const Tensor g = normal_tensor({5, 3}, DType::kF32, 1);
  const Tensor p = normal_tensor({5, 3}, DType::kF32, 2);
  std::vector<Tensor> grads = {g}, plain = {p}, turned = {strided_like(p)};
  multi_tensor_sgd({grads, turned, {}, {}}, {.lr = .1});
  plain[0] = make_tensor(values_of(p), {5, 3});
  multi_tensor_sgd({grads, plain, {}, {}}, {.lr = .1});
  EXPECT_EQ(values_of(turned[0]), values_of(plain[0]));
}

TEST(Sgd, SameBitsForAnyNumberOfThreads) {
  const std::vector<Tensor> g = {normal_tensor({200001}, DType::kF32, 1)};
  expect_thread_invariance(
      [&] {
        std::vector<Tensor> p = {normal_tensor({200001}, DType::kBF16, 2)},
                            b = {normal_tensor({200001}, DType::kF32, 3)};
        multi_tensor_sgd({g, p, b, {}}, {.momentum = .9, .nesterov = true});
        return std::vector<Tensor>{p[0], b[0]};
      },
      "sgd");
}

}  // namespace
}  // namespace assay::te
