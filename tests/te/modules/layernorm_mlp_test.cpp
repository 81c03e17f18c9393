#include "assay/te/modules/layernorm_mlp.h"

#include "assay/base/parallel.h"
#include "assay/te/modules/norm.h"
#include "assay/te/modules/parameter_init.h"
#include "assay/te/modules/recompute.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/fused.h"
#include "tests/te/modules/module_checks.h"

namespace assay::te {
namespace {

LayerNormMLPOptions options_of(DType dtype, Activation act = Activation::kGelu,
                               Device device = Device::kCpu) {
  LayerNormMLPOptions o;
  o.params_dtype = dtype;
  o.activation = act;
  o.device = device;
  return o;
}

using Values = std::vector<double>;

// float64, torch 2.13: F.linear(act(F.linear(F.layer_norm(x, (4,), lw, lb), w1,
// b1)), w2, b2) and its backward; act is F.gelu(approximate="tanh"), or
// F.silu(h[:, :3]) * h[:, 3:]. Inputs are random multiples of 1/8 or less.
struct TorchCase {
  Activation act;
  Values lw, lb, w1, b1, w2, b2;
  Values y, dx, dlw, dlb, dw1, db1, dw2, db2;
};

const Values kX = {-0.125, -0.625, 0.5, 1, -0.75, -1, 1, 0.25};
const Values kDy = {-0.25, -0.375, 1, 0.25, 0.625, 0.125, 0, -0.125};

const TorchCase kTorch[] = {
    {Activation::kGelu,
     {0.84375, 0.9375, 1.25, 1.09375},
     {-0.5, 0.125, 0.4375, -0.1875},
     {0.125, -0.75, -0.125, 0, 0.375, 0.75, -1, -0.375, -0.625, 1, 0.375, -0.5},
     {1, -0.75, 1},
     {-0.875, -0.125, -0.5, -0.375, -0.5, 1, -0.25, -1, 0, 0.625, 0.25, 0.625},
     {0.625, -0.625, 0.75, 0.125},
     {-0.754546935, -1.04114247, 0.377060873, 1.14883818, -1.04988416,
      0.335929565, 0.468987077, 1.69164782},
     {0.2755306, -0.161328751, -0.0956426722, -0.0185591771, -0.119073175,
      0.0665195356, -0.0479043585, 0.100457998},
     {-0.112417166, 0.0879307622, -0.0576330711, 0.111893061},
     {0.171398767, -0.020888922, -0.0815336046, 0.181412707},
     {0.597161284, 0.346808395, -1.33557834, 0.129890347, -0.00179090303,
      -0.00213341712, 0.00209031494, 0.00239122147, 0.407239902, 0.341530333,
      -0.726851381, -0.178529722},
     {-0.455915323, 0.00192272351, -0.364267457},
     {0.328989118, 0.000151015662, 0.828063024, -0.419904318, 0.000250522246,
      0.118830765, 1.49446813, -0.000677904964, 0.143944123, 0.233095802,
      -0.000165784125, -0.13682378},
     {0.375, -0.25, 1, 0.125}},
    {Activation::kSwiglu,
     {1.21875, 0.9375, 1.03125, 0.8125},
     {0.3125, -0.3125, -0.125, -0.1875},
     {0.25,   -0.5, -0.75, 0.375,  0.375,  -0.875, 0.625, 0.125,
      -0.625, 0,    0,     -0.125, -0.875, 1,      0.5,   -0.5,
      0.875,  0,    -0.75, 0.5,    -0.125, 0.25,   0.75,  -0.75},
     {-0.75, 0.75, 0.375, -0.625, 0, 0.5},
     {-0.125, -0.875, 1, -1, 0.875, 0, 0.5, 0, 0.75, 0.25, 0.75, -0.5},
     {0.375, -1, -0.375, 0.875},
     {0.546413726, -1.2534335, -0.409851444, 0.709588259, 3.89256613,
      -4.22085729, 0.159144841, -1.90778754},
     {-0.633179641, 0.137321892, 0.97839172, -0.482533971, -0.632150897,
      0.993955738, 0.813808773, -1.17561361},
     {1.03104273, -0.0601481425, 2.82949641, -0.901794421},
     {-1.34905025, -0.0564774659, 2.46543074, -1.25688929},
     {0.309551853,  1.57700754,   -0.400222159, -0.903466654,  -0.540138927,
      -1.12044581,  1.12177649,   0.154772755,  -0.387444369,  -0.758114023,
      0.816488866,  0.071289095,  -0.038745496, -0.0729409591, 0.0823967268,
      0.0046256587, 0.745273862,  1.40689902,   -1.58390511,   -0.0923492841,
      -0.255996671, -0.630740119, 0.505780273,  0.160252288},
     {-1.01672877, 0.839488436, 0.576051001, 0.0559609313, -1.07863284,
      0.454998397},
     {0.139975747, -2.06823049, 0.363420684, 0.0215463297, -0.326883734,
      0.0920856423, 0.0198425224, -0.266961122, -0.05969694, -0.024026645,
      0.360253875, -0.0846235248},
     {0.375, -0.25, 1, 0.125}}};

TEST(LayerNormMLP, ComputesWhatTorchComputes) {
  for (const TorchCase& c : kTorch) {
    SCOPED_TRACE(activation_name(c.act));
    const std::int64_t rows = is_gated(c.act) ? 6 : 3;
    LayerNormMLP mlp(4, 3, options_of(DType::kF32, c.act));
    const auto f32 = [](Shape shape, const Values& v) {
      return filled(DType::kF32, std::move(shape), v);
    };
    mlp.load_state_dict(
        std::vector<NamedTensor>{{"layer_norm_weight", f32({4}, c.lw)},
                                 {"layer_norm_bias", f32({4}, c.lb)},
                                 {"fc1_weight", f32({rows, 4}, c.w1)},
                                 {"fc1_bias", f32({rows}, c.b1)},
                                 {"fc2_weight", f32({4, 3}, c.w2)},
                                 {"fc2_bias", f32({4}, c.b2)}});
    const PassResult r = train(mlp, f32({2, 4}, kX), f32({2, 4}, kDy), nullptr);
    const double u = 4e-6;  // a few dozen fp32 operations on values below 5
    expect_values(r.y, c.y, u, "y");
    expect_values(r.dx, c.dx, u, "dx");
    const auto grad = [&](const char* name) {
      return *mlp.parameter(name).grad;
    };
    expect_values(grad("layer_norm_weight"), c.dlw, u, "dlw");
    expect_values(grad("layer_norm_bias"), c.dlb, u, "dlb");
    expect_values(grad("fc1_weight"), c.dw1, u, "dw1");
    expect_values(grad("fc1_bias"), c.db1, u, "db1");
    expect_values(grad("fc2_weight"), c.dw2, u, "dw2");
    expect_values(grad("fc2_bias"), c.db2, u, "db2");
  }
}

TEST(LayerNormMLP, NamesItsParametersAsNvte) {
  LayerNormMLP mlp(8, 16, options_of(DType::kF32, Activation::kGeglu));
  std::string text;
  for (const NamedParameter& p : mlp.parameters()) {
    text += p.name;
    for (std::int64_t d : p.parameter->shape) text += " " + std::to_string(d);
    text += "\n";
  }
  EXPECT_EQ(text,
            "layer_norm_weight 8\nlayer_norm_bias 8\nfc1_weight 32 8\n"
            "fc1_bias 32\nfc2_weight 8 16\nfc2_bias 8\n");
}

class EveryActivation : public testing::TestWithParam<int> {};

TEST_P(EveryActivation, AgreesWithTheReference) {
  const auto act = static_cast<Activation>(GetParam());
  const auto make = [&](DType dtype, Device device) {
    LayerNormMLPOptions o = options_of(dtype, act, device);
    o.init_method = normal_init(0.1);  // past the kinks of clamped ones
    return std::make_unique<LayerNormMLP>(64, 64, o);
  };
  // z, h and a forward; da, dh and dz backward.
  expect_agrees_with_reference(make, {32, 64}, {32, 64}, 3);
}

TEST_P(EveryActivation, AgreesWithFiniteDifferences) {
  const auto act = static_cast<Activation>(GetParam());
  LayerNormMLPOptions o = options_of(DType::kF32, act, Device::kReference);
  o.init_method = normal_init(0.3);
  o.activation_params.limit = 20;  // no kink within a step
  if (act == Activation::kRelu || act == Activation::kReglu) return;
  LayerNormMLP mlp(16, 12, o);
  expect_finite_differences(mlp, normal_tensor(DType::kF32, {3, 16}, 1),
                            {3, 16});
}

INSTANTIATE_TEST_SUITE_P(LayerNormMLP, EveryActivation,
                         testing::Range(0, kActivationCount),
                         [](const auto& p) {
                           return std::string(activation_name(
                               static_cast<Activation>(p.param)));
                         });

// A pass against the operators one by one, current scaling: what is fused, what
// is rounded before, and that codes made again are those of the forward.
TEST(LayerNormMLP, IsTheOperatorsInOrder) {
  recipe::Float8CurrentScaling scaling;
  const Recipe recipe = scaling;
  LayerNormMLP mlp(64, 32, options_of(DType::kBF16, Activation::kSwiglu));
  const Tensor x = normal_tensor(DType::kBF16, {48, 64}, 5);
  const Tensor dy = normal_tensor(DType::kBF16, {48, 64}, 6);
  const PassResult r = train(mlp, x, dy, &recipe);

  auto state = make_recipe_state(recipe, gemm_roles(Direction::kForward, 1));
  auto grads = make_recipe_state(recipe, gemm_roles(Direction::kBackward, 1));
  Quantizer &qx = state.at(0), &qw = state.at(1), &qg = grads.at(0);
  const auto value = [&](const char* n) { return *mlp.parameter(n).value; };
  const Tensor lw = value("layer_norm_weight"), lb = value("layer_norm_bias");
  const NormQuantized z = layernorm_quantize(qx, x, lw, lb);
  const QuantizedTensor w1 = qw.quantize(value("fc1_weight"));
  const QuantizedTensor w2 = qw.quantize(value("fc2_weight"));
  GemmOptions with_bias;
  const Tensor b1 = value("fc1_bias"), b2 = value("fc2_bias");
  with_bias.bias = &b1;
  const Tensor h = gemm_fprop(z.z, w1, with_bias).d;
  const QuantizedTensor a = activation_quantize(qx, Activation::kSwiglu, h);
  with_bias.bias = &b2;
  EXPECT_TRUE(same_bits(r.y, gemm_fprop(a, w2, with_bias).d));
  const QuantizedTensor g = qg.quantize(dy);
  EXPECT_TRUE(same_bits(*mlp.fc2_weight().grad, gemm_wgrad(g, a).d));
  const Tensor da = gemm_dgrad(g, w2).d;
  const auto dh = dactivation_quantize_dbias(qg, Activation::kSwiglu, da, h);
  EXPECT_TRUE(same_bits(*mlp.fc1_bias()->grad, dh.dbias));
  EXPECT_TRUE(
      same_bits(*mlp.fc1_weight().grad, gemm_wgrad(dh.quantized, z.z).d));
  const Tensor dz = gemm_dgrad(dh.quantized, w1).d;
  EXPECT_TRUE(
      same_bits(r.dx, layernorm_backward(dz, x, z.mean, z.rsigma, lw).dx));
}

// Its own checkpoint, and one around it, against keeping everything; histories
// too.
TEST(LayerNormMLP, RecomputesBitForBit) {
  const Tensor x = normal_tensor(DType::kBF16, {64, 96}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {64, 96}, 4);
  for (Activation act : {Activation::kGelu, Activation::kSwiglu}) {
    std::vector<NamedRecipe> recipes = all_recipes();
    for (const NamedRecipe& r : recipes) {
      SCOPED_TRACE(r.name);
      LayerNormMLPOptions o = options_of(DType::kBF16, act);
      LayerNormMLP kept(96, 64, o), outside(96, 64, o);
      o.checkpoint = true;
      LayerNormMLP inside(96, 64, o);
      copy_parameters(kept, inside);
      copy_parameters(kept, outside);
      for (int step = 0; step < 3; ++step) {
        for (LayerNormMLP* m : {&kept, &inside, &outside}) m->zero_grad();
        const PassResult a = train(kept, x, dy, &r.recipe);
        const PassResult b = train(inside, x, dy, &r.recipe);
        RecomputeContext<LayerNormMLP> context;
        Tensor y;
        {
          Autocast autocast(r.recipe);
          y = recomputed_forward(outside, x, context).output;
        }
        EXPECT_TRUE(same_bits(a.y, b.y) && same_bits(a.y, y));
        EXPECT_TRUE(same_bits(a.dx, b.dx));
        EXPECT_TRUE(same_bits(a.dx, recomputed_backward(outside, dy, context)));
        expect_same_gradients(kept, inside);
        expect_same_gradients(kept, outside);
      }
      const auto p = kept.extra_state();
      for (LayerNormMLP* m : {&inside, &outside}) {
        const auto q = m->extra_state();
        ASSERT_EQ(p.size(), q.size());
        for (std::size_t i = 0; i < p.size(); ++i)
          EXPECT_TRUE(same_bits(p[i].tensor, q[i].tensor)) << p[i].name;
      }
    }
  }
}

// Recomputation without Autocast: the plain products again.
TEST(LayerNormMLP, RecomputesInHighPrecisionToo) {
  LayerNormMLPOptions o = options_of(DType::kBF16);
  LayerNormMLP kept(64, 64, o);
  o.checkpoint = true;
  LayerNormMLP again(64, 64, o);
  copy_parameters(kept, again);
  const Tensor x = normal_tensor(DType::kBF16, {24, 64}, 3);
  const PassResult a = train(kept, x, x, nullptr);
  const PassResult b = train(again, x, x, nullptr);
  EXPECT_TRUE(same_bits(a.y, b.y) && same_bits(a.dx, b.dx));
  expect_same_gradients(kept, again);
}

// x and its statistics, and h but under checkpoint; the same for every recipe.
TEST(LayerNormMLP, KeepsItsInputAndThePreActivation) {
  const std::int64_t rows = 256, hidden = 128, ffn = 192;
  const Tensor x = normal_tensor(DType::kBF16, {rows, hidden}, 3);
  const std::int64_t of_x = rows * hidden * 2 + 2 * rows * 4;
  for (bool checkpoint : {false, true}) {
    LayerNormMLPOptions o = options_of(DType::kBF16, Activation::kSwiglu);
    o.checkpoint = checkpoint;
    LayerNormMLP mlp(hidden, ffn, o);
    const std::int64_t expected = of_x + (checkpoint ? 0 : rows * 2 * ffn * 2);
    LayerNormMLP::Context plain;
    mlp.forward(x, &plain);
    EXPECT_EQ(saved_bytes(plain), expected);
    for (const NamedRecipe& r : all_recipes()) {
      LayerNormMLP::Context context;
      Autocast autocast(r.recipe);
      mlp.forward(x, &context);
      EXPECT_EQ(saved_bytes(context), expected) << r.name;
    }
  }
}

TEST(LayerNormMLP, PutsOffBothWeightGradients) {
  const Recipe recipe = recipe::Float8BlockScaling{};
  LayerNormMLPOptions o = options_of(DType::kBF16);
  LayerNormMLP now(64, 32, o);
  o.delay_wgrad_compute = true;
  LayerNormMLP later(64, 32, o);
  copy_parameters(now, later);
  const Tensor x = normal_tensor(DType::kBF16, {64, 64}, 3);
  for (int pass = 0; pass < 2; ++pass) {
    train(now, x, x, &recipe);
    train(later, x, x, &recipe);
  }
  EXPECT_FALSE(later.fc1_weight().grad || later.fc2_weight().grad);
  EXPECT_TRUE(later.need_backward_dw());
  later.backward_dw();
  EXPECT_FALSE(later.need_backward_dw());
  expect_same_gradients(now, later);
}

TEST(LayerNormMLP, ReusesItsQuantisedWeightsWithinAStep) {
  LayerNormMLPOptions o = options_of(DType::kBF16);
  LayerNormMLP cached(64, 32, o), fresh(64, 32, o);
  copy_parameters(cached, fresh);
  const Recipe recipe = recipe::NVFP4BlockScaling{};
  const Tensor x = normal_tensor(DType::kBF16, {32, 64}, 3);
  for (int microbatch = 0; microbatch < 3; ++microbatch) {
    LinearCall call;
    call.is_first_microbatch = microbatch == 0;
    const PassResult a = train(cached, x, x, &recipe, call);
    const PassResult b = train(fresh, x, x, &recipe);
    EXPECT_TRUE(same_bits(a.y, b.y) && same_bits(a.dx, b.dx)) << microbatch;
    expect_same_gradients(cached, fresh);
    if (microbatch > 0) continue;
    for (Parameter* w : {&cached.fc1_weight(), &cached.fc2_weight()})
      std::memset(w->value->mutable_data(), 0, w->value->view.bytes().size());
  }
}

TEST(LayerNormMLP, AddsToMainGrad) {
  LayerNormMLPOptions o = options_of(DType::kBF16);
  o.fuse_wgrad_accumulation = true;
  LayerNormMLP fused(64, 32, o);
  o.fuse_wgrad_accumulation = false;
  o.params_dtype = DType::kBF16;
  LayerNormMLP plain(64, 32, o);
  copy_parameters(fused, plain);
  for (const NamedParameter& p : fused.parameters())
    p.parameter->main_grad = Tensor::zeros(DType::kF32, p.parameter->shape);
  const Recipe recipe = recipe::Float8CurrentScaling{};
  const Tensor x = normal_tensor(DType::kBF16, {16, 64}, 3);
  for (int i = 0; i < 2; ++i) train(fused, x, x, &recipe);
  train(plain, x, x, &recipe);
  const auto a = fused.parameters(), b = plain.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_FALSE(a[i].parameter->grad) << a[i].name;
    EXPECT_TRUE(a[i].parameter->grad_added_to_main_grad);
    Tensor twice = Tensor::empty(DType::kF32, b[i].parameter->shape);
    for (std::int64_t j = 0; j < twice.numel(); ++j)
      twice.mutable_data<float>()[j] =
          static_cast<float>(2 * at(*b[i].parameter->grad, j));
    EXPECT_LT(distance(*a[i].parameter->main_grad, twice), 0x1p-9) << a[i].name;
  }
}

TEST(LayerNormMLP, TakesNoRowsUnderEveryRecipe) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    LayerNormMLP mlp(64, 32, options_of(DType::kBF16, Activation::kSwiglu));
    const Tensor x = Tensor::zeros(DType::kBF16, {0, 64});
    EXPECT_EQ(train(mlp, x, x, &r.recipe).dx.shape(), (Shape{0, 64}));
    for (const NamedParameter& p : mlp.parameters()) {
      ASSERT_TRUE(p.parameter->grad) << p.name;
      EXPECT_EQ(at(*p.parameter->grad, 5), 0);
    }
  }
}

