// Adam in all its forms: one step by hand, forms against each other.
#include "assay/te/optim/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "assay/kernels/remainder.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

Tensor copy_of(const Tensor& t) {
  Tensor out = Tensor::empty(t.dtype(), t.shape(), t.device);
  gather(t.view, 0, t.numel(), out.mutable_data());
  return out;
}

std::vector<Tensor> one(const Tensor& t) { return {t}; }

// Lists of one tensor each, with fp32 states of their own.
struct Set {
  std::vector<Tensor> g, p, m, v, master;
  explicit Set(const Tensor& grad, const Tensor& param)
      : g(one(copy_of(grad))),
        p(one(copy_of(param))),
        m(one(Tensor::zeros(DType::kF32, grad.shape(), grad.device))),
        v(one(Tensor::zeros(DType::kF32, grad.shape(), grad.device))) {}
  AdamTensors lists() { return {g, p, m, v, master}; }
};

// The first step of Adam is -lr sign(g) whatever g is; decay beside.
TEST(Adam, FirstStepByHand) {
  const Tensor g = make_tensor({2, -0.001, 0}, {3});
  const Tensor p = make_tensor({1, 1, 1}, {3});
  AdamOptions o{.lr = .1, .eps = 0, .weight_decay = .1};
  Set w(make_tensor({2, -0.001, 4}, {3}), p);
  multi_tensor_adam(w.lists(), o, 1);
  expect_close(w.p[0], make_tensor({1 - .1 * 1.1, 1 + .1 * .9, .89}, {3}), 1e-6,
               0, "decoupled");
  o.mode = AdamMode::kL2;
  Set l(g, p);
  multi_tensor_adam(l.lists(), o, 1);
  // L2 joins the gradient: 2.1, 0.099, 0.1, all of them one lr down.
  expect_close(l.p[0], make_tensor({.9, .9, .9}, {3}), 1e-6, 0, "L2");
}

// F31: decay of the old parameter, not of the updated one.
TEST(Adam, F31_DecayUsesTheParameterBeforeTheStep) {
  Set s(make_tensor({1}, {1}), make_tensor({1}, {1}));
  multi_tensor_adam(s.lists(), {.lr = .1, .eps = 0, .weight_decay = .1}, 1);
  EXPECT_NEAR(values_of(s.p[0])[0], 0.89, 1e-7);  // after it: 0.891
}

TEST(Adam, WithoutBiasCorrection) {
  Set s(make_tensor({2}, {1}), make_tensor({0}, {1}));
  multi_tensor_adam(s.lists(), {.lr = 1, .eps = 0, .bias_correction = false},
                    7);
  EXPECT_NEAR(values_of(s.p[0])[0], -.2 / std::sqrt(.004), 1e-5);
}

// Every dtype against the fp64 loops on the values the dtypes hold.
TEST(Adam, DtypesAgreeWithTheReferenceDevice) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (std::int64_t n : {1, 17, 2047, 2048, 2049, 70000}) {
      const Tensor g = normal_tensor({n}, dtype, 1);
      const Tensor p = normal_tensor({n}, dtype, 2);
      const AdamOptions o{.lr = .01, .weight_decay = .1};
      Set ours(g, p),
          theirs(on(Device::kReference, g), on(Device::kReference, p));
      for (int step = 1; step <= 3; ++step) {
        multi_tensor_adam(ours.lists(), o, step);
        multi_tensor_adam(theirs.lists(), o, step);
      }
      const double rtol = 2 * unit_roundoff(dtype) + 1e-6;
      expect_close(ours.p[0], theirs.p[0], rtol, 1e-6, "param");
      expect_close(ours.m[0], theirs.m[0], 1e-5, 1e-7, "exp_avg");
      expect_close(ours.v[0], theirs.v[0], 1e-5, 1e-7, "exp_avg_sq");
    }
}

