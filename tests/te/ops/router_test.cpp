// The router: values by hand, ties, groups, gradients by differences.
#include "assay/te/ops/router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "assay/te/precision.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

constexpr Device kRef = Device::kReference;
using Ints = std::vector<std::int32_t>;

Ints indices(const RouterOutput& out) {
  const Tensor& t = out.topk_indices;
  return {t.data<std::int32_t>(), t.data<std::int32_t>() + t.numel()};
}

TEST(Router, SoftmaxBeforeAndAfterByHand) {
  const Tensor x =
      make_tensor({std::log(1.0), std::log(2.0), std::log(5.0)}, {1, 3});
  RouterOptions o{.topk = 2, .use_pre_softmax = true};
  expect_close(router_topk_forward(x, o).probs,
               make_tensor({0, .25, .625}, {1, 3}), 1e-6, 0, "pre");
  o.use_pre_softmax = false;
  expect_close(router_topk_forward(x, o).probs,
               make_tensor({0, 2.0 / 7, 5.0 / 7}, {1, 3}), 1e-6, 0, "post");
  o.scaling_factor = 7;
  const RouterOutput out = router_topk_forward(x, o);
  expect_close(out.probs, make_tensor({0, 2, 5}, {1, 3}), 1e-6, 0, "scaled");
  EXPECT_EQ(indices(out), (Ints{2, 1}));
  EXPECT_EQ(values_of(out.tokens_per_expert), (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(values_of(out.routing_map), (std::vector<double>{0, 1, 1}));
}

// sigmoid(0) = 1/2, sigmoid(log 3) = 3/4; the bias turns the choice only.
TEST(Router, SigmoidBiasMovesTheChoiceNotTheWeights) {
  const Tensor x = make_tensor({0, std::log(3.0), 0, std::log(3.0)}, {1, 4});
  const Tensor bias = make_tensor({1, 0, 2, -1}, {4});
  RouterOptions o{.topk = 2, .score_function = ScoreFunction::kSigmoid};
  const RouterOutput out = router_topk_forward(x, o, bias);
  EXPECT_EQ(indices(out), (Ints{2, 0}));
  expect_close(out.probs, make_tensor({.5, 0, .5, 0}, {1, 4}), 1e-6, 0, "k 2");
  o.topk = 1;  // not divided by its sum
  expect_close(router_topk_forward(x, o).probs,
               make_tensor({0, .75, 0, 0}, {1, 4}), 1e-6, 0, "k 1");
}

TEST(Router, T18_BiasWithSoftmaxIsAnError) {
  const Tensor x = normal_tensor({2, 4}, DType::kF32, 1);
  EXPECT_EQ(error_of([&] {
              router_topk_forward(x, {.topk = 2},
                                  normal_tensor({4}, DType::kF32, 1));
            }),
            "router_topk_forward: expert_bias: given with softmax scores, "
            "expected sigmoid or sqrtsoftplus scores, or none");
}

// Two of four groups: the best expert of all sits in a group that loses.
TEST(Router, GroupsLimitTheChoice) {
  const Tensor x = make_tensor({9, 0, 5, 6, 1, 1, 7, 3}, {1, 8});
  RouterOptions o{
      .topk = 4, .use_pre_softmax = true, .num_groups = 4, .group_topk = 2};
  o.score_function = ScoreFunction::kSqrtSoftplus;
  // Group sums of the two best: groups 1 (5, 6) and 3 (7, 3) beat (9, 0) for
  // the square root flattens it.
  EXPECT_EQ(indices(router_topk_forward(x, o)), (Ints{6, 3, 2, 7}));
  o.topk = 2;  // one member a group: now 9 and 7 win
  EXPECT_EQ(indices(router_topk_forward(x, o)), (Ints{0, 6}));
  o.topk = 3;
  error_of([&] { router_topk_forward(x, o); });
  o.num_groups = 3;
  error_of([&] { router_topk_forward(x, o); });
}

// F50: equal scores have one documented winner.
TEST(Router, F50_TiesGoToTheLowestExpert) {
  for (Device device : {Device::kCpu, kRef}) {
    const Tensor x =
        make_tensor({1, 1, 1, 1, 1, 1}, {1, 6}, DType::kF32, device);
    for (ScoreFunction f : {ScoreFunction::kSigmoid, ScoreFunction::kSoftmax,
                            ScoreFunction::kSqrtSoftplus}) {
      RouterOptions o{.topk = 3, .score_function = f};
      EXPECT_EQ(indices(router_topk_forward(x, o)), (Ints{0, 1, 2}));
    }
  }
}

// Whatever the logits hold, every token has topk different experts.
TEST(Router, NonFiniteLogitsStillRoute) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  const Tensor x =
      make_tensor({nan, nan, nan, nan, -inf, -inf, nan, -inf}, {2, 4});
  for (bool pre : {false, true}) {
    RouterOptions o{.topk = 3, .use_pre_softmax = pre};
    const RouterOutput out = router_topk_forward(x, o);
    for (int t = 0; t < 2; ++t) {
      const Ints all = indices(out);
      const std::set<std::int32_t> chosen(all.begin() + 3 * t,
                                          all.begin() + 3 * t + 3);
      EXPECT_EQ(chosen.size(), 3u);
    }
  }
}

struct Named {
  const char* name;
  RouterOptions options;
};

std::vector<Named> variants() {
  using enum ScoreFunction;
  return {{"softmax post", {.topk = 3}},
          {"softmax pre",
           {.topk = 3, .use_pre_softmax = true, .scaling_factor = 2.5}},
          {"sigmoid", {.topk = 3, .score_function = kSigmoid}},
          {"sigmoid top 1", {.topk = 1, .score_function = kSigmoid}},
          {"groups",
           {.topk = 2,
            .score_function = kSigmoid,
            .num_groups = 4,
            .group_topk = 2}},
          {"sqrtsoftplus", {.topk = 3, .score_function = kSqrtSoftplus}}};
}

TEST(Router, GradientsByDifferences) {
  for (const auto& [name, options] : variants()) {
    // Far apart, so that a step does not change the choice.
    Tensor x = make_tensor({.1, .9, -.7, .5, -1.2, 1.6, -.2, 1.3,  //
                            2, .3, -.5, 1.1, .7, -1.5, -.9, 1.5},
                           {2, 8}, DType::kF32, kRef);
    const Tensor dp = normal_tensor({2, 8}, DType::kF32, 2, kRef);
    const RouterOutput out = router_topk_forward(x, options);
    const Tensor dx =
        router_topk_backward(dp, out.routing_map, out.saved, options);
    expect_gradient(
        [&](const Tensor& at) {
          return router_topk_forward(at, options).probs;
        },
        x, dp, dx, 1e-4, name);
  }
  for (ScoreFunction f : {ScoreFunction::kSigmoid, ScoreFunction::kSoftmax,
                          ScoreFunction::kSqrtSoftplus}) {
    const Tensor x = normal_tensor({2, 5}, DType::kF32, 1, kRef);
    const Tensor ds = normal_tensor({2, 5}, DType::kF32, 2, kRef);
    const AuxScores out = router_aux_scores_forward(x, 2, f);
    expect_gradient(
        [&](const Tensor& at) {
          return router_aux_scores_forward(at, 2, f).scores;
        },
        x, ds, router_aux_scores_backward(ds, out.saved, f, DType::kF32), 1e-4,
        "aux");
  }
}

TEST(Router, AgreesWithTheReferenceDevice) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (std::int64_t experts : {8, 16, 24, 128, 136})
      for (const auto& [name, options] : variants()) {
        const Tensor x = normal_tensor({70, experts}, dtype, 1);
        const RouterOutput ours = router_topk_forward(x, options);
        const RouterOutput theirs = router_topk_forward(on(kRef, x), options);
        const double rtol = 4 * unit_roundoff(dtype) + 2e-6;
        // Near ties may fall either way where scores are equal in fp32.
        if (dtype == DType::kF32) {
          EXPECT_TRUE(same_bits(ours.routing_map, theirs.routing_map)) << name;
          expect_close(ours.probs, theirs.probs, rtol, 1e-7, name);
        }
        const Tensor dp = normal_tensor({70, experts}, dtype, 2);
        expect_close(
            router_topk_backward(dp, ours.routing_map, ours.saved, options),
            router_topk_backward(on(kRef, dp), on(kRef, ours.routing_map),
                                 on(kRef, ours.saved), options),
            rtol, 1e-6, name);
      }
}