// What rank 1 of 2 holds of a gated fc1: the second half of gate and linear.
TEST(LayerNormMLP, CutsGateAndLinearByThemselves) {
  const Tensor whole = filled(DType::kF32, {8}, {0, 1, 2, 3, 10, 11, 12, 13});
  const Tensor part = cut(whole, 0, 2, 1, 2);
  expect_values(part, {2, 3, 12, 13}, 0, "part");
  expect_values(cut(whole, 0, 2, 1), {10, 11, 12, 13}, 0, "in one block");
}

TEST(LayerNormMLP, StoresItsWeightsQuantised) {
  const Recipe recipe = recipe::MXFP8BlockScaling{};
  std::unique_ptr<LayerNormMLP> stored;
  manual_seed(3);
  {
    QuantizedModelInit init(recipe);
    stored = std::make_unique<LayerNormMLP>(64, 32, options_of(DType::kBF16));
  }
  manual_seed(3);
  LayerNormMLP plain(64, 32, options_of(DType::kBF16));
  EXPECT_FALSE(stored->fc1_weight().value);
  const Tensor x = normal_tensor(DType::kBF16, {32, 64}, 3);
  const PassResult a = train(*stored, x, x, &recipe);
  const PassResult b = train(plain, x, x, &recipe);
  EXPECT_TRUE(same_bits(a.y, b.y) && same_bits(a.dx, b.dx));
  expect_same_gradients(*stored, plain);
}

