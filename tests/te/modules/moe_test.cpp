#include "assay/te/modules/moe.h"

#include "assay/base/parallel.h"
#include "assay/te/modules/recompute.h"
#include "tests/te/modules/module_checks.h"

namespace assay::te {
namespace {

MoEOptions options_of(DType dtype, Device device = Device::kCpu) {
  MoEOptions o;
  o.num_experts = 4;
  o.router.topk = 2;
  o.aux_loss_coeff = 0.5;
  o.params_dtype = dtype;
  o.device = device;
  // Scores that no rounding brings into another order.
  o.init_method = normal_init(0.1);
  return o;
}

Tensor f32(Shape shape, const std::vector<double>& values) {
  return filled(DType::kF32, std::move(shape), values);
}

// float64, torch 2.13: topk of x wr^T, softmax over the two chosen, SwiGLU
// experts, and 2 times the balancing loss with coefficient 0.5 beside <y, dy>.
// Inputs are random multiples of 1/8.
TEST(MoELayer, ComputesWhatTorchComputes) {
  MoEOptions o = options_of(DType::kF32);
  o.num_experts = 3;
  MoELayer moe(4, 3, o);
  const Tensor x =
      f32({4, 4}, {1, 1, -0.625, -0.5, -0.5, -0.375, -0.5, 0.625, 0.625, 0.875,
                   -0.875, 0.25, -0.75, -0.625, -0.875, 0});
  const Tensor dy =
      f32({4, 4}, {0.5, -0.5, -0.625, 0.5, 0.625, 0.125, -0.5, 0.75, 0.25,
                   -0.125, 0, 1, -0.125, 0.75, 0.5, 0.875});
  moe.load_state_dict(std::vector<NamedTensor>{
      {"router.weight", f32({3, 4}, {-0.75, 0.75, 0.75, 1, -1, 0.75, 0.625,
                                     0.25, 0.5, -1, -0.375, -0.875})},
      {"experts.fc1.weight0",
       f32({6, 4}, {-0.5, 0.5,  0.125,  -0.625, -0.25, -0.375, -0.125, 0.75,
                    0.75, 0.75, 0.375,  -0.125, 0.375, 0.25,   0,      0.375,
                    0.5,  -1,   -0.375, -0.875, 0.625, 0.875,  -0.125, -1})},
      {"experts.fc1.weight1",
       f32({6, 4},
           {0.375,  0.25, -0.375, 0.5,    0.375, 0.625, -0.75, 0.5,
            -0.125, -0.5, -0.5,   -0.75,  -0.25, -1,    0.375, 0.375,
            0.125,  1,    0.375,  -0.125, 0.875, -1,    -0.25, -0.625})},
      {"experts.fc1.weight2",
       f32({6, 4},
           {0.125, 0.875,  0.75,   -0.875, -0.25, 0,      -0.25, 0.875,
            -0.75, -0.125, 0,      -0.625, 0.25,  -0.125, -0.25, 0.25,
            -0.25, -0.875, -0.875, -0.75,  0.5,   0.75,   -0.5,  -0.625})},
      {"experts.fc2.weight0",
       f32({4, 3}, {0.375, 0.125, -0.125, 0.5, 0, 0.375, -0.875, -0.25, 0.25,
                    0.375, 0.125, -1})},
      {"experts.fc2.weight1",
       f32({4, 3}, {-0.625, -0.75, 0.625, -0.75, 0.125, 0, 0.375, 0.5, 0,
                    -0.375, -0.875, -1})},
      {"experts.fc2.weight2",
       f32({4, 3}, {0.75, 1, 0.25, 0.375, 1, -0.75, -0.625, -1, 0.375, -0.375,
                    0.75, -0.25})}});
  MoELayer::Context context;
  const MoEOutput out = moe.forward(x, &context);
  const Tensor dx = moe.backward(dy, context, 2);
  const double u = 2e-6;
  expect_values(out.aux_loss, {0.478778323}, u, "aux_loss");
  expect_values(out.tokens_per_expert, {2, 4, 2}, 0, "tokens_per_expert");
  expect_values(out.output,
                {-0.0521353873, 0.435423243, -0.124638987, -0.0935017925,
                 -0.0152021541, 0.0424713278, 0.0475852714, -0.156126194,
                 -0.0619452, 0.41409521, 0.120247865, -0.475763447, 0.233649573,
                 0.343098399, -0.288732686, 0.197008374},
                u, "y");
  expect_values(dx,
                {0.178502266, -0.577700697, 0.0324995171, -0.157194251,
                 0.143728378, 0.161749129, -0.234288916, -0.31955585,
                 -0.696486215, -1.27940638, -0.297559689, 0.259449013,
                 -0.377243511, -0.214716718, -0.222453559, 0.503246509},
                u, "dx");
  const auto gradient = [&](const std::string& name) {
    for (const NamedParameter& p : moe.parameters())
      if (p.name == name) return *p.parameter->grad;
    return Tensor{};
  };
  expect_values(gradient("router.weight"),
                {0.0333432612, 0.00593623774, 0.112380741, -0.0844581788,
                 -0.119419272, -0.0955739339, 0.0263406955, 0.172382005,
                 0.0860760108, 0.0896376962, -0.138721436, -0.0879238267},
                u, "dwr");
  expect_values(gradient("experts.fc1.weight2"),
                {0.0401632316,  0.0401803879,  -0.0252864499, -0.0201330847,
                 -0.464735054,  -0.393272511,  -0.477762925,  0.017979899,
                 -0.0623550182, -0.0446075941, -0.151812923,  -0.0220647633,
                 0.130948424,   0.141975899,   -0.200388116,  -0.0985566357,
                 -0.241235207,  -0.224585132,  -0.0282163066, 0.0706673773,
                 0.116883698,   0.0939644364,  0.173329755,   0.0103159368},
                u, "dw1");
  expect_values(gradient("experts.fc2.weight0"),
                {-0.00235861681, -0.0404765173, 0.186499401, 0.00302159603,
                 -0.0118579648, -0.0145593106, -0.00210547157, 0.0366813983,
                 -0.089931874, -0.0168036177, -0.0335211752, 0.431236044},
                u, "dw2");
}

TEST(MoELayer, AgreesWithTheReference) {
  const auto make = [](DType dtype, Device device) {
    return std::make_unique<MoELayer>(64, 32, options_of(dtype, device));
  };
  // h and a; o; da, dh and rows' gradients.
  expect_agrees_with_reference(make, {48, 64}, {48, 64}, 4);
}

TEST(MoELayer, AgreesWithFiniteDifferences) {
  MoEOptions o = options_of(DType::kF32, Device::kReference);
  o.aux_loss_coeff = 0;  // it is a second output: the torch test has it
  o.activation = Activation::kGelu;
  o.bias = true;
  o.init_method = normal_init(0.5);
  MoELayer moe(8, 6, o);
  expect_finite_differences(moe, normal_tensor(DType::kF32, {5, 8}, 12),
                            {5, 8});
}

// Run again from its input: routing, padding, scales and all.
TEST(MoELayer, RecomputesBitForBit) {
  const Tensor x = normal_tensor(DType::kBF16, {40, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {40, 64}, 4);
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    MoELayer kept(64, 32, options_of(DType::kBF16));
    MoELayer again(64, 32, options_of(DType::kBF16));
    copy_parameters(kept, again);
    for (int step = 0; step < 2; ++step) {
      const PassResult a = train(kept, x, dy, &r.recipe);
      RecomputeContext<MoELayer> context;
      Tensor y;
      {
        Autocast autocast(r.recipe);
        y = recomputed_forward(again, x, context).output;
      }
      EXPECT_TRUE(same_bits(a.y, y));
      EXPECT_TRUE(same_bits(a.dx, recomputed_backward(again, dy, context)));
      expect_same_gradients(kept, again);
    }
    const auto p = kept.state_dict(), q = again.state_dict();
    ASSERT_EQ(p.size(), q.size());
    for (std::size_t i = 0; i < p.size(); ++i)
      EXPECT_TRUE(same_bits(p[i].tensor, q[i].tensor)) << p[i].name;
  }
}

// One expert with all tokens is fc2(act(fc1(x))), its probability 1.
TEST(MoELayer, OfOneExpertIsItsLayers) {
  MoEOptions o = options_of(DType::kBF16);
  o.num_experts = o.router.topk = 1;
  o.aux_loss_coeff = 0;
  MoELayer moe(64, 32, o);
  GroupedLinearOptions g;
  g.params_dtype = DType::kBF16;
  g.bias = false;
  GroupedLinear fc1(1, 64, 64, g), fc2(1, 32, 64, g);
  const auto p = moe.parameters();
  std::memcpy(fc1.weight(0).value->mutable_data(),
              p[1].parameter->value->view.data, 64 * 64 * 2);
  std::memcpy(fc2.weight(0).value->mutable_data(),
              p[2].parameter->value->view.data, 64 * 32 * 2);
  const Tensor x = normal_tensor(DType::kBF16, {32, 64}, 5);
  const std::vector<std::int64_t> all = {32};
  for (const NamedRecipe& r : all_recipes()) {
    if (r.name == "nvfp4") continue;  // 32 rows are padded to 128
    Autocast autocast(r.recipe);
    const Tensor a =
        activation_forward(Activation::kSwiglu, fc1.forward(x, nullptr, all));
    EXPECT_TRUE(same_bits(moe.forward(x).output, fc2.forward(a, nullptr, all)))
        << r.name;
  }
}

TEST(MoELayer, ScalesTheGradientOfItsBalancingLoss) {
  MoEOptions o = options_of(DType::kF32);
  MoELayer moe(8, 6, o);
  const Tensor x = normal_tensor(DType::kF32, {6, 8}, 1);
  const Tensor dy = Tensor::zeros(DType::kF32, {6, 8});
  const auto dx = [&](double scale) {
    MoELayer::Context context;
    moe.forward(x, &context);
    return moe.backward(dy, context, scale);
  };
  const Tensor none = dx(0), one = dx(1), three = dx(3);
  double largest = 0;
  for (std::int64_t i = 0; i < none.numel(); ++i) {
    EXPECT_EQ(at(none, i), 0);
    EXPECT_NEAR(at(three, i), 3 * at(one, i), 1e-7);
    largest = std::max(largest, std::abs(at(one, i)));
  }
  EXPECT_GT(largest, 1e-4);
}

// x, h, o and the router's tensors, which are small: no sorted rows, no
// activation, no codes; the same for every recipe but for the padding.
TEST(MoELayer, KeepsWhatCannotBeHadAgain) {
  MoEOptions o = options_of(DType::kBF16);
  o.num_experts = o.router.topk = 2;  // 128 rows for each: no padding
  MoELayer moe(64, 32, o);
  const Tensor x = normal_tensor(DType::kBF16, {128, 64}, 3);
  const std::int64_t wide = 2 * (128 * 64 + 2 * 128 * 64 + 2 * 128 * 64);
  MoELayer::Context plain;
  moe.forward(x, &plain);
  EXPECT_GE(saved_bytes(plain), wide);
  EXPECT_LT(saved_bytes(plain), wide + 128 * 64);
  for (const NamedRecipe& r : all_recipes()) {
    MoELayer::Context context;
    Autocast autocast(r.recipe);
    moe.forward(x, &context);
    EXPECT_EQ(saved_bytes(context), saved_bytes(plain)) << r.name;
  }
}

TEST(MoELayer, TakesNoTokens) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    MoELayer moe(64, 32, options_of(DType::kBF16));
    const Tensor x = Tensor::zeros(DType::kBF16, {0, 64});
    EXPECT_EQ(train(moe, x, x, &r.recipe).dx.shape(), (Shape{0, 64}));
    for (const NamedParameter& p : moe.parameters()) {
      ASSERT_TRUE(p.parameter->grad) << p.name;
      EXPECT_EQ(at(*p.parameter->grad, 5), 0);
    }
  }
}

