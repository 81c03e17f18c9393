// Clipping, loss scaling and schedules against torch's and Megatron's numbers.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "assay/te/optim/grad_clip.h"
#include "assay/te/optim/loss_scaler.h"
#include "assay/te/optim/schedule.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

// torch.nn.utils.clip_grad_norm_([3, 4], [12], 6.5) in float64.
TEST(GradClip, FollowsTorch) {
  std::vector<Tensor> g = {make_tensor({3, 4}, {2}), make_tensor({12}, {1})};
  EXPECT_EQ(clip_grad_norm(g, 6.5), 13);
  EXPECT_NEAR(values_of(g[0])[0], 1.4999998846153937, 2e-7);
  EXPECT_NEAR(values_of(g[0])[1], 1.9999998461538582, 2e-7);
  EXPECT_NEAR(values_of(g[1])[0], 5.999999538461575, 1e-6);
}

TEST(GradClip, LeavesWhatIsShortEnough) {
  std::vector<Tensor> g = {make_tensor({3, 4}, {2}, DType::kBF16),
                           make_tensor({12}, {1})};
  EXPECT_EQ(clip_grad_norm(g, 13.5), 13);
  EXPECT_EQ(values_of(g[0]), (std::vector<double>{3, 4}));
  std::vector<Tensor> none;
  EXPECT_EQ(clip_grad_norm(none, 1), 0);
}

TEST(GradClip, ANormThatIsNotFiniteChangesNothing) {
  for (double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    std::vector<Tensor> g = {make_tensor({3, bad}, {2})};
    EXPECT_FALSE(std::isfinite(clip_grad_norm(g, 1)));
    EXPECT_EQ(values_of(g[0])[0], 3);
  }
  std::vector<Tensor> g = {make_tensor({3}, {1})};
  EXPECT_THAT(error_of([&] { clip_grad_norm(g, 0); }),
              HasSubstr("clip_grads: max_norm: 0, expected a number above 0"));
}

std::vector<double> scales(LossScaler scaler, const std::vector<int>& found) {
  std::vector<double> out;
  for (int f : found) {
    scaler.update(f != 0);
    out.push_back(static_cast<double>(scaler.scale()));
  }
  return out;
}

// torch._amp_update_scale_(scale, tracker, found, 2, .5, 3) from 1024.
TEST(LossScaler, FollowsTorch) {
  EXPECT_EQ(scales(LossScaler({.init_scale = 1024, .growth_interval = 3}),
                   {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0}),
            (std::vector<double>{1024, 1024, 2048, 1024, 1024, 1024, 512, 256,
                                 256, 256, 512, 512}));
}

// megatron-core 0.16.1, DynamicGradScaler(1024, 100, 2, .5, 3, 2).
TEST(LossScaler, FollowsMegatron) {
  EXPECT_EQ(scales(LossScaler({.init_scale = 1024,
                               .growth_interval = 3,
                               .min_scale = 100,
                               .hysteresis = 2}),
                   {1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0}),
            (std::vector<double>{1024, 512, 256, 128, 100, 100, 100, 200, 200,
                                 200, 100, 100}));
}

TEST(LossScaler, UnscalesInPlaceAndSeesOverflow) {
  LossScaler scaler({.init_scale = 8});
  std::vector<Tensor> g = {make_tensor({16, -4}, {2}, DType::kF16),
                           make_tensor({1}, {1})};
  EXPECT_FALSE(scaler.unscale(g));
  EXPECT_EQ(values_of(g[0]), (std::vector<double>{2, -.5}));
  EXPECT_EQ(values_of(g[1])[0], .125);
  g[1] = make_tensor({std::nan("")}, {1});
  EXPECT_TRUE(scaler.unscale(g));
  g[1] = make_tensor({-std::numeric_limits<double>::infinity()}, {1});
  EXPECT_TRUE(scaler.unscale(g));
}

TEST(LossScaler, TheScaleStaysFinite) {
  LossScaler scaler({.init_scale = 0x1p127f, .growth_interval = 1});
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 0x1p127f);
}

// Gradients are divided by it: its inverse stays finite too.
TEST(LossScaler, TheScaleCanAlwaysBeUndone) {
  LossScaler scaler;
  for (int i = 0; i < 400; ++i) scaler.update(true);
  EXPECT_EQ(scaler.scale(), 0x1p-126f);
  LossScaler resumed;
  resumed.load_state_dict(scaler.state_dict());
  EXPECT_EQ(resumed.scale(), 0x1p-126f);
  std::vector<Tensor> g = {make_tensor({0, 1}, {2})};
  EXPECT_FALSE(scaler.unscale(g));
  EXPECT_EQ(values_of(g[0]), (std::vector<double>{0, 0x1p126}));
  EXPECT_THAT(error_of([] { LossScaler({.init_scale = 1e-40f}); }),
              HasSubstr("LossScaler: init_scale: "));
}

TEST(LossScaler, RefusesCountsThatCannotBe) {
  for (const char* name : {"growth_tracker", "hysteresis_tracker"}) {
    LossScaler scaler;
    auto state = scaler.state_dict();
    for (NamedTensor& t : state)
      if (t.name == name) *t.tensor.mutable_data<std::int64_t>() = -1;
    EXPECT_THAT(
        error_of([&] { scaler.load_state_dict(state); }),
        HasSubstr(std::string("LossScaler: ") + name + ": -1, expected >= 0"));
  }
}

