#include "assay/te/recipe/recipe.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/hybrid.h"
#include "assay/te/quantize/identity.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "assay/te/recipe/nvfp4_roles.h"
#include "assay/te/recipe/recipe_state.h"
#include "tests/te/quantize/tensors.h"

namespace assay::te {
namespace {

using Floats = std::vector<float>;

const std::vector<QuantizerRole> kForward = gemm_roles(Direction::kForward, 1);
const std::vector<QuantizerRole> kBackward =
    gemm_roles(Direction::kBackward, 1);

std::string refusal(const Recipe& r) {
  return error_of([&] { validate(r); });
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    setenv(name, value, 1);
  }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

// The defaults of NVTE's common.recipe.
TEST(Recipe, DefaultsAreNvtes) {
  const recipe::DelayedScaling delayed;
  EXPECT_EQ(delayed.amax_history_len, 1024);
  EXPECT_EQ(delayed.margin, 0);
  EXPECT_EQ(delayed.fp8_format, Format::kHybrid);
  EXPECT_TRUE(delayed.reduce_amax);
  const recipe::Float8CurrentScaling current;
  EXPECT_FALSE(current.use_power_2_scales);
  EXPECT_FALSE(current.fp8_gemm_fprop.use_split_accumulator);
  EXPECT_TRUE(current.fp8_gemm_dgrad.use_split_accumulator);
  EXPECT_EQ(recipe::MXFP8BlockScaling().fp8_format, Format::kE4M3);  // T15
  EXPECT_EQ(recipe::Custom().quantization_alignment, 128);
  for (const Recipe& r :
       {Recipe(delayed), Recipe(current), Recipe(recipe::Float8BlockScaling()),
        Recipe(recipe::MXFP8BlockScaling()),
        Recipe(recipe::NVFP4BlockScaling())}) {
    EXPECT_EQ(refusal(r), "no error") << recipe_name(r);
    EXPECT_EQ(backward_override(r), BackwardOverride::kNone);
  }
}

TEST(Recipe, DefaultsComeFromTheEnvironment) {
  {
    const Environment a("NVTE_FP8_CURRENT_SCALING_POWER_2_SCALES", "1");
    const Environment b("NVTE_FP8_BLOCK_SCALING_FP32_SCALES", "1");
    const Environment c("NVTE_BACKWARD_OVERRIDE", "dequantized");
    const Environment d("NVTE_NVFP4_4OVER6", "weights");
    EXPECT_TRUE(recipe::Float8CurrentScaling().use_power_2_scales);
    EXPECT_TRUE(recipe::Float8BlockScaling().use_f32_scales);
    EXPECT_EQ(recipe::MXFP8BlockScaling().backward_override,
              BackwardOverride::kDequantized);
    EXPECT_EQ(recipe::NVFP4BlockScaling().nvfp4_4over6, "weights");
    EXPECT_NE(refusal(recipe::DelayedScaling()), "no error");
  }
  const Environment bad("NVTE_BACKWARD_OVERRIDE", "both");
  EXPECT_EQ(error_of([] { recipe::MXFP8BlockScaling(); }),
            "recipe: NVTE_BACKWARD_OVERRIDE: \"both\", expected "
            "high_precision, dequantized or unset");
}

TEST(Recipe, RefusesWhatNvteRefuses) {
  using namespace recipe;
  EXPECT_EQ(refusal(DelayedScaling{.fp8_format = Format::kE5M2}),
            "DelayedScaling: fp8_format: E5M2, expected E4M3, HYBRID or their "
            "fnuz forms");
  EXPECT_EQ(refusal(DelayedScaling{.amax_history_len = 0}),
            "DelayedScaling: amax_history_len: 0, expected 1 or more");
  EXPECT_EQ(refusal(DelayedScaling{.backward_override =
                                       BackwardOverride::kDequantized}),
            "DelayedScaling: backward_override: set, expected none");
  EXPECT_EQ(refusal(Float8BlockScaling{.x_block_scaling_dim = 2}),
            "Float8BlockScaling: block_scaling_dim: 2 of them 2, expected at "
            "most one: no GEMM multiplies 128 x 128 by 128 x 128 blocks");
  EXPECT_EQ(refusal(Float8BlockScaling{.w_block_scaling_dim = 3}),
            "Float8BlockScaling: w_block_scaling_dim: 3, expected 1 or 2");
  EXPECT_EQ(refusal(Float8BlockScaling{.fp8_dpa = true}),
            "Float8BlockScaling: fp8_dpa: true, expected false");
  EXPECT_EQ(refusal(MXFP8BlockScaling{.fp8_format = Format::kE4M3Fnuz}),
            "MXFP8BlockScaling: fp8_format: E4M3_FNUZ, expected E4M3 or "
            "HYBRID");
  EXPECT_EQ(refusal(NVFP4BlockScaling{.fp4_format = Format::kE4M3}),
            "NVFP4BlockScaling: fp4_format: E4M3, expected E2M1");
  EXPECT_EQ(refusal(NVFP4BlockScaling{.nvfp4_4over6 = "some"}),
            "NVFP4BlockScaling: nvfp4_4over6: \"some\", expected none, "
            "weights, activations or all");
  EXPECT_EQ(refusal(NVFP4BlockScaling{.nvfp4_4over6_err_mode = "max"}),
            "NVFP4BlockScaling: nvfp4_4over6_err_mode: \"max\", expected MAE "
            "or MSE");
  EXPECT_NE(refusal(NVFP4BlockScaling{.nvfp4_4over6 = "all"}), "no error");
  EXPECT_EQ(
      refusal(NVFP4BlockScaling{.disable_rht = true, .nvfp4_4over6 = "all"}),
      "no error");
  EXPECT_EQ(refusal(Custom{}),
            "CustomRecipe: qfactory: none, expected a function");
}

TEST(RecipeState, FormatsFollowTheDirection) {
  const struct {
    Format format;
    DType forward, backward;
  } kRows[] = {
      {Format::kE4M3, DType::kE4M3FN, DType::kE4M3FN},
      {Format::kHybrid, DType::kE4M3FN, DType::kE5M2},
      {Format::kE4M3Fnuz, DType::kE4M3FNUZ, DType::kE4M3FNUZ},
      {Format::kHybridFnuz, DType::kE4M3FNUZ, DType::kE5M2FNUZ},
  };
  for (const auto& row : kRows) {
    for (const Recipe& r :
         {Recipe(recipe::DelayedScaling{.fp8_format = row.format}),
          Recipe(recipe::Float8CurrentScaling{.fp8_format = row.format}),
          Recipe(recipe::Float8BlockScaling{.fp8_format = row.format})}) {
      auto forward = make_recipe_state(r, kForward);
      auto backward = make_recipe_state(r, kBackward);
      EXPECT_EQ(forward.quantizers.size(), 3u);
      EXPECT_EQ(backward.quantizers.size(), 2u);
      EXPECT_EQ(forward.at(0).format(), row.forward) << recipe_name(r);
      EXPECT_EQ(forward.at(1).format(), row.forward);
      EXPECT_EQ(backward.at(0).format(), row.backward);
    }
  }
}

TEST(RecipeState, F09_DelayedMaximumIsThatOfTheFormat) {
  const recipe::DelayedScaling fnuz{.fp8_format = Format::kHybridFnuz};
  EXPECT_EQ(make_recipe_state(fnuz, kForward).delayed[0].options.fp8_max, 240);
  EXPECT_EQ(make_recipe_state(fnuz, kBackward).delayed[0].options.fp8_max,
            57344);
  EXPECT_EQ(make_recipe_state(recipe::DelayedScaling(), kForward)
                .delayed[0]
                .options.fp8_max,
            448);
}

// T3: the arguments reach the quantisers of a linear layer.
TEST(RecipeState, T3_ConstructorArgumentsTakeEffect) {
  const recipe::Float8CurrentScaling pow2{.use_power_2_scales = true};
  auto forward = make_recipe_state(pow2, kForward);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& q = dynamic_cast<CurrentScalingQuantizer&>(forward.at(i));
    EXPECT_TRUE(q.options().pow2);
  }
  const Tensor x = f32({1, 1}, {5});  // 448 / 5 = 89.6 -> 64
  EXPECT_EQ(floats(forward.at(0).quantize(x).rowwise->scale_inv),
            (Floats{1 / 64.0f}));
  const recipe::Float8BlockScaling fp32{.use_f32_scales = true};
  auto blocks = make_recipe_state(fp32, kForward);
  EXPECT_EQ(floats(blocks.at(0).quantize(x).rowwise->scale_inv),
            (Floats{1 / (448.0f / 5)}));
}

TEST(RecipeState, ParametersOfOneRoleOverrule) {
  const recipe::Float8CurrentScaling r{
      .use_power_2_scales = true, .fp8_quant_fwd_weight = QParams{false, 3.0f}};
  auto forward = make_recipe_state(r, kForward);
  const auto& input = dynamic_cast<CurrentScalingQuantizer&>(forward.at(0));
  const auto& weight = dynamic_cast<CurrentScalingQuantizer&>(forward.at(1));
  EXPECT_TRUE(input.options().pow2);
  EXPECT_FALSE(weight.options().pow2);
  EXPECT_EQ(weight.options().epsilon, 3.0f);
}

TEST(RecipeState, BlockDimsFollowTheRole) {
  auto forward = make_recipe_state(recipe::Float8BlockScaling(), kForward);
  auto backward = make_recipe_state(recipe::Float8BlockScaling(), kBackward);
  EXPECT_EQ(forward.at(0).mode(), ScalingMode::kBlock1D);
  EXPECT_EQ(forward.at(1).mode(), ScalingMode::kBlock2D);
  EXPECT_EQ(backward.at(0).mode(), ScalingMode::kBlock1D);
}

// Tiles of 32 x 32 for the weights of linear layers alone: equal scales in
// both directions.
TEST(RecipeState, Mxfp8TilesAreForLinearWeights) {
  const recipe::MXFP8BlockScaling r{.enable_2d_quantization = true};
  const Tensor x = normal(DType::kBF16, {32, 32}, 4);
  const auto scales_agree = [&](const char* module, std::size_t slot) {
    auto state =
        make_recipe_state(r, gemm_roles(Direction::kForward, 1, module));
    const auto q = state.at(slot).quantize(x);
    return codes(q.rowwise->scale_inv) == codes(q.columnwise->scale_inv);
  };
  EXPECT_TRUE(scales_agree("linear", 1));
  EXPECT_TRUE(scales_agree("grouped_linear", 1));
  EXPECT_FALSE(scales_agree("linear", 0));
  EXPECT_FALSE(scales_agree("dpa", 1));
}

TEST(RecipeState, Nvfp4RolesAreThoseOfTheFactSheet) {
  recipe::NVFP4BlockScaling r;
  const auto input = nvfp4_options(r, Role::kInput);
  EXPECT_TRUE(input.rht && !input.with_2d && !input.stochastic_rounding);
  const auto weight = nvfp4_options(r, Role::kWeight);
  EXPECT_TRUE(!weight.rht && weight.with_2d && !weight.stochastic_rounding);
  const auto grad = nvfp4_options(r, Role::kGradOutput);
  EXPECT_TRUE(grad.rht && !grad.with_2d && grad.stochastic_rounding);
  r.row_scaled_activation = true;
  const auto rows = nvfp4_options(r, Role::kInput);
  EXPECT_TRUE(rows.row_scaled && !rows.rht);
  EXPECT_FALSE(nvfp4_options(r, Role::kGradOutput).row_scaled);
  r = {.disable_rht = true,
       .nvfp4_4over6 = "all",
       .nvfp4_4over6_e4m3_use_256 = "weights",
       .nvfp4_4over6_err_mode = "mse"};
  EXPECT_EQ(nvfp4_options(r, Role::kInput).four_over_six, FourOverSix::kMse);
  EXPECT_EQ(nvfp4_options(r, Role::kInput).scale_max, 448.0f);
  EXPECT_EQ(nvfp4_options(r, Role::kWeight).scale_max, 256.0f);
  EXPECT_EQ(nvfp4_options(r, Role::kGradOutput).four_over_six,
            FourOverSix::kNone);
}

TEST(RecipeState, Nvfp4MakesQuantisersThatWork) {
  const Tensor x = normal(DType::kBF16, {64, 128}, 5);
  for (const recipe::NVFP4BlockScaling& r :
       {recipe::NVFP4BlockScaling(),
        recipe::NVFP4BlockScaling{.row_scaled_activation = true},
        recipe::NVFP4BlockScaling{.disable_rht = true,
        .nvfp4_4over6 = "all"}}) {
    auto forward = make_recipe_state(r, kForward);
    auto backward = make_recipe_state(r, kBackward);
    for (auto* q : {&forward.at(0), &forward.at(1), &backward.at(0)}) {
      const auto made = q->quantize(x);
      EXPECT_EQ(made.rowwise->data.dtype(), DType::kE2M1);
      EXPECT_EQ(made.columnwise.has_value(), q->usage().columnwise);
    }
  }
  // Slots draw numbers of their own.
  auto backward = make_recipe_state(recipe::NVFP4BlockScaling(), kBackward);
  EXPECT_NE(codes(backward.at(0).quantize(x).rowwise->data),
            codes(backward.at(1).quantize(x).rowwise->data));
}

TEST(RecipeState, DelayedSlotsAreInTheOrderOfTheRoles) {
  recipe::DelayedScaling r{.amax_history_len = 4, .unfused_update = false};
  auto state = make_recipe_state(r, gemm_roles(Direction::kForward, 2));
  ASSERT_EQ(state.delayed.size(), 1u);
  EXPECT_EQ(state.delayed[0].state->amax_history.shape(), (Shape{4, 6}));
  state.at(4).quantize(f32({1, 1}, {-7}));
  EXPECT_EQ(state.delayed[0].state->staging()[4], 7.0f);
  RecipeState* const states[] = {&state};
  update_delayed_scaling(states);
  EXPECT_EQ(floats(state.delayed[0].state->scale), (Floats{1, 1, 1, 1, 64, 1}));
  EXPECT_EQ(floats(state.at(4).quantize(f32({1, 1}, {7})).rowwise->scale_inv),
            (Floats{1 / 64.0f}));
}

class Halving : public AmaxReduction {
 public:
  void reduce_max(float* values, std::int64_t count) override {
    counts.push_back(count);
    for (std::int64_t i = 0; i < count; ++i) values[i] *= 2;
  }
  std::vector<std::int64_t> counts;
};

TEST(RecipeState, OneReductionForAllModulesOfARule) {
  recipe::DelayedScaling r{.amax_history_len = 2};
  auto a = make_recipe_state(r, kForward), b = make_recipe_state(r, kForward);
  r.reduce_amax = false;
  auto alone = make_recipe_state(r, kForward);
  for (RecipeState* s : {&a, &b, &alone}) s->at(0).quantize(f32({1, 1}, {7}));
  RecipeState* const states[] = {&a, &alone, &b};
  Halving reduction;
  update_delayed_scaling(states, &reduction);
  EXPECT_EQ(reduction.counts, (std::vector<std::int64_t>{6}));
  EXPECT_EQ(floats(b.delayed[0].state->scale)[0], 32.0f);
  EXPECT_EQ(floats(alone.delayed[0].state->scale)[0], 64.0f);
}

TEST(RecipeState, CustomTakesWhateverTheFactoryGives) {
  using Request = recipe::QuantizerRequest;
  const recipe::Custom r{.qfactory = [](const QuantizerRole& role) -> Request {
                           if (role.role == Role::kWeight)
                             return recipe::DelayedScalingRequest{
                                 .margin = 1, .amax_history_len = 3};
                           if (role.role == Role::kOutput)
                             return std::make_unique<IdentityQuantizer>();
                           return std::make_unique<HybridQuantizer>(
                               std::make_unique<MXFP8Quantizer>(DType::kE4M3FN),
                               std::make_unique<IdentityQuantizer>());
                         },
                         .quantization_alignment = 64};
  auto state = make_recipe_state(r, gemm_roles(Direction::kForward, 2));
  EXPECT_EQ(state.at(3).mode(), ScalingMode::kMXFP8);
  EXPECT_EQ(state.at(2).mode(), ScalingMode::kIdentity);
  ASSERT_EQ(state.delayed.size(), 2u);
  EXPECT_EQ(state.delayed[1].slots, (std::vector<std::size_t>{4}));
  state.at(4).quantize(f32({1, 1}, {7}));
  RecipeState* const states[] = {&state};
  update_delayed_scaling(states);
  EXPECT_EQ(floats(state.delayed[1].state->scale), (Floats{32}));
  EXPECT_EQ(quantization_alignment(r), 64);
}

TEST(RecipeState, ANegativeNumberOfGemmsIsRefused) {
  EXPECT_THROW(gemm_roles(Direction::kForward, -1, "linear", "x"), Error);
  EXPECT_TRUE(gemm_roles(Direction::kForward, 0, "linear", "x").empty());
}

TEST(RecipeState, RefusesNothingAndMixedDirections) {
  const recipe::Custom nothing{
      .qfactory = [](const QuantizerRole&) -> recipe::QuantizerRequest {
        return std::unique_ptr<Quantizer>();
      }};
  EXPECT_EQ(error_of([&] { make_recipe_state(nothing, kBackward); }),
            "CustomRecipe: qfactory: nothing for role grad_output, expected a "
            "quantiser or a DelayedScalingRequest");
  const std::vector<QuantizerRole> mixed = {{Role::kInput, "linear", ""},
                                            {Role::kGradOutput, "linear", ""}};
  EXPECT_EQ(
      error_of([&] { make_recipe_state(recipe::MXFP8BlockScaling(), mixed); }),
      "make_recipe_state: roles: input and grad_output, expected roles "
      "of one direction");
}

recipe::QuantizerRequest one_factory(const QuantizerRole&) { return {}; }
recipe::QuantizerRequest other_factory(const QuantizerRole&) { return {}; }

// A module keeps its quantisers while the recipe is the same one.
TEST(Recipe, TwoFunctionsAreTwoRecipes) {
  const recipe::Custom a{.qfactory = one_factory};
  EXPECT_TRUE(same_recipe(a, recipe::Custom{.qfactory = one_factory}));
  EXPECT_FALSE(same_recipe(a, recipe::Custom{.qfactory = other_factory}));
  EXPECT_FALSE(
      same_recipe(a, recipe::Custom{.qfactory = [](const QuantizerRole& role) {
                    return one_factory(role);
                  }}));
}

TEST(Recipe, AlignmentIsWhatPaddingUses) {
  EXPECT_EQ(quantization_alignment(recipe::DelayedScaling()), 16);
  EXPECT_EQ(quantization_alignment(recipe::Float8BlockScaling()), 16);
  EXPECT_EQ(quantization_alignment(recipe::MXFP8BlockScaling()), 32);
  EXPECT_EQ(quantization_alignment(recipe::NVFP4BlockScaling()), 128);
}

}  // namespace
}  // namespace assay::te
