// Delayed scaling seen from a module: which maxima become which scales, and
// when. Expected scales are worked by hand from docs/numerics.md.
#include "assay/te/quantize/delayed.h"
#include "tests/te/modules/linear_step.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;

recipe::DelayedScaling delayed(std::int64_t length = 4) {
  recipe::DelayedScaling r;
  r.amax_history_len = length;
  return r;
}

// x, dy of the layers below, with a known maximum.
Tensor x_of(double amax) { return with_amax(kBF16, {8, 16}, amax, amax / 8); }
Tensor dy_of(double amax) { return with_amax(kBF16, {8, 32}, amax, amax / 8); }

void fill_weight(Linear& layer, double amax) {
  const Tensor w = with_amax(kBF16, {32, 16}, amax, amax / 4);
  std::memcpy(layer.weight().value->mutable_data(), w.view.data,
              w.view.bytes().size());
}

float scale(Module& layer, const char* direction, int slot) {
  return extra(layer, std::string("scale_") + direction).data<float>()[slot];
}

float history(Module& layer, const char* direction, int row, int slot) {
  const Tensor t = extra(layer, std::string("amax_history_") + direction);
  return t.data<float>()[row * t.shape()[1] + slot];
}

TEST(DelayedScalingModule, ScalesFollowTheMaximaOfEarlierSteps) {
  Linear layer(16, 32, bf16());
  fill_weight(layer, 2);
  // The largest of the last four, the one that drops out included; a zero
  // changes nothing, nor does it push anything out.
  const std::vector<double> amax = {3, 7, 0, 5, 2, 1, 1};
  const std::vector<float> of = {3, 7, 7, 7, 7, 7, 5};
  const std::vector<double> grads = {0.5, 0.25, 0, 1, 0.125, 0.125, 0.125};
  const std::vector<float> of_grad = {0.5f, 0.5f, 0.5f, 1, 1, 1, 1};
  for (std::size_t i = 0; i < amax.size(); ++i) {
    SCOPED_TRACE(i);
    // Used in this step: what the steps before left.
    const float before = i == 0 ? 1.0f : 448.0f / of[i - 1];
    if (i > 0) {
      EXPECT_EQ(scale(layer, "fwd", 0), before);
    }
    run(layer, delayed(), x_of(amax[i]), dy_of(grads[i]));
    EXPECT_EQ(scale(layer, "fwd", 0), 448.0f / of[i]);
    EXPECT_EQ(scale(layer, "fwd", 1), 448.0f / 2);
    EXPECT_EQ(scale(layer, "fwd", 2), 1);  // no FP8 output: never used
    EXPECT_EQ(scale(layer, "bwd", 0), 57344.0f / of_grad[i]);
    EXPECT_EQ(scale(layer, "bwd", 1), 1);
    EXPECT_EQ(history(layer, "fwd", 0, 0), 0);  // the staging row is clear
  }
}

TEST(DelayedScalingModule, QuantisesWithTheScaleOfEarlierSteps) {
  Linear layer(16, 32, bf16());
  run(layer, delayed(), x_of(3), dy_of(1));
  // 448/3 * 6 saturates: the layer sees 3 where x has 6.
  const Tensor x = x_of(6);
  Autocast autocast{delayed()};
  const Tensor y = layer.forward(x);
  auto state = std::make_shared<DelayedScalingState>(4, 2);
  state->scale = filled(DType::kF32, {2}, {448.0f / 3.0f, 1});
  state->scale.mutable_data<float>()[1] = scale(layer, "fwd", 1);
  DelayedScalingQuantizer qx(DType::kE4M3FN, state, 0),
      qw(DType::kE4M3FN, state, 1);
  GemmOptions options;
  options.bias = &*layer.bias()->value;
  const QuantizedTensor codes = qx.quantize(x);
  EXPECT_FLOAT_EQ(static_cast<float>(at(dequantize(codes, DType::kF32), 5)),
                  -3);
  EXPECT_TRUE(same_bits(
      y, gemm_fprop(codes, qw.quantize(*layer.weight().value), options).d));
}

