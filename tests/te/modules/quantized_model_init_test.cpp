// Weights that are stored quantised: QuantizedModelInit.
#include "assay/te/modules/observer.h"
#include "assay/te/quantize/update.h"
#include "tests/te/modules/linear_step.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;

// Two layers of the same initial values, the first with a quantised weight.
struct Twins {
  explicit Twins(const Recipe& r, bool preserve = false) {
    manual_seed(11);
    {
      QuantizedModelInit init(QuantizedModelInitOptions{
          .recipe = r, .preserve_high_precision_init_val = preserve});
      stored.emplace(96, 160, bf16());
    }
    manual_seed(11);
    plain.emplace(96, 160, bf16());
  }
  std::optional<Linear> stored, plain;
};

const Tensor& input() {
  static const Tensor x = normal_tensor(kBF16, {32, 96}, 1);
  return x;
}
const Tensor& grad() {
  static const Tensor dy = normal_tensor(kBF16, {32, 160}, 2);
  return dy;
}

TEST(QuantizedWeights, ComputeWhatQuantisingTheInitialValuesGives) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Twins t(r.recipe);
    EXPECT_FALSE(t.stored->weight().value);
    EXPECT_FALSE(t.stored->weight().high_precision_init);
    EXPECT_TRUE(t.stored->bias()->value);
    EXPECT_EQ(t.stored->weight().shape, (Shape{160, 96}));
    expect_same_step(run(*t.stored, r.recipe, input(), grad()),
                     run(*t.plain, r.recipe, input(), grad()), r.name);
  }
}

TEST(QuantizedWeights, KeepTheInitialValuesWhereAsked) {
  Twins t(recipe::MXFP8BlockScaling{}, true);
  ASSERT_TRUE(t.stored->weight().high_precision_init);
  EXPECT_TRUE(same_bits(*t.stored->weight().high_precision_init,
                        *t.plain->weight().value));
}

TEST(QuantizedWeights, OutsideOfAutocastAreDecoded) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Twins t(r.recipe);
    const Tensor w = dequantize(*t.stored->weight().quantized, kBF16);
    EXPECT_FALSE(same_bits(w, *t.plain->weight().value));
    GemmOptions bias;
    bias.bias = &*t.stored->bias()->value;
    const Step step = run(*t.stored, input(), grad());
    EXPECT_TRUE(same_bits(step.y, gemm_fprop(input(), w, bias).d));
    EXPECT_TRUE(same_bits(step.dx, gemm_dgrad(grad(), w).d));
    EXPECT_TRUE(same_bits(step.dw, gemm_wgrad(grad(), input()).d));
  }
}

TEST(QuantizedWeights, AnotherRecipeIsRefused) {
  Twins t(recipe::Float8BlockScaling{});
  EXPECT_EQ(message_of([&] {
              Autocast autocast{recipe::MXFP8BlockScaling{}};
              t.stored->forward(input());
            }),
            "Linear: weight: stored as block 128x128, expected what "
            "MXFP8BlockScaling quantises");
  // Per-tensor codes serve both recipes that have them.
  Twins current(recipe::Float8CurrentScaling{});
  Autocast autocast{recipe::DelayedScaling{}};
  EXPECT_NO_THROW(current.stored->forward(input()));
}

TEST(QuantizedWeights, AnOptimizerQuantisesNewValues) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Twins t(r.recipe);
    for (int step = 0; step < 3; ++step) {
      t.stored->zero_grad();
      t.plain->zero_grad();
      expect_same_step(run(*t.stored, r.recipe, input(), grad()),
                       run(*t.plain, r.recipe, input(), grad()), r.name);
      const Tensor w = normal_tensor(kBF16, {160, 96}, 50 + step, 2 << step);
      Parameter& p = t.stored->weight();
      update_quantized(*p.quantizer, w, *p.quantized);
      std::memcpy(t.plain->weight().value->mutable_data(), w.view.data,
                  w.view.bytes().size());
    }
  }
}

// After a change of recipe settings the optimizer has the new quantisers.
TEST(QuantizedWeights, TheQuantizerFollowsTheRecipe) {
  recipe::DelayedScaling r;
  r.amax_history_len = 4;
  Twins t(r);
  Quantizer* before = t.stored->weight().quantizer;
  r.amax_history_len = 8;
  run(*t.stored, r, input(), grad());
  EXPECT_NE(t.stored->weight().quantizer, before);
  t.stored->weight().quantizer->quantize(normal_tensor(kBF16, {160, 96}, 9));
  EXPECT_GT(extra(*t.stored, "amax_history_fwd").data<float>()[1], 0);
}

class Weights : public ModuleObserver {
 public:
  void on_tensor(const Module&, std::string_view, const Tensor&) override {}
  void on_quantized(const Module&, Role role, const Tensor*,
                    const QuantizedTensor&) override {
    count += role == Role::kWeight;
  }
  int count = 0;
};

TEST(QuantizedWeights, AreNotQuantisedAgain) {
  Twins t(recipe::MXFP8BlockScaling{});
  Weights seen;
  ObserverScope scope(seen);
  run(*t.stored, recipe::MXFP8BlockScaling{}, input(), grad());
  EXPECT_EQ(seen.count, 0);
  run(*t.plain, recipe::MXFP8BlockScaling{}, input(), grad());
  EXPECT_EQ(seen.count, 1);
}

TEST(QuantizedWeights, StateDictsHoldCodesAndScales) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Twins t(r.recipe);
    manual_seed(12);
    QuantizedModelInit init(r.recipe);
    Linear other(96, 160, bf16());
    EXPECT_FALSE(
        same_bits(values_of(other.weight()), values_of(t.stored->weight())));
    other.load_state_dict(t.stored->state_dict());
    EXPECT_TRUE(
        same_bits(values_of(other.weight()), values_of(t.stored->weight())));
    expect_same_step(run(other, r.recipe, input(), grad()),
                     run(*t.stored, r.recipe, input(), grad()), r.name);
    EXPECT_EQ(t.stored->state_dict()[0].name, "weight._rowwise_data");
  }
}

TEST(QuantizedWeights, ScopesNestAndEnd) {
  EXPECT_EQ(quantized_model_init(), nullptr);
  {
    QuantizedModelInit outer{recipe::MXFP8BlockScaling{}};
    {
      QuantizedModelInit off(QuantizedModelInitOptions{.enabled = false});
      Linear plain(96, 160, bf16());
      EXPECT_TRUE(plain.weight().value);
    }
    Linear stored(96, 160, bf16());
    EXPECT_EQ(stored.weight().quantized->rowwise->mode, ScalingMode::kMXFP8);
    LinearOptions split = bf16();
    split.parameters_split = {{"q", 80}, {"k", 80}};
    EXPECT_EQ(message_of([&] { Linear layer(96, 160, split); }),
              "Linear: parameters_split: given, expected one weight where it "
              "is stored quantised");
  }
  EXPECT_EQ(quantized_model_init(), nullptr);
}

}  // namespace
}  // namespace assay::te
