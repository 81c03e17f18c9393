// Fused against one by one, for every rule, in bf16 and under every recipe.
//
// Where fusing removes roundings to bf16 (u = 2^-8), the two results of one
// element differ by at most u times the magnitudes that were rounded in
// between, and twice the result's: both are rounded. Weights and inputs are
// the same, so are the codes that GEMMs read.
#include "assay/te/fusible/fusion.h"

#include <gmock/gmock.h>

#include "assay/te/fusible/activation.h"
#include "assay/te/fusible/elementwise.h"
#include "assay/te/fusible/linear.h"
#include "assay/te/fusible/normalization.h"
#include "tests/te/fusible/fusible_test.h"

namespace assay::te::ops {
namespace {

constexpr double kU = 0x1p-8;
constexpr std::int64_t kRows = 64, kIn = 128, kOut = 96;

BasicLinearOptions bf16() {
  BasicLinearOptions options;
  options.dtype = DType::kBF16;
  return options;
}

std::shared_ptr<Bias> random_bias(std::int64_t size) {
  BiasOptions options;
  options.dtype = DType::kBF16;
  auto bias = std::make_shared<Bias>(size, options);
  normal_init(1)(*bias->bias().value, 77);
  return bias;
}

std::shared_ptr<BasicLinear> linear(std::int64_t in = kIn,
                                    std::int64_t out = kOut) {
  return std::make_shared<BasicLinear>(in, out, bf16());
}

// The items of a model, made anew with the same weights.
using Items = std::function<std::vector<SequentialItem>()>;

struct Precision {
  std::string name;  // of the recipe
  std::optional<Recipe> recipe;
  double operand_error = 0;
};

std::vector<Precision> setups() {
  std::vector<Precision> out = {{"bf16", std::nullopt, 0}};
  for (const NamedRecipe& r : all_recipes())
    out.push_back({r.name, r.recipe, r.operand_error});
  return out;
}

struct Fusing {
  bool forward, backward;
};
constexpr Fusing kOneByOne = {false, false};

// One pass of a model made by `items`; `prefix` of them, 0: all.
Pass pass_of(const Items& items, const Precision& setup, Fusing fuse,
             const Tensor& x, const Tensor& dy,
             const std::vector<Tensor>& extra = {},
             const std::vector<Tensor>& extra_dy = {}) {
  manual_seed(7);
  Sequential model;
  for (SequentialItem& item : items()) model.append(std::move(item));
  std::optional<Autocast> scope;
  if (setup.recipe) scope.emplace(*setup.recipe);
  Sequential::Context context;
  Pass pass;
  model.set_fusion(fuse.forward);
  SequentialOutput out = model.forward(x, extra, &context);
  pass.y = out.output;
  pass.extra_outputs = out.extra;
  model.set_fusion(fuse.backward);
  SequentialGrads grads = model.backward(dy, extra_dy, context);
  pass.dx = grads.input;
  pass.extra_grads = grads.extra;
  for (const NamedParameter& p : model.parameters())
    pass.parameter_grads.push_back(*p.parameter->grad);
  return pass;
}

// The output of the first `count` operations, one by one.
Tensor output_of_first(std::size_t count, const Items& items,
                       const Precision& setup, const Tensor& x) {
  manual_seed(7);
  Sequential model;
  std::vector<SequentialItem> all = items();
  for (std::size_t i = 0; i < count; ++i) model.append(all[i]);
  model.set_fusion(false);
  std::optional<Autocast> scope;
  if (setup.recipe) scope.emplace(*setup.recipe);
  Sequential::Context context;
  return model.forward(x, std::span<const Tensor>{}, &context).output;
}

std::string plan_of(const Items& items, const Precision& setup) {
  manual_seed(7);
  Sequential model;
  for (SequentialItem& item : items()) model.append(std::move(item));
  return model.plan(setup.recipe ? &*setup.recipe : nullptr);
}

void expect_within_roundings(const Tensor& fused, const Tensor& single,
                             const std::vector<Tensor>& rounded, double factor,
                             const std::string& what) {
  ASSERT_EQ(fused.shape(), single.shape()) << what;
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < fused.numel(); ++i) {
    double bound = 2 * kU * std::abs(at(single, i)) + 1e-6;
    for (const Tensor& t : rounded) bound += factor * kU * std::abs(at(t, i));
    ASSERT_LE(std::abs(at(fused, i) - at(single, i)), bound * (1 + 4 * kU))
        << what << " " << i;
    different += at(fused, i) != at(single, i);
  }
  // Else the rule did not do what it is for.
  EXPECT_GT(different, 0) << what;
}

Tensor x_of(std::int64_t columns = kIn) {
  return normal_tensor(DType::kBF16, {kRows, columns}, 1);
}
Tensor dy_of(std::int64_t columns = kOut) {
  return normal_tensor(DType::kBF16, {kRows, columns}, 2);
}

TEST(Fusion, ForwardLinearBiasAdd) {
  const Tensor residual = normal_tensor(DType::kBF16, {kRows, kOut}, 3);
  for (bool biased : {true, false}) {
    const Items items = [&] {
      std::vector<SequentialItem> out = {linear()};
      if (biased) out.push_back(random_bias(kOut));
      out.push_back(std::make_shared<AddExtraInput>(true));
      return out;
    };
    for (const Precision& setup : setups()) {
      EXPECT_THAT(plan_of(items, setup),
                  testing::HasSubstr(
                      biased ? "  ForwardLinearBiasAdd(BasicLinear, Bias, "
                               "AddExtraInput)\n"
                             : "  ForwardLinearBiasAdd(BasicLinear, "
                               "AddExtraInput)\n"));
      const Pass a =
          pass_of(items, setup, kOneByOne, x_of(), dy_of(), {residual});
      Pass b =
          pass_of(items, setup, {true, false}, x_of(), dy_of(), {residual});
      std::vector<Tensor> rounded;
      for (std::size_t n = 1; n <= (biased ? 2 : 1); ++n)
        rounded.push_back(output_of_first(n, items, setup, x_of()));
      expect_within_roundings(b.y, a.y, rounded, 1, setup.name);
      b.y = a.y;
      expect_same_pass(a, b, setup.name + ": gradients");
    }
  }
}

TEST(Fusion, ForwardLinearScaleAdd) {
  const Tensor residual = normal_tensor(DType::kBF16, {kRows, kOut}, 3);
  const Items items = [&] {
    return std::vector<SequentialItem>{linear(),
                                       std::make_shared<ConstantScale>(0.7f),
                                       std::make_shared<AddExtraInput>(true)};
  };
  for (const Precision& setup : setups()) {
    EXPECT_THAT(plan_of(items, setup),
                testing::HasSubstr("  ForwardLinearScaleAdd(BasicLinear, "
                                   "ConstantScale, AddExtraInput)\n"));
    const Pass a =
        pass_of(items, setup, kOneByOne, x_of(), dy_of(), {residual});
    Pass b = pass_of(items, setup, {true, false}, x_of(), dy_of(), {residual});
    expect_within_roundings(b.y, a.y,
                            {output_of_first(1, items, setup, x_of()),
                             output_of_first(2, items, setup, x_of())},
                            1, setup.name);
    b.y = a.y;
    expect_same_pass(a, b, setup.name + ": gradients");
  }
}

// gelu' is at most 1.13: what is rounded before it comes out that much larger.
TEST(Fusion, ForwardLinearBiasActivation) {
  for (bool biased : {true, false}) {
    const Items items = [&] {
      std::vector<SequentialItem> out = {linear()};
      if (biased) out.push_back(random_bias(kOut));
      out.push_back(std::make_shared<GELU>());
      return out;
    };
    for (const Precision& setup : setups()) {
      EXPECT_THAT(plan_of(items, setup),
                  testing::HasSubstr(
                      biased ? "  ForwardLinearBiasActivation(BasicLinear, "
                               "Bias, GELU)\n"
                             : "  ForwardLinearBiasActivation(BasicLinear, "
                               "GELU)\n"));
      const Pass a = pass_of(items, setup, kOneByOne, x_of(), dy_of());
      const Pass b = pass_of(items, setup, {true, false}, x_of(), dy_of());
      std::vector<Tensor> rounded;
      for (std::size_t n = 1; n <= (biased ? 2 : 1); ++n)
        rounded.push_back(output_of_first(n, items, setup, x_of()));
      expect_within_roundings(b.y, a.y, rounded, 1.13, setup.name);
      // The derivative is taken where GELU's input was rounded once instead
      // of twice, and quantised then: a code may go the other way.
      EXPECT_LT(distance(b.dx, a.dx), 2 * kU + setup.operand_error)
          << setup.name;
    }
  }
}

// One rounding: within u of the exact value, as far as fp32 sums are.
TEST(Fusion, AFusedResultIsRoundedOnce) {
  manual_seed(7);
  const auto l = linear();
  const auto b = random_bias(kOut);
  const Tensor residual = normal_tensor(DType::kBF16, {kRows, kOut}, 3);
  Sequential add(l, b, std::make_shared<AddExtraInput>(true));
  Sequential gelu(l, b, std::make_shared<GELU>());
  const Tensor x = x_of();
  const Tensor sum = add.forward(x, std::vector<Tensor>{residual}).output;
  const Tensor activated = gelu.forward(x);
  for (std::int64_t m = 0; m < kRows; ++m) {
    for (std::int64_t n = 0; n < kOut; ++n) {
      double exact = at(*b->bias().value, n), terms = std::abs(exact);
      for (std::int64_t k = 0; k < kIn; ++k) {
        const double t =
            at(x, m * kIn + k) * at(*l->weight().value, n * kIn + k);
        exact += t;
        terms += std::abs(t);
      }
      const double slack = 0x1p-24 * kIn * terms + 1e-7;
      const std::int64_t i = m * kOut + n;
      const double y = exact + at(residual, i);
      ASSERT_LE(std::abs(at(sum, i) - y), kU * std::abs(y) + slack) << i;
      const double u = 0.79788456 * exact * (1 + 0.044715 * exact * exact);
      const double g = 0.5 * exact * (1 + std::tanh(u));
      ASSERT_LE(std::abs(at(activated, i) - g),
                kU * std::abs(g) + 2 * slack + 1e-6)
          << i;
    }
  }
}

TEST(Fusion, BackwardLinearAdd) {
  const Tensor extra = normal_tensor(DType::kBF16, {kRows, kIn}, 4);
  const Items items = [&] {
    return std::vector<SequentialItem>{std::make_shared<MakeExtraOutput>(true),
                                       linear()};
  };
  for (const Precision& setup : setups()) {
    EXPECT_THAT(plan_of(items, setup),
                testing::HasSubstr(
                    "  BackwardLinearAdd(MakeExtraOutput, BasicLinear)\n"));
    const Pass a =
        pass_of(items, setup, kOneByOne, x_of(), dy_of(), {}, {extra});
    Pass b = pass_of(items, setup, {false, true}, x_of(), dy_of(), {}, {extra});
    // What the GEMM alone gives.
    Tensor zero = Tensor::zeros(DType::kBF16, {kRows, kIn});
    const Pass alone =
        pass_of(items, setup, kOneByOne, x_of(), dy_of(), {}, {zero});
    expect_within_roundings(b.dx, a.dx, {alone.dx}, 1, setup.name);
    b.dx = a.dx;
    expect_same_pass(a, b, setup.name);
  }
}

// A power of two commutes with every rounding, so that nothing may differ;
// delayed scaling, whose scale does not follow, may lose the smallest values.
TEST(Fusion, BackwardLinearScale) {
  for (float scale : {2.0f, 0.7f}) {
    const Items items = [&] {
      return std::vector<SequentialItem>{
          linear(), std::make_shared<ConstantScale>(scale)};
    };
    for (const Precision& setup : setups()) {
      EXPECT_THAT(plan_of(items, setup),
                  testing::HasSubstr(
                      "  BackwardLinearScale(BasicLinear, ConstantScale)\n"));
      const Pass a = pass_of(items, setup, kOneByOne, x_of(), dy_of());
      const Pass b = pass_of(items, setup, {false, true}, x_of(), dy_of());
      if (scale == 2 && setup.name != "delayed") {
        expect_same_pass(a, b, setup.name);
        continue;
      }
      // Codes of dy are rounded on either side, to E5M2 (a bit less than E4M3,
      // whose error it is) under some recipes.
      const double bound = 3 * kU + 4 * setup.operand_error;
      EXPECT_LT(distance(b.dx, a.dx), bound) << setup.name;
      EXPECT_LT(distance(b.parameter_grads[0], a.parameter_grads[0]), bound)
          << setup.name;
    }
  }
}

TEST(Fusion, BackwardActivationBias) {
  const Tensor x = x_of(), dy = dy_of();
  for (bool gelu : {true, false}) {
    const Items items = [&] {
      std::vector<SequentialItem> out = {linear(), random_bias(kOut)};
      if (gelu) {
        out.push_back(std::make_shared<GELU>());
      } else {
        out.push_back(std::make_shared<ReLU>());
      }
      return out;
    };
    const std::string rule = gelu ? "  BackwardActivationBias(Bias, GELU)\n"
                                  : "  BackwardActivationBias(Bias, ReLU)\n";
    for (const Precision& setup : setups()) {
      const std::string plan = plan_of(items, setup);
      if (!setup.recipe) {
        EXPECT_THAT(plan, testing::Not(testing::HasSubstr(rule)));
        continue;
      }
      EXPECT_THAT(plan, testing::HasSubstr(rule));
      const Pass a = pass_of(items, setup, kOneByOne, x, dy);
      Pass b = pass_of(items, setup, {false, true}, x, dy);
      // Sums of kRows derivatives that were rounded, or not: of magnitude up
      // to 1.13 |dy|.
      for (std::int64_t n = 0; n < kOut; ++n) {
        double magnitude = 0;
        for (std::int64_t m = 0; m < kRows; ++m)
          magnitude += 1.13 * std::abs(at(dy, m * kOut + n));
        ASSERT_LE(
            std::abs(at(a.parameter_grads[1], n) - at(b.parameter_grads[1], n)),
            kU * magnitude + 2 * kU * std::abs(at(a.parameter_grads[1], n)))
            << setup.name;
      }
      b.parameter_grads[1] = a.parameter_grads[1];
      if (setup.name == "delayed") {
        // Quantised from fp32 instead of bf16: rarely another code.
        EXPECT_LT(distance(b.dx, a.dx), setup.operand_error);
        EXPECT_LT(distance(b.parameter_grads[0], a.parameter_grads[0]),
                  setup.operand_error);
      } else {
        expect_same_pass(a, b, setup.name);
      }
    }
  }
}

TEST(Fusion, BackwardAddRMSNorm) {
  const Tensor x = x_of(), dy = dy_of(kIn);
  const Tensor extra = normal_tensor(DType::kBF16, {kRows, kIn}, 4);
  const Items items = [&] {
    NormalizationOptions options;
    options.dtype = DType::kBF16;
    return std::vector<SequentialItem>{
        std::make_shared<MakeExtraOutput>(),
        std::make_shared<RMSNorm>(Shape{kIn}, options)};
  };
  const Precision setup = setups()[0];
  EXPECT_THAT(
      plan_of(items, setup),
      testing::HasSubstr("  BackwardAddRMSNorm(MakeExtraOutput, RMSNorm)\n"));
  const Pass a = pass_of(items, setup, kOneByOne, x, dy, {}, {extra});
  Pass b = pass_of(items, setup, {false, true}, x, dy, {}, {extra});
  const Pass alone = pass_of(items, setup, kOneByOne, x, dy, {},
                             {Tensor::zeros(DType::kBF16, {kRows, kIn})});
  expect_within_roundings(b.dx, a.dx, {alone.dx}, 1, "dx");
  b.dx = a.dx;
  expect_same_pass(a, b, "the rest");
}

// An operation that quantises for the GEMM behind it gives the GEMM's own
// codes: but for delayed scaling, which takes them from fp32.
TEST(Fusion, QuantisingForTheNextGemmChangesNothing) {
  NormalizationOptions options;
  options.dtype = DType::kBF16;
  struct Case {
    std::string name;
    Items items;
    std::int64_t columns;
  };
  const std::vector<Case> cases = {
      {"LayerNorm",
       [&] {
         return std::vector<SequentialItem>{
             std::make_shared<LayerNorm>(Shape{kIn}, options), linear()};
       },
       kIn},
      {"RMSNorm",
       [&] {
         return std::vector<SequentialItem>{
             std::make_shared<RMSNorm>(Shape{kIn}, options), linear()};
       },
       kIn},
      {"SwiGLU",
       [&] {
         return std::vector<SequentialItem>{std::make_shared<SwiGLU>(),
                                            linear()};
       },
       2 * kIn},
      {"SReLU",
       [&] {
         return std::vector<SequentialItem>{std::make_shared<SReLU>(),
                                            linear()};
       },
       kIn},
  };
  for (const Case& c : cases) {
    for (const Precision& setup : setups()) {
      if (setup.recipe) {
        EXPECT_THAT(plan_of(c.items, setup),
                    testing::HasSubstr("  " + c.name +
                                       ", quantises for BasicLinear\n"));
      }
      const Tensor x = x_of(c.columns);
      const Pass a = pass_of(c.items, setup, kOneByOne, x, dy_of());
      const Pass b = pass_of(c.items, setup, {true, true}, x, dy_of());
      if (setup.name != "delayed") {
        expect_same_pass(a, b, c.name + " " + setup.name);
        continue;
      }
      EXPECT_LT(distance(b.y, a.y), setup.operand_error) << c.name;
      EXPECT_LT(distance(b.parameter_grads.back(), a.parameter_grads.back()),
                setup.operand_error)
          << c.name;
    }
  }
}

TEST(Fusion, RulesAskForInPlaceAndForTheRightType) {
  const Precision plain = setups()[0];
  const auto has_no = [&](const Items& items, const char* rule) {
    EXPECT_THAT(plan_of(items, plain), testing::Not(testing::HasSubstr(rule)));
  };
  has_no(
      [] {
        return std::vector<SequentialItem>{
            linear(), std::make_shared<AddExtraInput>(false)};
      },
      "ForwardLinearBiasAdd");
  has_no(
      [] {
        return std::vector<SequentialItem>{
            std::make_shared<MakeExtraOutput>(false), linear()};
      },
      "BackwardLinearAdd");
  // fp32: NVTE takes a bias into a 16-bit GEMM alone.
  has_no(
      [] {
        return std::vector<SequentialItem>{std::make_shared<Linear>(8, 8)};
      },
      "ForwardLinearBiasActivation");
  has_no(
      [] {
        NormalizationOptions options;
        return std::vector<SequentialItem>{
            std::make_shared<MakeExtraOutput>(true),
            std::make_shared<RMSNorm>(Shape{8}, options)};
      },
      "BackwardAddRMSNorm");
}

// Rules of a program: two scales in a row are one.
class Doubling : public BasicOperation {
 public:
  Doubling() : BasicOperation("Doubling") {}
  Value forward(Value input, ForwardStep&) override { return twice(input); }
  Value backward(Value grad, BackwardStep&) override { return twice(grad); }