TEST(DelayedScalingModule, MarginAndMostRecent) {
  recipe::DelayedScaling r = delayed();
  r.margin = 2;
  r.amax_compute_algo = AmaxAlgorithm::kMostRecent;
  r.fp8_format = Format::kE4M3;
  Linear layer(16, 32, bf16());
  run(layer, r, x_of(8), dy_of(4));
  run(layer, r, x_of(2), dy_of(0.5));
  EXPECT_EQ(scale(layer, "fwd", 0), 448.0f / 4 / 2);
  EXPECT_EQ(scale(layer, "bwd", 0), 448.0f / 4 / 0.5f);
}

TEST(DelayedScalingModule, BackwardUpdatesOnceByTheFirstModule) {
  Linear first(16, 32, bf16()), second(32, 16, bf16());
  Linear::Context a, b;
  {
    Autocast autocast{delayed()};
    second.forward(first.forward(x_of(1), &a), &b);
    EXPECT_EQ(scale(first, "fwd", 0), 1);
  }
  EXPECT_EQ(scale(first, "fwd", 0), 448);
  second.backward(x_of(4), b);
  EXPECT_EQ(scale(second, "bwd", 0), 1);
  first.backward(dy_of(2), a);
  EXPECT_EQ(scale(second, "bwd", 0), 57344.0f / 4);
  EXPECT_EQ(scale(first, "bwd", 0), 57344.0f / 2);
  EXPECT_EQ(history(second, "bwd", 3, 0), 4);
}

// marin 7659: of several micro-batches only the last maximum was kept.
TEST(DelayedScalingModule, MicrobatchesOfOneRegionKeepTheLargestMaximum) {
  Linear layer(16, 32, bf16());
  std::vector<Linear::Context> contexts(3);
  const double amax[] = {2, 8, 4}, grads[] = {1, 0.25, 0.5};
  {
    Autocast autocast{delayed()};
    for (int i = 0; i < 3; ++i) layer.forward(x_of(amax[i]), &contexts[i]);
  }
  EXPECT_EQ(scale(layer, "fwd", 0), 448.0f / 8);
  EXPECT_EQ(history(layer, "fwd", 3, 0), 8);
  EXPECT_EQ(history(layer, "fwd", 2, 0), 0);  // one row a region
  for (int i = 2; i >= 0; --i) {
    EXPECT_EQ(scale(layer, "bwd", 0), 1) << i;
    layer.backward(dy_of(grads[i]), contexts[i]);
  }
  EXPECT_EQ(scale(layer, "bwd", 0), 57344.0f);
}

TEST(DelayedScalingModule, InferenceChangesNoScale) {
  Linear layer(16, 32, bf16());
  run(layer, delayed(), x_of(2), dy_of(1));
  {
    Autocast autocast{delayed()};
    layer.forward(x_of(64));
  }
  EXPECT_EQ(scale(layer, "fwd", 0), 448.0f / 2);
}

TEST(DelayedScalingModule, F07_StateDoesNotGrow) {
  Linear layer(16, 32, bf16());
  const auto bytes = [&] {
    std::size_t total = 0;
    for (const NamedTensor& t : layer.state_dict())
      total += t.tensor.view.bytes().size();
    return total;
  };
  run(layer, delayed(), x_of(1), dy_of(1));
  const std::size_t after_one = bytes();
  for (int i = 0; i < 200; ++i) run(layer, delayed(), x_of(1), dy_of(1));
  EXPECT_EQ(bytes(), after_one);
  EXPECT_EQ(extra(layer, "amax_history_fwd").shape(), (Shape{4, 3}));
  EXPECT_EQ(extra(layer, "amax_history_bwd").shape(), (Shape{4, 2}));
}