// With a master copy the parameter is its rounding, nothing else.
TEST(Adam, MasterWeights) {
  const Tensor g = normal_tensor({5000}, DType::kBF16, 1);
  const Tensor master = normal_tensor({5000}, DType::kF32, 2);
  Set plain(g, master);
  Set with(g, Tensor::empty(DType::kBF16, {5000}));
  with.master = one(copy_of(master));
  for (int step = 1; step <= 3; ++step) {
    multi_tensor_adam(plain.lists(), {}, step);
    multi_tensor_adam(with.lists(), {}, step);
  }
  EXPECT_TRUE(same_bits(plain.p[0], with.master[0]));
  for (std::int64_t i = 0; i < 5000; ++i)
    ASSERT_EQ(load_code(DType::kBF16, with.p[0].view.data, i),
              encode_float(DType::kBF16, static_cast<double>(
                                             with.master[0].data<float>()[i])));
}

// bf16 and remainder are the fp32 master, bit for bit, step after step.
TEST(Adam, ParameterRemaindersAreTheMaster) {
  const Tensor g = normal_tensor({5000}, DType::kF32, 1);
  const Tensor master = normal_tensor({5000}, DType::kF32, 2);
  Set plain(g, master);
  Set split(g, Tensor::empty(DType::kBF16, {5000}));
  std::vector<Tensor> low = one(Tensor::empty(DType::kI16, {5000}));
  for (int i = 0; i < 5000; ++i)
    split_remainder(master.data<float>()[i],
                    split.p[0].mutable_data<std::uint16_t>()[i],
                    low[0].mutable_data<std::int16_t>()[i]);
  for (int step = 1; step <= 3; ++step) {
    multi_tensor_adam(plain.lists(), {}, step);
    multi_tensor_adam_param_remainder(split.lists(), low, {}, step);
  }
  for (int i = 0; i < 5000; ++i)
    ASSERT_EQ(join_remainder(split.p[0].data<std::uint16_t>()[i],
                             low[0].data<std::int16_t>()[i]),
              plain.p[0].data<float>()[i]);
}

TEST(Adam, CapturableUnscalesSkipsAndAgrees) {
  const Tensor g = normal_tensor({300}, DType::kF32, 1);
  const Tensor p = normal_tensor({300}, DType::kF32, 2);
  Set plain(g, p);
  multi_tensor_adam(plain.lists(), {.lr = .02}, 3);
  Tensor scaled = Tensor::empty(DType::kF32, {300});
  for (int i = 0; i < 300; ++i)
    scaled.mutable_data<float>()[i] = g.data<float>()[i] * 8;
  Set captured(scaled, p);
  const Tensor lr = make_tensor({.02}, {1}), inv = make_tensor({.125}, {1});
  const Tensor step = make_tensor({3}, {1}, DType::kI32);
  const Tensor found = make_tensor({1}, {1}), fine = make_tensor({0}, {1});
  multi_tensor_adam_capturable(captured.lists(), {},
                               {&lr, &step, &inv, &found});
  EXPECT_TRUE(same_bits(captured.p[0], p));
  multi_tensor_adam_capturable(captured.lists(), {}, {&lr, &step, &inv, &fine});
  EXPECT_TRUE(same_bits(captured.p[0], plain.p[0]));
  EXPECT_TRUE(same_bits(captured.g[0], g));  // stored back unscaled
}

// Codes are the quantised master under the given scale.
TEST(Adam, Fp8Parameters) {
  for (DType format : {DType::kE4M3FN, DType::kE5M2}) {
    const Tensor g = normal_tensor({3000}, DType::kF32, 1);
    const Tensor master = normal_tensor({3000}, DType::kF32, 2);
    Set plain(g, master), fp8(g, Tensor::empty(format, {3000}));
    fp8.master = one(copy_of(master));
    std::vector<Tensor> amax = one(make_tensor({.5}, {1})),
                        inverse = one(make_tensor({0}, {1}));
    const std::vector<Tensor> scale = one(make_tensor({24}, {1}));
    multi_tensor_adam(plain.lists(), {}, 1);
    multi_tensor_adam_fp8(fp8.lists(), scale, amax, inverse, {}, 1);
    double top = 0;
    for (int i = 0; i < 3000; ++i) {
      const float p = plain.p[0].data<float>()[i];
      top = std::max(top, std::fabs(static_cast<double>(p)));
      ASSERT_EQ(fp8.p[0].data<std::uint8_t>()[i],
                encode_float(format, static_cast<double>(p * 24.0f)));
    }
    EXPECT_EQ(values_of(amax[0])[0], top);
    EXPECT_EQ(values_of(inverse[0])[0], static_cast<double>(1.0f / 24));
  }
}

