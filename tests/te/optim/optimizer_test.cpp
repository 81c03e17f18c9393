// Optimizers with state: torch's numbers, masters, scaled states, quantised
// parameters, and a resumed run against one without a break.
#include "assay/te/optim/optimizer.h"

#include <gmock/gmock.h>

#include <cmath>

#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/mxfp8.h"
#include "tests/te/absent.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

// What the torch script stepped over: p = [1, -0.5, 0.25, 2] and gradients of
// step k = 1 .. 5.
Tensor torch_param() { return make_tensor({1, -.5, .25, 2}, {4}); }
Tensor torch_grad(int k) {
  const double s = k;
  return make_tensor(
      {.1 * s, -.3, .05 * s * s - .4, (k % 2 != 0 ? -1 : 1) * 1.5}, {4});
}

OptimizerParameter plain(const std::string& name, const Tensor& value) {
  return {.name = name, .value = value};
}

Tensor copy_of(const Tensor& t) {
  Tensor out = Tensor::empty(t.dtype(), t.shape(), t.device);
  gather(t.view, 0, t.numel(), out.mutable_data());
  return out;
}

void expect_after_five(Optimizer& optimizer, const Tensor& param,
                       const std::vector<double>& want) {
  for (int k = 1; k <= 5; ++k) {
    std::vector<Tensor> grads = {torch_grad(k)};
    EXPECT_TRUE(optimizer.step(grads));
  }
  EXPECT_EQ(optimizer.step_count(), 5);
  const auto found = values_of(param);
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(found[i], want[i], 1e-6) << i;
}

// torch 2.13 in float64: torch.optim.AdamW and .Adam([p], lr=.01,
// betas=(.9, .95), eps=1e-8, weight_decay=.1), five steps.
TEST(FusedAdam, FollowsTorch) {
  FusedAdamOptions o{.lr = .01, .beta1 = .9, .beta2 = .95, .weight_decay = .1};
  const Tensor p = torch_param(), q = torch_param();
  FusedAdam adamw(one_group({plain("p", p)}), o);
  expect_after_five(adamw, p,
                    {0.9472569652695643, -0.447604896715826, 0.2700691634854339,
                     2.0043248833765417});
  o.adam_w_mode = false;
  FusedAdam l2(one_group({plain("p", q)}), o);
  expect_after_five(l2, q,
                    {0.9509291411127565, -0.45000659983024394,
                     0.2692453082548043, 2.0091333129816515});
}

// torch.optim.SGD([p], lr=.05), with (momentum=.9, dampening=.1,
// weight_decay=.01), with (momentum=.9, nesterov=True, weight_decay=.01).
TEST(FusedSGD, FollowsTorch) {
  const FusedSGDOptions options[3] = {
      {.lr = .05},
      {.lr = .05, .momentum = .9, .dampening = .1, .weight_decay = .01},
      {.lr = .05, .momentum = .9, .weight_decay = .01, .nesterov = true}};
  const std::vector<double> want[3] = {
      {0.925, -0.425, 0.2125, 2.075},
      {0.8492819328304325, -0.3135554106770677, 0.2723797077704735,
       2.1845588952063872},
      {0.7742390213422828, -0.24386926111427396, 0.22694996205913182,
       2.223899485427158}};
  for (int i = 0; i < 3; ++i) {
    const Tensor p = torch_param();
    FusedSGD sgd(one_group({plain("p", p)}), options[i]);
    expect_after_five(sgd, p, want[i]);
  }
}

TEST(FusedAdam, F31_DecayUsesTheParameterBeforeTheStep) {
  const Tensor p = make_tensor({1}, {1});
  FusedAdam adam(one_group({plain("p", p)}),
                 {.lr = .1, .eps = 0, .weight_decay = .1});
  std::vector<Tensor> g = {make_tensor({1}, {1})};
  adam.step(g);
  EXPECT_NEAR(values_of(p)[0], 0.89, 1e-7);  // after it: 0.891
}