TEST(LayerNormMLP, NamesWhatItCannotTake) {
  LayerNormMLPOptions o = options_of(DType::kBF16);
  o.name = "layer.mlp";
  EXPECT_EQ(message_of([&] { LayerNormMLP bad(64, 0, o); }),
            "layer.mlp: ffn_hidden_size: 0, expected a positive size");
  LayerNormMLP mlp(64, 40, o);
  EXPECT_EQ(message_of([&] {
              Autocast autocast{recipe::MXFP8BlockScaling{}};
              mlp.forward(Tensor::zeros(DType::kBF16, {32, 64}));
            }),
            "layer.mlp: fc1_weight: 40 rows, expected a multiple of 32 for "
            "MXFP8BlockScaling");
  recipe::Float8CurrentScaling scaling;
  scaling.backward_override = BackwardOverride::kDequantized;
  EXPECT_EQ(message_of([&] {
              Autocast autocast{scaling};
              mlp.forward(Tensor::zeros(DType::kBF16, {32, 64}));
            }),
            "layer.mlp: backward_override: of the recipe, expected none");
}

// NVTE: output_layer_init_method has a default of its own, N(0, 0.023).
TEST(LayerNormMLP, AnInitMethodIsOfTheFirstProductAlone) {
  LayerNormMLPOptions options;
  options.init_method = constant_init(3);
  LayerNormMLP layer(32, 64, options);
  EXPECT_EQ(at(*layer.parameter("fc1_weight").value, 5), 3);
  const Tensor& fc2 = *layer.parameter("fc2_weight").value;
  double squares = 0;
  for (std::int64_t i = 0; i < fc2.numel(); ++i)
    squares += at(fc2, i) * at(fc2, i);
  const double n = static_cast<double>(fc2.numel());
  EXPECT_NEAR(std::sqrt(squares / n), 0.023, 4.5 * 0.023 / std::sqrt(2 * n));
}

}  // namespace
}  // namespace assay::te