 private:
  static Value twice(const Value& value) {
    Tensor t = tensor_of(value);
    Tensor out = Tensor::empty(DType::kF32, t.shape());
    for (std::int64_t i = 0; i < t.numel(); ++i)
      out.mutable_data<float>()[i] = 2 * t.data<float>()[i];
    return out;
  }
};

TEST(Fusion, TakesRulesOfTheProgram) {
  static int forwards = 0, backwards = 0;
  const auto two = [](std::span<BasicOperation* const> ops,
                      const FusionContext&) -> std::size_t {
    return as<Doubling>(ops, 0) && as<Doubling>(ops, 1) ? 2 : 0;
  };
  const auto fourfold = [](const Value& value) {
    Tensor t = tensor_of(value);
    Tensor out = Tensor::empty(DType::kF32, t.shape());
    for (std::int64_t i = 0; i < t.numel(); ++i)
      out.mutable_data<float>()[i] = 4 * t.data<float>()[i];
    return out;
  };
  register_forward_fusion(
      {"Fourfold", two, [&](Value x, std::span<ForwardStep> steps) -> Value {
         EXPECT_EQ(steps.size(), 2u);
         ++forwards;
         return fourfold(x);
       }});
  register_backward_fusion({"FourfoldBack", two,
                            [&](Value dy, std::span<BackwardStep>) -> Value {
                              ++backwards;
                              return fourfold(dy);
                            }},
                           true);
  Sequential model(std::make_shared<Doubling>(), std::make_shared<Doubling>(),
                   std::make_shared<Doubling>(), std::make_shared<Doubling>(),
                   std::make_shared<Doubling>());
  EXPECT_EQ(model.plan(),
            "forward\n"
            "  Fourfold(Doubling, Doubling)\n"
            "  Fourfold(Doubling, Doubling)\n"
            "  Doubling\n"
            "backward\n"
            "  Doubling\n"
            "  FourfoldBack(Doubling, Doubling)\n"
            "  FourfoldBack(Doubling, Doubling)\n");
  const Tensor x = filled(DType::kF32, {1, 2}, {1, -3});
  const Pass pass = run(model, x, x);
  expect_values(pass.y, {32, -96}, 0, "y");
  expect_values(pass.dx, {32, -96}, 0, "dx");
  EXPECT_EQ(forwards, 2);
  EXPECT_EQ(backwards, 2);
}

}  // namespace
}  // namespace assay::te::ops