// Grown: rows of zeros behind. Cut: the first rows stay (NVTE).
TEST(DelayedScalingModule, HistoriesTakeAnotherLength) {
  Linear layer(16, 32, bf16());
  for (int i = 1; i <= 20; ++i)
    run(layer, delayed(16), x_of(i), dy_of(1.0 / i));
  // Rows 1 to 15: steps 6 to 20, less the update's shift: row r is step r + 5.
  for (int r = 1; r < 16; ++r) EXPECT_EQ(history(layer, "fwd", r, 0), r + 5);
  run(layer, delayed(4), x_of(2), dy_of(1));
  // Rows 0 to 3 were (staging, 6, 7, 8); the update moved them up.
  const std::vector<float> cut = {0, 7, 8, 2};
  for (int r = 0; r < 4; ++r) EXPECT_EQ(history(layer, "fwd", r, 0), cut[r]);
  EXPECT_EQ(scale(layer, "fwd", 0), 448.0f / 8);
  run(layer, delayed(32), x_of(3), dy_of(1));
  EXPECT_EQ(extra(layer, "amax_history_fwd").shape(), (Shape{32, 3}));
  const std::vector<float> grown = {0, 8, 2, 0};
  for (int r = 0; r < 4; ++r) EXPECT_EQ(history(layer, "fwd", r, 0), grown[r]);
  EXPECT_EQ(history(layer, "fwd", 31, 0), 3);
  EXPECT_EQ(scale(layer, "fwd", 0), 448.0f / 8);
}

TEST(DelayedScalingModule, CheckpointGoesOnWhereItStopped) {
  Linear kept(16, 32, bf16()), loaded(16, 32, bf16()), late(16, 32, bf16());
  for (int i = 1; i <= 5; ++i) run(kept, delayed(), x_of(i), dy_of(0.5 * i));
  std::vector<NamedTensor> saved;
  for (const NamedTensor& t : kept.state_dict())
    saved.push_back({t.name, copy_of(t.tensor)});
  kept.zero_grad();
  loaded.load_state_dict(saved);  // before the first pass: kept for it
  run(late, delayed(), x_of(1), dy_of(1));
  late.zero_grad();
  late.load_state_dict(saved);  // over histories that are there
  for (int i = 0; i < 3; ++i) {
    const Tensor x = normal_tensor(kBF16, {8, 16}, i);
    const Tensor dy = normal_tensor(kBF16, {8, 32}, i + 10);
    const Step expected = run(kept, delayed(), x, dy);
    expect_same_step(run(loaded, delayed(), x, dy), expected, "loaded");
    expect_same_step(run(late, delayed(), x, dy), expected, "late");
  }
  EXPECT_TRUE(same_bits(extra(kept, "amax_history_bwd"),
                        extra(loaded, "amax_history_bwd")));
  EXPECT_TRUE(same_bits(extra(kept, "scale_fwd"), extra(late, "scale_fwd")));
}

TEST(DelayedScalingModule, CalibratingRecordsAndComputesInHighPrecision) {
  Linear layer(16, 32, bf16());
  fill_weight(layer, 2);
  const Tensor x = normal_tensor(kBF16, {8, 16}, 1);
  const Tensor plain = layer.forward(x);
  Linear::Context context;
  {
    Autocast autocast(AutocastOptions{
        .enabled = false, .calibrating = true, .recipe = delayed()});
    EXPECT_TRUE(same_bits(layer.forward(x, &context), plain));
  }
  float amax = 0;
  for (int i = 0; i < x.numel(); ++i)
    amax = std::max(amax, std::fabs(static_cast<float>(at(x, i))));
  EXPECT_EQ(history(layer, "fwd", 0, 0), amax);
  EXPECT_EQ(history(layer, "fwd", 0, 1), 2);
  EXPECT_EQ(scale(layer, "fwd", 0), 1);
  // The backward is a plain one.
  const Tensor dy = dy_of(1);
  EXPECT_TRUE(same_bits(layer.backward(dy, context),
                        gemm_dgrad(dy, *layer.weight().value).d));
  // The next region's update takes them in.
  run(layer, delayed(), x_of(1), dy);
  EXPECT_EQ(scale(layer, "fwd", 0), 448.0f / amax);
}

TEST(DelayedScalingModule, CalibratingInsideAnotherScopeUpdatesNothing) {
  Linear outer(16, 32, bf16()), inner(16, 32, bf16());
  Linear::Context a, b;
  {
    Autocast autocast{delayed()};
    outer.forward(x_of(4), &a);
    Autocast calibrate(AutocastOptions{
        .enabled = false, .calibrating = true, .recipe = delayed()});
    inner.forward(x_of(4), &b);
  }
  EXPECT_EQ(scale(outer, "fwd", 0), 448.0f / 4);
  EXPECT_EQ(scale(inner, "fwd", 0), 1);
  EXPECT_EQ(history(inner, "fwd", 0, 0), 4);
}