// F39: a strided parameter is updated where it is, with masters too.
TEST(FusedAdam, F39_StridedParametersAreUpdated) {
  const Tensor start = normal_tensor({6, 4}, DType::kBF16, 1);
  const Tensor whole = copy_of(start), strided = strided_like(start);
  for (bool master : {false, true}) {
    FusedAdam a(one_group({plain("p", whole)}), {.master_weights = master});
    FusedAdam b(one_group({plain("p", strided)}), {.master_weights = master});
    std::vector<Tensor> g = {normal_tensor({6, 4}, DType::kBF16, 2)};
    a.step(g);
    b.step(g);
    EXPECT_EQ(values_of(whole), values_of(strided));
  }
  EXPECT_NE(values_of(whole), values_of(start));
}

// Groups: own rates, and multiples of what the schedule sets.
TEST(FusedSGD, GroupsHaveTheirOwnRates) {
  std::vector<Tensor> p, g;
  for (int i = 0; i < 3; ++i) {
    p.push_back(make_tensor({1}, {1}));
    g.push_back(make_tensor({1}, {1}));
  }
  std::vector<ParameterGroup> groups(3);
  for (std::size_t i = 0; i < 3; ++i)
    groups[i].parameters = {plain(std::string(i + 1, 'p'), p[i])};
  groups[1].lr = .5;
  groups[1].weight_decay = 0;
  groups[2].lr_mult = 2;
  groups[2].wd_mult = 0;
  FusedSGD sgd(std::move(groups), {.lr = .25, .weight_decay = 1});
  sgd.step(g);
  EXPECT_EQ(values_of(p[0])[0], 1 - .25 * 2);
  EXPECT_EQ(values_of(p[1])[0], .5);
  sgd.set_lr(.125);
  sgd.set_weight_decay(.5);
  EXPECT_EQ(sgd.lr(0), .125);
  EXPECT_EQ(sgd.lr(2), .25);
  EXPECT_EQ(sgd.weight_decay(1), .5);
  EXPECT_EQ(sgd.weight_decay(2), 0);
}

// bf16 with a master is the rounding of the fp32 run, in both ways of keeping
// it; without one, small updates are lost.
TEST(FusedAdam, MastersKeepWhatBf16Loses) {
  const Tensor start = normal_tensor({3000}, DType::kBF16, 1);
  Tensor wide = Tensor::empty(DType::kF32, {3000});
  for (int i = 0; i < 3000; ++i)
    wide.mutable_data<float>()[i] =
        static_cast<float>(load_as_double(DType::kBF16, start.view.data, i));
  const Tensor lone = copy_of(start), half = copy_of(start),
               split = copy_of(start);
  FusedAdamOptions o{.lr = 1e-5};
  FusedAdam f32(one_group({plain("p", wide)}), o);
  FusedAdam without(one_group({plain("p", lone)}), o);
  o.master_weights = true;
  FusedAdam master(one_group({plain("p", half)}), o);
  o.store_param_remainders = true;
  FusedAdam remainder(one_group({plain("p", split)}), o);
  for (int k = 1; k <= 4; ++k) {
    std::vector<Tensor> g = {normal_tensor({3000}, DType::kF32, 10)};
    f32.step(g);
    without.step(g);
    master.step(g);
    remainder.step(g);
  }
  EXPECT_TRUE(same_bits(master.unscaled_state("p", "master_param"), wide));
  EXPECT_TRUE(same_bits(remainder.unscaled_state("p", "master_param"), wide));
  for (int i = 0; i < 3000; ++i)
    ASSERT_EQ(load_code(DType::kBF16, half.view.data, i),
              encode_float(DType::kBF16, double{wide.data<float>()[i]}));
  EXPECT_EQ(f32.state_dict().size(), 3u);  // it is its own master
  int lost = 0;
  for (int i = 0; i < 3000; ++i)
    lost += load_code(DType::kBF16, lone.view.data, i) ==
            load_code(DType::kBF16, start.view.data, i);
  EXPECT_GT(lost, 2000);
}