TEST(MoELayer, PutsOffTheExpertsWeightGradients) {
  MoEOptions o = options_of(DType::kBF16);
  MoELayer now(64, 32, o);
  o.delay_wgrad_compute = true;
  MoELayer later(64, 32, o);
  copy_parameters(now, later);
  const Recipe recipe = recipe::MXFP8BlockScaling{};
  const Tensor x = normal_tensor(DType::kBF16, {40, 64}, 3);
  train(now, x, x, &recipe);
  train(later, x, x, &recipe);
  EXPECT_TRUE(later.need_backward_dw());
  later.backward_dw();
  EXPECT_FALSE(later.need_backward_dw());
  expect_same_gradients(now, later);
}

TEST(MoELayer, DoesNotDependOnTheNumberOfThreads) {
  MoELayer one(64, 32, options_of(DType::kBF16));
  MoELayer four(64, 32, options_of(DType::kBF16));
  const Tensor x = normal_tensor(DType::kBF16, {100, 64}, 3);
  expect_same_for_any_threads(one, four, x, x);
}

TEST(MoELayer, NamesWhatItCannotTake) {
  MoEOptions o = options_of(DType::kF32);
  o.name = "layer.moe";
  MoELayer moe(8, 6, o);
  EXPECT_EQ(message_of([&] {
              moe.forward(Tensor::zeros(DType::kF32, {2, 7}));
            }),
            "layer.moe: input: last dimension 7, expected 8");
  MoELayer::Context context;
  EXPECT_EQ(message_of([&] {
              moe.backward(Tensor::zeros(DType::kF32, {2, 8}), context);
            }),
            "layer.moe: context: not of a forward pass, or used up, expected "
            "that of one");
  EXPECT_EQ(message_of([&] { MoELayer bad(8, -1, o); }),
            "layer.moe: ffn_hidden_size: -1, expected a positive size");
  o.aux_loss_coeff = std::nan("");
  EXPECT_EQ(message_of([&] { MoELayer bad(8, 6, o); }),
            "layer.moe: aux_loss_coeff: nan, expected a finite number");
}

}  // namespace
}  // namespace assay::te