// A group whose other processes have seen `others`.
class FakeGroup : public AmaxReduction {
 public:
  explicit FakeGroup(std::vector<float> others) : others_(std::move(others)) {}
  void reduce_max(float* values, std::int64_t count) override {
    counts.push_back(count);
    for (std::int64_t i = 0; i < count; ++i)
      values[i] = std::max(values[i], others_[static_cast<std::size_t>(i)]);
  }
  std::vector<std::int64_t> counts;

 private:
  std::vector<float> others_;
};

TEST(DelayedScalingModule, MaximaAreThoseOfTheGroup) {
  Linear first(16, 32, bf16()), second(32, 16, bf16());
  fill_weight(first, 2);
  const auto group =
      std::make_shared<FakeGroup>(std::vector<float>{16, 1, 0, 0, 0, 0});
  Linear::Context a, b;
  {
    Autocast autocast(
        AutocastOptions{.recipe = delayed(), .amax_reduction = group});
    second.forward(first.forward(x_of(4), &a), &b);
  }
  // One call for the region: input, weight, output of both modules.
  EXPECT_EQ(group->counts, (std::vector<std::int64_t>{6}));
  EXPECT_EQ(scale(first, "fwd", 0), 448.0f / 16);
  EXPECT_EQ(scale(first, "fwd", 1), 448.0f / 2);
  second.backward(x_of(4), b);
  EXPECT_EQ(group->counts.size(), 1u);
  first.backward(dy_of(8), a);
  EXPECT_EQ(group->counts, (std::vector<std::int64_t>{6, 4}));
  EXPECT_EQ(scale(first, "bwd", 0), 57344.0f / 16);
  EXPECT_EQ(scale(second, "bwd", 0), 57344.0f / 4);
}

TEST(DelayedScalingModule, ReduceAmaxFalseAsksNobody) {
  Linear layer(16, 32, bf16());
  recipe::DelayedScaling r = delayed();
  r.reduce_amax = false;
  const auto group = std::make_shared<FakeGroup>(std::vector<float>(6, 100));
  Linear::Context context;
  {
    Autocast autocast(AutocastOptions{.recipe = r, .amax_reduction = group});
    layer.forward(x_of(4), &context);
  }
  layer.backward(dy_of(1), context);
  EXPECT_TRUE(group->counts.empty());
  EXPECT_EQ(scale(layer, "fwd", 0), 448.0f / 4);
}

// A backward works with what its forward quantised, whatever the layer has
// done since.
TEST(DelayedScalingModule, RecipesMayChangeBetweenForwardAndBackward) {
  const Tensor x = normal_tensor(kBF16, {32, 32}, 1);
  const Tensor dy = normal_tensor(kBF16, {32, 32}, 2);
  Linear mixed(32, 32, bf16()), alone(32, 32, bf16());
  copy_parameters(mixed, alone);
  const Recipe other = recipe::MXFP8BlockScaling{};
  Linear::Context first, second;
  Tensor y1, y2;
  {
    Autocast autocast{delayed()};
    y1 = mixed.forward(x, &first);
  }
  {
    Autocast autocast(other);
    y2 = mixed.forward(x, &second);
  }
  Step step2 = {y2, mixed.backward(dy, second), *mixed.weight().grad,
                *mixed.bias()->grad};
  expect_same_step(step2, run(alone, other, x, dy), "mxfp8");
  mixed.zero_grad();
  alone.zero_grad();
  Step step1 = {y1, mixed.backward(dy, first), *mixed.weight().grad,
                *mixed.bias()->grad};
  Linear fresh(32, 32, bf16());
  copy_parameters(mixed, fresh);
  expect_same_step(step1, run(fresh, delayed(), x, dy), "delayed");
  // And back: histories begin anew, as in NVTE.
  mixed.zero_grad();
  fresh.zero_grad();
  Linear anew(32, 32, bf16());
  copy_parameters(mixed, anew);
  expect_same_step(run(mixed, delayed(), x, dy), run(anew, delayed(), x, dy),
                   "delayed again");
  EXPECT_EQ(mixed.extra_state().size(), 4u);
}

}  // namespace
}  // namespace assay::te