// Every dtype of states stays near the fp32 run; zero gradients stay zero.
TEST(FusedAdam, StatesOfEveryDtype) {
  const std::int64_t n = 5000;
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kE4M3FN}) {
    const Tensor a = normal_tensor({n}, DType::kF32, 1), b = copy_of(a);
    FusedAdam exact(one_group({plain("p", a)}), {.lr = 1e-3});
    FusedAdam narrow(one_group({plain("p", b)}),
                     {.lr = 1e-3, .exp_avg_dtype = dtype});
    // Each step adds at most one rounding: half a step of the format at the
    // value, or of its subnormals under the scale.
    const double u = unit_roundoff(dtype);
    std::vector<double> bound(static_cast<std::size_t>(n));
    std::vector<double> m, r;
    for (std::uint64_t k = 1; k <= 3; ++k) {
      std::vector<Tensor> g = {normal_tensor({n}, DType::kF32, 7 + k)};
      exact.step(g);
      narrow.step(g);
      m = values_of(exact.unscaled_state("p", "exp_avg"));
      r = values_of(narrow.unscaled_state("p", "exp_avg"));
      double top = 0;
      for (double v : m) top = std::max(top, std::fabs(v));
      for (std::size_t i = 0; i < m.size(); ++i)
        bound[i] += 1.1 * u * std::fabs(m[i]) + top / 448 * 0x1p-9;
    }
    int different = 0;
    for (std::size_t i = 0; i < m.size(); ++i) {
      ASSERT_NEAR(r[i], m[i], bound[i]) << traits(dtype).name;
      different += r[i] != m[i];
    }
    EXPECT_GT(different, n / 2);  // it is the narrow one that was looked at
    EXPECT_EQ(narrow.state_dict()[1].tensor.dtype(), dtype);
  }
}

// fp16 masters under a scale (NVTE's master_weight_dtype).
TEST(FusedAdam, Fp16Masters) {
  const Tensor a = normal_tensor({1000}, DType::kBF16, 1), b = copy_of(a);
  FusedAdam exact(one_group({plain("p", a)}), {.master_weights = true});
  FusedAdam half(one_group({plain("p", b)}),
                 {.master_weights = true, .master_weight_dtype = DType::kF16});
  for (int k = 1; k <= 3; ++k) {
    std::vector<Tensor> g = {normal_tensor({1000}, DType::kBF16, 3)};
    exact.step(g);
    half.step(g);
  }
  expect_close(half.unscaled_state("p", "master_param"),
               exact.unscaled_state("p", "master_param"), 2e-3, 1e-6, "master");
  EXPECT_EQ(half.state_dict()[1].name, "p.master_param");
  EXPECT_EQ(half.state_dict()[2].name, "p.master_param.scale");
}

// The codes are those of the quantised master of a plain run, in every
// recipe's quantiser; a delayed one leaves the master's amax behind.
TEST(FusedAdam, QuantisedParametersAreMadeFromTheMaster) {
  const Tensor start = normal_tensor({64, 64}, DType::kBF16, 1);
  auto state = std::make_shared<DelayedScalingState>(4, 1);
  std::vector<std::unique_ptr<Quantizer>> quantizers;
  quantizers.push_back(
      std::make_unique<CurrentScalingQuantizer>(CurrentScalingOptions{}));
  quantizers.push_back(std::make_unique<MXFP8Quantizer>(DType::kE4M3FN));
  quantizers.push_back(
      std::make_unique<DelayedScalingQuantizer>(DType::kE4M3FN, state, 0));
  for (const auto& quantizer : quantizers) {
    const auto w =
        std::make_shared<QuantizedTensor>(quantizer->quantize(start));
    Tensor master = Tensor::empty(DType::kF32, {64, 64});
    for (std::int64_t i = 0; i < 4096; ++i)
      store_from_double(DType::kF32,
                        load_as_double(DType::kBF16, start.view.data, i),
                        master.mutable_data(), i);
    FusedAdam adam(one_group({{.name = "w",
                               .quantized = w,
                               .quantizer = [&] { return quantizer.get(); },
                               .high_precision_init = start}}),
                   {.lr = .1, .master_weights = true});
    FusedAdam twin(one_group({plain("w", master)}), {.lr = .1});
    for (int k = 1; k <= 2; ++k) {
      std::vector<Tensor> g = {normal_tensor({64, 64}, DType::kBF16, 5)};
      adam.step(g);
      twin.step(g);
    }
    EXPECT_TRUE(same_bits(adam.unscaled_state("w", "master_param"), master));
    const QuantizedTensor want = quantizer->quantize(master);
    EXPECT_TRUE(same_bits(w->rowwise->data, want.rowwise->data));
    EXPECT_TRUE(same_bits(w->rowwise->scale_inv, want.rowwise->scale_inv));
    EXPECT_TRUE(same_bits(w->columnwise->data, want.columnwise->data));
    EXPECT_EQ(w->dtype, DType::kBF16);
  }
  EXPECT_GT(state->staging()[0], 0);
}