TEST(Router, AuxLossByHand) {
  // 2 tokens, 2 experts: 2 * 0.5 / (1 * 4) * (3 * 0.4 + 1 * 1.6) = 0.7
  const Tensor probs = make_tensor({.1, .9, .3, .7}, {2, 2});
  Tensor tokens = Tensor::empty(DType::kI32, {2});
  tokens.mutable_data<std::int32_t>()[0] = 3;
  tokens.mutable_data<std::int32_t>()[1] = 1;
  const AuxLossOptions o{
      .total_num_tokens = 2, .num_experts = 2, .topk = 1, .coeff = .5};
  EXPECT_NEAR(values_of(moe_aux_loss_forward(probs, tokens, o))[0], .7, 1e-7);
  expect_close(moe_aux_loss_backward(make_tensor({2}, {1}), tokens, 2, o),
               make_tensor({1.5, .5, 1.5, .5}, {2, 2}), 1e-7, 0, "gradient");
  error_of([&] { moe_aux_loss_forward(probs, tokens, {.num_experts = 2}); });
}

TEST(Router, QuantileHistogramAccumulates) {
  const Tensor x = normal_tensor({40, 6}, DType::kF32, 1);
  const Tensor bias = normal_tensor({6}, DType::kF32, 2, Device::kCpu, .1);
  const Tensor bounds = make_tensor({-1, 1}, {2});
  const QuantileOutput once = router_quantile_forward(x, 2, bias, bounds, 8);
  const QuantileOutput twice =
      router_quantile_forward(x, 2, bias, bounds, 8, 1.0, once.histogram);
  const auto a = values_of(once.histogram), b = values_of(twice.histogram);
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(b[i], 2 * a[i]);
    total += a[i];
  }
  EXPECT_EQ(total, 40 * 6);
  // Below the cutoff nobody is routed, above it everybody.
  for (std::int64_t t = 0; t < 40; ++t)
    for (std::int64_t e = 0; e < 6; ++e) {
      const double s =
          once.routed.saved.data<float>()[t * 6 + e] + bias.data<float>()[e];
      if (once.routed.routing_map.data<std::uint8_t>()[t * 6 + e])
        EXPECT_GE(s, once.cutoff.data<float>()[t]);
      else
        EXPECT_LE(s, once.cutoff.data<float>()[t]);
    }
  error_of([&] { router_quantile_forward(x, 6, bias, bounds, 8); });
}