TEST(LossScaler, ResumesWhereItWas) {
  LossScaler a({.growth_interval = 3, .hysteresis = 2});
  for (int f : {0, 1, 1, 0, 0}) a.update(f != 0);
  LossScaler b({.growth_interval = 3, .hysteresis = 2});
  b.load_state_dict(a.state_dict());
  for (int f : {1, 0, 0, 0, 1}) {
    a.update(f != 0);
    b.update(f != 0);
    EXPECT_EQ(a.scale(), b.scale());
  }
  EXPECT_EQ(a.scale(), 0x1p15f);
  EXPECT_THAT(error_of([&] { b.load_state_dict({}); }),
              HasSubstr("LossScaler: loss_scale: missing"));
}

// megatron-core 0.16.1, OptimizerParamScheduler.get_lr with init_lr=1e-5,
// max_lr=3e-4, min_lr=3e-5, lr_warmup_steps=10, lr_decay_steps=100, at steps 0,
// 5, 10, 11, 55, 85, 100, 101.
TEST(Schedule, FollowsMegatron) {
  struct Case {
    DecayStyle style;
    WsdStyle wsd;
    std::vector<double> tail;  // from step 11
  };
  const Case cases[] = {
      {DecayStyle::kConstant, {}, {3e-4, 3e-4, 3e-4, 3e-4, 3e-4}},
      {DecayStyle::kLinear, {}, {0.000297, 0.000165, 0.000075, 3e-5, 3e-5}},
      {DecayStyle::kCosine,
       {},
       {0.00029991776164757793, 0.000165, 4.808657048910077e-05, 3e-5, 3e-5}},
      {DecayStyle::kInverseSquareRoot,
       {},
       {0.00028603877677367773, 0.00012792042981336625, 0.0001028991510855053,
        9.486832980505138e-05, 3e-5}},
      {DecayStyle::kWsd, WsdStyle::kLinear, {3e-4, 3e-4, 2.325e-4, 3e-5, 3e-5}},
      {DecayStyle::kWsd,
       WsdStyle::kCosine,
       {3e-4, 3e-4, 0.0002604594154601839, 3e-5, 3e-5}},
      {DecayStyle::kWsd,
       WsdStyle::kExponential,
       {3e-4, 3e-4, 0.0002140840642370058, 3e-5, 3e-5}},
      {DecayStyle::kWsd,
       WsdStyle::kMinusSqrt,
       {3e-4, 3e-4, 0.000165, 3e-5, 3e-5}},
  };
  const std::int64_t steps[] = {0, 5, 10, 11, 55, 85, 100, 101};
  for (const Case& c : cases) {
    const LrSchedule s{.init_lr = 1e-5,
                       .max_lr = 3e-4,
                       .min_lr = 3e-5,
                       .warmup_steps = 10,
                       .decay_steps = 100,
                       .style = c.style,
                       .wsd_decay_steps = 20,
                       .wsd_style = c.wsd};
    std::vector<double> want = {1e-5, 1.55e-4, 3e-4};
    want.insert(want.end(), c.tail.begin(), c.tail.end());
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(learning_rate(s, steps[i]), want[i], 1e-18)
          << static_cast<int>(c.style) << " at " << steps[i];
  }
}

// The same without a warm-up: the first step has the full rate; and get_wd
// from .01 to .1 in 50 steps, at 0, 10, 25, 50, 51.
TEST(Schedule, WithoutWarmUpAndWeightDecay) {
  const LrSchedule s{
      .init_lr = 1e-5, .max_lr = 3e-4, .min_lr = 3e-5, .decay_steps = 100};
  EXPECT_NEAR(learning_rate(s, 0), 3e-4, 1e-18);
  EXPECT_NEAR(learning_rate(s, 1), 0.00029993338564937377, 1e-18);
  WeightDecaySchedule w{.01, .1, 50, DecayStyle::kLinear};
  const std::int64_t steps[] = {0, 10, 25, 50, 51};
  const double linear[] = {.01, .028, .055, .1, .1};
  const double cosine[] = {.01, 0.01859423525312737, .055, .1, .1};
  for (int i = 0; i < 5; ++i) {
    w.style = DecayStyle::kLinear;
    EXPECT_NEAR(weight_decay_at(w, steps[i]), linear[i], 1e-16);
    w.style = DecayStyle::kCosine;
    EXPECT_NEAR(weight_decay_at(w, steps[i]), cosine[i], 1e-16);
  }
  EXPECT_EQ(weight_decay_at({.1, .1, 1, DecayStyle::kConstant}, 7), .1);
}

TEST(Schedule, ErrorsNameTheOption) {
  EXPECT_THAT(error_of([] {
                learning_rate(
                    {.init_lr = -1, .warmup_steps = 1, .decay_steps = 5}, 0);
              }),
              HasSubstr("learning_rate: init_lr: -1, expected at least 0"));
  EXPECT_THAT(error_of([] { learning_rate({.max_lr = 1, .min_lr = 2}, 0); }),
              HasSubstr("learning_rate: max_lr: 1"));
  EXPECT_THAT(
      error_of([] { learning_rate({.warmup_steps = 5, .decay_steps = 5}, 0); }),
      HasSubstr("warmup_steps: 5"));
  EXPECT_THAT(error_of([] {
                learning_rate({.decay_steps = 5, .style = DecayStyle::kWsd}, 0);
              }),
              HasSubstr("wsd_decay_steps: 0"));
  EXPECT_THAT(error_of([] { learning_rate({}, -1); }), HasSubstr("step: -1"));
  EXPECT_THAT(error_of([] {
                weight_decay_at({0, 1}, 0);
              }),
              HasSubstr("weight_decay_at: style: constant with two values"));
}

}  // namespace
}  // namespace assay::te