// Without the values before quantisation the master is the decoded codes.
TEST(FusedSGD, MasterOfADecodedParameter) {
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  const auto w = std::make_shared<QuantizedTensor>(
      quantizer.quantize(normal_tensor({32, 32}, DType::kBF16, 1)));
  const Tensor decoded = dequantize(*w, DType::kF32);
  FusedSGD sgd(one_group({{.name = "w",
                           .quantized = w,
                           .quantizer = [&] { return &quantizer; }}}),
               {.lr = .5, .master_weights = true});
  EXPECT_TRUE(same_bits(sgd.unscaled_state("w", "master_param"), decoded));
  std::vector<Tensor> g = {Tensor::zeros(DType::kF32, {32, 32})};
  sgd.step(g);  // nothing to learn: the codes come back
  EXPECT_TRUE(same_bits(dequantize(*w, DType::kF32), decoded));
}

TEST(FusedAdam, FoundInfHoldsEverythingBack) {
  const Tensor p = torch_param();
  FusedAdam adam(one_group({plain("p", p)}), {});
  std::vector<Tensor> g = {torch_grad(1)};
  const Tensor found = make_tensor({1}, {1}), fine = make_tensor({0}, {1});
  EXPECT_FALSE(adam.step(g, {.inv_scale = .5f, .found_inf = &found}));
  EXPECT_TRUE(same_bits(p, torch_param()));
  EXPECT_TRUE(same_bits(g[0], torch_grad(1)));
  EXPECT_EQ(adam.step_count(), 0);
  const Tensor q = torch_param();
  FusedAdam other(one_group({plain("p", q)}), {});
  std::vector<Tensor> twice = {make_tensor({.2, -.6, -.7, -3}, {4})};
  EXPECT_TRUE(other.step(twice, {.inv_scale = .5f, .found_inf = &fine}));
  adam.step(g);
  EXPECT_TRUE(same_bits(p, q));
  EXPECT_TRUE(same_bits(twice[0], torch_grad(1)));  // unscaled in place
}

struct Training {
  Tensor wide, narrow, split;
  std::unique_ptr<Optimizer> optimizer;
};

// kind: 0 Adam in fp32, 1 scaled states and masters, 2 remainders, 3 SGD.
Training make_run(int kind, const Tensor& wide, const Tensor& narrow) {
  Training run{copy_of(wide), copy_of(narrow), copy_of(narrow), nullptr};
  auto groups = one_group(
      {plain("a", run.wide), plain("b.w", run.narrow), plain("c", run.split)});
  if (kind == 3) {
    run.optimizer = std::make_unique<FusedSGD>(
        std::move(groups),
        FusedSGDOptions{.momentum = .9, .master_weights = true});
    return run;
  }
  FusedAdamOptions o{.weight_decay = .1};
  o.master_weights = kind > 0;
  if (kind == 1) {
    o.exp_avg_dtype = DType::kE4M3FN;
    o.exp_avg_sq_dtype = DType::kF16;
    o.master_weight_dtype = DType::kF16;
  }
  o.store_param_remainders = kind == 2;
  run.optimizer = std::make_unique<FusedAdam>(std::move(groups), o);
  return run;
}

void advance(Training& run, int from, int to) {
  for (int k = from; k <= to; ++k) {
    std::vector<Tensor> g;
    for (std::uint64_t i = 0; i < 3; ++i)
      g.push_back(normal_tensor({777}, DType::kF32,
                                static_cast<std::uint64_t>(k) * 10 + i));
    run.optimizer->step(g);
  }
}

std::vector<NamedTensor> saved(Optimizer& optimizer) {
  std::vector<NamedTensor> out;
  for (const NamedTensor& t : optimizer.state_dict())
    out.push_back({t.name, copy_of(t.tensor)});
  return out;
}

