// Experts spread over ranks against one process that has all tokens, and
// LayerNormMLP and LayerNormLinear cut across ranks.
#include "assay/te/modules/layernorm_mlp.h"
#include "assay/te/modules/moe.h"
#include "assay/te/modules/parameter_init.h"
#include "tests/te/modules/module_checks.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

constexpr std::int64_t kExperts = 8, kHidden = 64, kFfn = 32, kTokens = 48;

MoEOptions moe_options(bool spread) {
  MoEOptions o;
  o.num_experts = kExperts;
  o.router.topk = 2;
  o.params_dtype = DType::kBF16;
  o.init_method = normal_init(0.1);
  if (spread) o.expert_parallel_group = group();
  return o;
}

TEST(MoEParallel, GivesTheBitsOfOneProcess) {
  const Tensor x = normal_tensor(DType::kBF16, {kTokens, kHidden}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {kTokens, kHidden}, 2);
  for (const NamedRecipe& r : all_recipes()) {
    // Stochastic rounding draws by the slot, which is another on each rank.
    Recipe recipe = r.recipe;
    if (auto* nvfp4 = std::get_if<recipe::NVFP4BlockScaling>(&recipe))
      nvfp4->disable_stochastic_rounding = true;
    SCOPED_TRACE(r.name);
    manual_seed(5);
    MoELayer whole(kHidden, kFfn, moe_options(false));
    manual_seed(5);
    MoELayer spread(kHidden, kFfn, moe_options(true));
    for (int step = 0; step < 2; ++step) {
      whole.zero_grad();
      spread.zero_grad();
      const PassResult a = train(whole, x, dy, &recipe);
      const PassResult b = train(spread, part_of(x), part_of(dy), &recipe);
      EXPECT_TRUE(same_bits(a.y, gathered(b.y)));
      EXPECT_TRUE(same_bits(a.dx, gathered(b.dx)));
    }
    // This rank's experts; the router's gradient is a sum over ranks.
    const auto all = whole.parameters(), mine = spread.parameters();
    const auto local = static_cast<std::size_t>(spread.num_local_experts());
    const std::size_t first = local * static_cast<std::size_t>(rank());
    for (std::size_t e = 0; e < local; ++e) {
      EXPECT_TRUE(same_bits(*all[1 + first + e].parameter->grad,
                            *mine[1 + e].parameter->grad));
      EXPECT_TRUE(same_bits(*all[1 + kExperts + first + e].parameter->grad,
                            *mine[1 + local + e].parameter->grad));
    }
    const Tensor sum = all_reduce_sum(*mine[0].parameter->grad, *group());
    EXPECT_LT(distance(sum, *all[0].parameter->grad), 1e-6);
  }
}

TEST(MoEParallel, RefusesExpertsThatRanksDoNotDivide) {
  MoEOptions o = moe_options(true);
  o.num_experts = ranks() + 1;
  if (ranks() == 1) return;
  EXPECT_EQ(message_of([&] { MoELayer bad(8, 8, o); }),
            "MoELayer: num_experts: " + std::to_string(ranks() + 1) +
                ", expected a multiple of the " + std::to_string(ranks()) +
                " ranks");
}

LayerNormMLPOptions mlp_options(Activation act, bool cut, bool sequence) {
  LayerNormMLPOptions o;
  o.params_dtype = DType::kBF16;
  o.activation = act;
  if (!cut) return o;
  o.set_parallel_mode = true;
  o.tp = {group(), sequence};
  return o;
}