TEST(Adam, ScaledStates) {
  Tensor scale = make_tensor({-1}, {1});
  Tensor codes = Tensor::empty(DType::kE4M3FN, {4});
  const Tensor x = make_tensor({896, -2, 0, std::nan("")}, {4});
  store_scaled_state(x, codes, scale);
  EXPECT_EQ(values_of(scale)[0], 2);
  const auto back = values_of(scaled_state_values(codes, scale));
  EXPECT_EQ(back[0], 896);
  EXPECT_EQ(back[1], -2);
  EXPECT_EQ(back[2], 0);
  EXPECT_TRUE(std::isnan(back[3]));
  Tensor half = Tensor::empty(DType::kF16, {2});
  store_scaled_state(make_tensor({65504, -1}, {2}), half, scale);
  EXPECT_EQ(values_of(scale)[0], 2);  // half of f16's range
  EXPECT_EQ(values_of(half)[0], 32752);
  store_scaled_state(make_tensor({0, 0}, {2}), half, scale);
  EXPECT_EQ(values_of(scale)[0], 0);
  EXPECT_EQ(values_of(scaled_state_values(half, scale)),
            (std::vector<double>{0, 0}));
}

// F39: strided parameters are updated where they are.
TEST(Adam, F39_StridedParametersAreUpdated) {
  const Tensor g = normal_tensor({6, 4}, DType::kF32, 1);
  const Tensor p = normal_tensor({6, 4}, DType::kF32, 2);
  Set plain(g, p), strided(g, p);
  strided.p = one(strided_like(p));
  strided.g = one(strided_like(g));
  multi_tensor_adam(plain.lists(), {}, 1);
  multi_tensor_adam(strided.lists(), {}, 1);
  EXPECT_EQ(values_of(strided.p[0]), values_of(plain.p[0]));
}

TEST(Adam, NonFiniteGradientsPropagate) {
  Set s(make_tensor({std::nan(""), 1}, {2}), make_tensor({1, 1}, {2}));
  multi_tensor_adam(s.lists(), {}, 1);
  EXPECT_TRUE(std::isnan(values_of(s.p[0])[0]));
  EXPECT_TRUE(std::isfinite(values_of(s.p[0])[1]));
}

TEST(Adam, ErrorsNameTheList) {
  Set s(make_tensor({1}, {1}), make_tensor({1}, {1}));
  s.m.clear();
  EXPECT_EQ(error_of([&] { multi_tensor_adam(s.lists(), {}, 1); }),
            "multi_tensor_adam: exp_avg: 0 tensors, expected 1");
  Set t(make_tensor({1}, {1}), make_tensor({1, 2}, {2}));
  EXPECT_EQ(error_of([&] { multi_tensor_adam(t.lists(), {}, 1); }),
            "multi_tensor_adam: params: shape [2], expected [1]");
  Set u(make_tensor({1}, {1}), make_tensor({1}, {1}));
  error_of([&] { multi_tensor_adam(u.lists(), {}, 0); });
}

TEST(Adam, SameBitsForAnyNumberOfThreads) {
  const Tensor g = normal_tensor({300001}, DType::kBF16, 1);
  const Tensor p = normal_tensor({300001}, DType::kF32, 2);
  expect_thread_invariance(
      [&] {
        Set s(g, p);
        multi_tensor_adam(s.lists(), {}, 1);
        return std::vector<Tensor>{s.p[0], s.m[0], s.v[0]};
      },
      "adam");
}

}  // namespace
}  // namespace assay::te