// Saved after three steps, restored into a new optimizer, six in all: the same
// bits as without the break.
TEST(Optimizer, AResumedRunIsTheRunWithoutABreak) {
  const Tensor wide = normal_tensor({777}, DType::kF32, 1);
  const Tensor narrow = normal_tensor({777}, DType::kBF16, 2);
  for (int kind = 0; kind < 4; ++kind) {
    Training whole = make_run(kind, wide, narrow);
    advance(whole, 1, 3);
    const auto state = saved(*whole.optimizer);
    Training resumed = make_run(kind, wide, narrow);
    for (auto [to, from] : {std::pair{&resumed.wide, &whole.wide},
                            {&resumed.narrow, &whole.narrow},
                            {&resumed.split, &whole.split}})
      std::memcpy(to->mutable_data(), from->view.data,
                  from->view.bytes().size());
    resumed.optimizer->load_state_dict(state);
    EXPECT_EQ(resumed.optimizer->step_count(), 3);
    advance(whole, 4, 6);
    advance(resumed, 4, 6);
    EXPECT_TRUE(same_bits(whole.wide, resumed.wide)) << kind;
    EXPECT_TRUE(same_bits(whole.narrow, resumed.narrow)) << kind;
    EXPECT_TRUE(same_bits(whole.split, resumed.split)) << kind;
    const auto a = whole.optimizer->state_dict();
    const auto b = resumed.optimizer->state_dict();
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(same_bits(a[i].tensor, b[i].tensor)) << a[i].name;
  }
}

TEST(Optimizer, ThreadsDoNotChangeBits) {
  const Tensor wide = normal_tensor({777}, DType::kF32, 1);
  const Tensor narrow = normal_tensor({777}, DType::kBF16, 2);
  for (int kind = 0; kind < 4; ++kind)
    expect_thread_invariance(
        [&] {
          Training run = make_run(kind, wide, narrow);
          advance(run, 1, 2);
          return std::vector<Tensor>{run.wide, run.narrow, run.split};
        },
        "kind " + std::to_string(kind));
}

// F07: what is saved does not grow.
TEST(Optimizer, F07_TheStateHasOneSize) {
  const Tensor t = normal_tensor({777}, DType::kF32, 1);
  Training run = make_run(0, t, normal_tensor({777}, DType::kBF16, 2));
  const auto bytes = [&] {
    std::size_t sum = 0;
    for (const NamedTensor& s : run.optimizer->state_dict())
      sum += s.name.size() + s.tensor.view.bytes().size();
    return sum;
  };
  advance(run, 1, 1);
  const std::size_t first = bytes();
  advance(run, 2, 100);
  EXPECT_EQ(bytes(), first);
}

TEST(Optimizer, StatesGoThroughFp32AndBack) {
  const Tensor wide = normal_tensor({777}, DType::kF32, 1);
  const Tensor narrow = normal_tensor({777}, DType::kBF16, 2);
  for (int kind : {1, 2}) {
    Training run = make_run(kind, wide, narrow);
    advance(run, 1, 1);
    const auto before = saved(*run.optimizer);
    for (const char* state : {"exp_avg", "exp_avg_sq", "master_param"})
      run.optimizer->set_scaled_state(
          "c", state, run.optimizer->unscaled_state("c", state));
    const auto after = run.optimizer->state_dict();
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(same_bits(before[i].tensor, after[i].tensor))
          << kind << " " << before[i].name;
  }
}

TEST(Optimizer, EmptyParameters) {
  const Tensor none = Tensor::zeros(DType::kBF16, {0, 8});
  FusedAdam adam(one_group({plain("p", none)}), {.master_weights = true});
  std::vector<Tensor> g = {none};
  EXPECT_TRUE(adam.step(g));
  FusedSGD nothing(std::vector<ParameterGroup>{});
  std::vector<Tensor> no_grads;
  EXPECT_TRUE(nothing.step(no_grads));
}