// Whole and cut layers from one seed: the cut of a gated fc1 is right where
// every rank's part of h is the columns that the whole one has there.
//
// Beside bf16_budget: each rank's part of a sum is rounded too, by 2^-9 of
// itself - parts of independent weights have together the norm of their sum -
// and the two results round apart. Where ranks quantise with scales of their
// own, the errors of three operands are not the same ones.
TEST(LayerNormMLPParallel, IsTheWholeLayerButForReorderedSums) {
  const std::int64_t rows = 32 * ranks();
  const Tensor x = normal_tensor(DType::kBF16, {rows, 64}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {rows, 64}, 2);
  std::vector<NamedRecipe> recipes = all_recipes();
  recipes.push_back({"none", recipe::MXFP8BlockScaling{}, 0});
  const auto compare = [&](const NamedRecipe& r, Activation act, bool sequence,
                           bool checkpoint) {
    const Recipe* recipe = r.name == "none" ? nullptr : &r.recipe;
    manual_seed(7);
    LayerNormMLP whole(64, 128, mlp_options(act, false, false));
    manual_seed(7);
    LayerNormMLPOptions o = mlp_options(act, true, sequence);
    o.checkpoint = checkpoint;
    LayerNormMLP parts(64, 128, o);
    const PassResult a = train(whole, x, dy, recipe);
    const PassResult b = sequence
                             ? train(parts, part_of(x), part_of(dy), recipe)
                             : train(parts, x, dy, recipe);
    const bool own_scales =
        ranks() > 1 && r.name != "mxfp8" && r.name != "none";
    const double bound = bf16_budget(4, r.operand_error) + 2 * 0x1p-9 +
                         (own_scales ? 3 * r.operand_error : 0);
    const auto of_all = [&](const Tensor& t) {
      return sequence ? gathered(t) : t;
    };
    EXPECT_LT(distance(of_all(b.y), a.y), bound);
    EXPECT_LT(distance(of_all(b.dx), a.dx), bound);
    const int halves = is_gated(act) ? 2 : 1;
    const Tensor dw1 =
        cut(*whole.fc1_weight().grad, 0, ranks(), rank(), halves);
    const Tensor dw2 = cut(*whole.fc2_weight().grad, 1, ranks(), rank());
    EXPECT_LT(distance(*parts.fc1_weight().grad, dw1), bound);
    EXPECT_LT(distance(*parts.fc2_weight().grad, dw2), bound);
    EXPECT_EQ(parts.fc1_weight().partition_stride, halves);
    EXPECT_EQ(parts.parameter("layer_norm_weight").sequence_parallel, sequence);
  };
  for (const NamedRecipe& r : recipes) {
    for (bool sequence : {false, true}) {
      SCOPED_TRACE(r.name + (sequence ? " sequence" : ""));
      compare(r, Activation::kGelu, sequence, !sequence);
      compare(r, Activation::kSwiglu, sequence, sequence);
    }
  }
}

TEST(LayerNormLinearParallel, GathersTheNormsResultWhereAsked) {
  const std::int64_t rows = 32 * ranks();
  const Tensor x = normal_tensor(DType::kBF16, {rows, 64}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {rows, 32 * ranks()}, 2);
  const Tensor dz = normal_tensor(DType::kBF16, {rows, 64}, 3);
  NormLinearOptions o;
  o.params_dtype = DType::kBF16;
  o.return_layernorm_output_gathered = true;
  manual_seed(7);
  LayerNormLinear whole(64, 32 * ranks(), o);
  o.parallel_mode = ParallelMode::kColumn;
  o.tp = {group(), true};
  manual_seed(7);
  LayerNormLinear parts(64, 32 * ranks(), o);
  LayerNormLinear::Context a, b;
  const NormLinearOutput all = whole.forward(x, &a);
  const NormLinearOutput mine = parts.forward(part_of(x), &b);
  EXPECT_TRUE(same_bits(*all.layernorm_output, *mine.layernorm_output));
  // Every rank has a gradient of the whole: their sum is taken.
  Tensor zero = Tensor::zeros(DType::kBF16, dz.shape());
  const Tensor dx = whole.backward(dy, a, &dz);
  const Tensor part =
      parts.backward(columns_of(dy), b, rank() == 0 ? &dz : &zero);
  EXPECT_LT(distance(gathered(part), dx), bf16_budget(2, 0));
}

}  // namespace
}  // namespace assay::te