TEST(Router, NumbersOutsideTheirRangeAreRefused) {
  const Tensor x = normal_tensor({4, 8}, DType::kF32, 1);
  const auto of = [&](const RouterOptions& o) {
    return error_of([&] { router_topk_forward(x, o); });
  };
  EXPECT_EQ(of({.topk = 2, .num_groups = -3}),
            "router_topk_forward: num_groups: -3, expected 0, or a divisor of "
            "the number of experts, 8");
  EXPECT_EQ(of({.topk = 2, .num_groups = 2, .group_topk = -1}),
            "router_topk_forward: group_topk: -1, expected 1 to num_groups, 2");
  EXPECT_EQ(of({.topk = 2, .scaling_factor = std::nan("")}),
            "router_topk_forward: scaling_factor: nan, expected a finite "
            "number");
  const Tensor bias = Tensor::zeros(DType::kF32, {8});
  const Tensor bounds = make_tensor({-1, 1}, {2});
  const auto quantile = [&](const Tensor& logits, std::int64_t topk) {
    return error_of(
        [&] { router_quantile_forward(logits, topk, bias, bounds, 4); });
  };
  EXPECT_EQ(quantile(make_tensor({1}, {}), 0),
            "router_quantile_forward: logits: a 0-d tensor, expected at least "
            "1 dimension");
  EXPECT_EQ(quantile(x, 0),
            "router_quantile_forward: topk: 0, expected at least 1 and less "
            "than the number of experts, 8");
}

TEST(Router, BitmapsAreLsbFirst) {
  Tensor map = Tensor::zeros(DType::kBool, {1, 10});
  for (int e : {0, 3, 9}) map.mutable_data<std::uint8_t>()[e] = 1;
  const Tensor bits = pack_routing_map(map);
  EXPECT_EQ(values_of(bits), (std::vector<double>{0b1001, 0b10}));
  EXPECT_TRUE(same_bits(unpack_routing_map(bits, 10), map));
}

TEST(Router, EmptyStridedPrecisionsThreads) {
  const RouterOutput none =
      router_topk_forward(Tensor::empty(DType::kF32, {0, 4}), {.topk = 2});
  EXPECT_EQ(none.probs.shape(), (Shape{0, 4}));
  EXPECT_EQ(values_of(none.tokens_per_expert), std::vector<double>(4, 0.0));
  const Tensor x = normal_tensor({300, 64}, DType::kF32, 1);
  EXPECT_TRUE(same_bits(router_topk_forward(strided_like(x), {.topk = 4}).probs,
                        router_topk_forward(x, {.topk = 4}).probs));
  const RouterOptions o{.topk = 8, .use_pre_softmax = true};
  const Tensor plain = router_topk_forward(x, o).probs;
  for (InternalPrecision p : kInternalPrecisions) {
    PrecisionScope scope("router", p);
    expect_close(router_topk_forward(x, o).probs, plain, 1e-5, 1e-8,
                 std::string(precision_name(p)));
  }
  expect_thread_invariance(
      [&] {
        const RouterOutput out = router_topk_forward(x, o);
        return std::vector<Tensor>{out.probs, out.tokens_per_expert};
      },
      "router");
}

}  // namespace
}  // namespace assay::te