TEST(Optimizer, ErrorsNameTheParameter) {
  const Tensor p = torch_param();
  const auto adam = [&](const FusedAdamOptions& o) {
    return error_of([&] { FusedAdam(one_group({plain("p", p)}), o); });
  };
  EXPECT_THAT(adam({.amsgrad = true}), HasSubstr("FusedAdam: amsgrad: true"));
  EXPECT_THAT(adam({.beta2 = 1}), HasSubstr("beta2: 1"));
  EXPECT_THAT(adam({.master_weight_dtype = DType::kBF16}),
              HasSubstr("master_weight_dtype: bfloat16, expected float32 or"
                        " float16"));
  EXPECT_THAT(adam({.exp_avg_dtype = DType::kI8}),
              HasSubstr("exp_avg_dtype: int8"));
  EXPECT_THAT(adam({.store_param_remainders = true}),
              HasSubstr("store_param_remainders"));
  EXPECT_THAT(error_of([&] {
                FusedAdam(one_group({plain("p", p), plain("p", p)}), {});
              }),
              HasSubstr("FusedAdam: p: twice"));
  EXPECT_THAT(error_of([&] {
                FusedAdam(one_group({plain("p", p), plain("q", p)}), {});
              }),
              HasSubstr("FusedAdam: q: the values of p, expected every"));
  EXPECT_THAT(error_of([&] {
                FusedSGD(one_group({plain("p", p)}), {.nesterov = true});
              }),
              HasSubstr("FusedSGD: nesterov"));
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  const auto w = std::make_shared<QuantizedTensor>(
      quantizer.quantize(normal_tensor({32, 32}, DType::kBF16, 1)));
  EXPECT_THAT(error_of([&] {
                FusedAdam(
                    one_group({{.name = "w",
                                .quantized = w,
                                .quantizer = [&] { return &quantizer; }}}),
                    {});
              }),
              HasSubstr("w: quantised, expected master_weights"));
  EXPECT_THAT(
      error_of([&] { FusedAdam(one_group({{.name = "w", .quantized = w}})); }),
      HasSubstr("w: quantised, without a quantiser"));

  FusedAdam good(one_group({plain("p", p)}), {});
  std::vector<Tensor> wrong = {make_tensor({1, 2}, {2})}, none, absent(1);
  EXPECT_THAT(error_of([&] { good.step(wrong); }),
              HasSubstr("gradient of p: shape [2], expected [4]"));
  EXPECT_THAT(error_of([&] { good.step(none); }),
              HasSubstr("grads: 0 tensors, expected 1, one a parameter"));
  EXPECT_THAT(error_of([&] { good.step(absent); }),
              HasSubstr("gradient of p: absent"));
  EXPECT_THAT(error_of([&] { good.unscaled_state("p", "exp_max"); }),
              HasSubstr("p: no state \"exp_max\""));
  std::vector<Tensor> grads = {torch_param()};
  EXPECT_THAT(error_of([&] { good.step(grads, {.inv_scale = std::nanf("")}); }),
              HasSubstr("FusedAdam: inv_scale: nan, expected a finite"));
  EXPECT_EQ(good.step_count(), 0);
}

TEST(Optimizer, LoadingIsStrictAndChangesNothingOnError) {
  const Tensor p = torch_param();
  FusedAdam adam(one_group({plain("p", p)}), {});
  std::vector<Tensor> g = {torch_grad(1)};
  adam.step(g);
  const auto before = saved(adam);
  const auto load = [&](std::vector<NamedTensor> state) {
    return error_of([&] { adam.load_state_dict(state); });
  };
  auto state = before;
  state.pop_back();
  EXPECT_THAT(load(state), HasSubstr("FusedAdam: p.exp_avg_sq: missing"));
  state = before;
  state.push_back({"q.exp_avg", before[1].tensor});
  EXPECT_THAT(load(state), HasSubstr("q.exp_avg: unexpected"));
  state = before;
  state.push_back(before[1]);
  EXPECT_THAT(load(state), HasSubstr("p.exp_avg: twice"));
  state = before;
  state[1].tensor = make_tensor({1, 2}, {2});
  EXPECT_THAT(load(state), HasSubstr("p.exp_avg: shape [2], expected [4]"));
  state = before;
  state[2].tensor = make_tensor({1, 2, 3, 4}, {4}, DType::kBF16);
  EXPECT_THAT(load(state),
              HasSubstr("p.exp_avg_sq: bfloat16, expected float32"));
  state = before;
  state[0].tensor = make_tensor({-1}, {1}, DType::kI64);
  EXPECT_THAT(load(state), HasSubstr("step: -1, expected >= 0"));
  const auto after = adam.state_dict();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(same_bits(before[i].tensor, after[i].tensor));
}

}  // namespace
}  // namespace assay::te
