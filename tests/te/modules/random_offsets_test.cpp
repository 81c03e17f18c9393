#include "assay/te/modules/random_offsets.h"

#include "assay/base/error.h"
#include "assay/te/modules/linear.h"
#include "tests/te/modules/module_test.h"

namespace assay::te {
namespace {

LinearOptions bf16() {
  LinearOptions options;
  options.params_dtype = DType::kBF16;
  return options;
}

// The gradient of one step.
Tensor step(Linear& layer, std::uint64_t seed, const Recipe& recipe) {
  Linear::Context context;
  Autocast autocast{Recipe(recipe)};
  layer.forward(normal_tensor(DType::kBF16, {64, 64}, seed), &context);
  autocast.end();
  return layer.backward(normal_tensor(DType::kBF16, {64, 64}, seed + 1),
                        context);
}

std::vector<NamedTensor> copied(std::vector<NamedTensor> state) {
  for (NamedTensor& t : state) {
    Tensor copy = Tensor::empty(t.tensor.dtype(), t.tensor.shape());
    std::memcpy(copy.mutable_data(), t.tensor.view.data,
                t.tensor.view.bytes().size());
    t.tensor = copy;
  }
  return state;
}

TEST(RandomOffsets, GoOnWhereTheyWere) {
  const Recipe fp4 = recipe::NVFP4BlockScaling{};
  Linear layer(64, 64, bf16());
  step(layer, 1, fp4);
  step(layer, 3, fp4);
  const std::vector<NamedTensor> state = copied(layer.state_dict());
  const Tensor third = step(layer, 5, fp4);

  Linear resumed(64, 64, bf16());
  resumed.load_state_dict(state);
  EXPECT_TRUE(same_bits(step(resumed, 5, fp4), third));

  // That the offsets did it: without them other numbers are drawn.
  std::vector<NamedTensor> without = state;
  EXPECT_EQ(std::erase_if(without,
                          [](const NamedTensor& t) {
                            return t.name == kRandomOffsetBackward;
                          }),
            1u);
  Linear other(64, 64, bf16());
  other.load_state_dict(without);
  EXPECT_FALSE(same_bits(step(other, 5, fp4), third));
}

// Two numbers a quantisation: rows and columns (NVFP4Options).
TEST(RandomOffsets, AreThoseOfTheQuantisersThatDraw) {
  Linear layer(64, 64, bf16());
  step(layer, 1, recipe::NVFP4BlockScaling{});
  step(layer, 3, recipe::NVFP4BlockScaling{});
  EXPECT_EQ(random_offsets(*layer.quantizer_states()->forward), std::nullopt);
  const auto offsets = random_offsets(*layer.quantizer_states()->backward);
  ASSERT_TRUE(offsets);
  ASSERT_EQ(offsets->shape(), (Shape{2}));  // grad_output, grad_input
  EXPECT_EQ(offsets->data<std::int64_t>()[0], 4);
  EXPECT_EQ(offsets->data<std::int64_t>()[1], 0);
}

TEST(RandomOffsets, AreNoStateOfOtherRecipes) {
  for (const NamedRecipe& r : all_recipes()) {
    if (r.name == "nvfp4") continue;
    Linear layer(64, 64, bf16());
    layer.init_quantizers(std::make_shared<const Recipe>(r.recipe));
    EXPECT_EQ(random_offsets(*layer.quantizer_states()->backward), std::nullopt)
        << r.name;
  }
  recipe::NVFP4BlockScaling nearest;
  nearest.disable_stochastic_rounding = true;
  Linear layer(64, 64, bf16());
  layer.init_quantizers(std::make_shared<const Recipe>(nearest));
  EXPECT_EQ(layer.state_dict().size(), 2u);  // weight, bias
}

// A run may change its recipe: what the new one has no use for is dropped.
TEST(RandomOffsets, AreIgnoredByARecipeThatDoesNotDraw) {
  Linear layer(64, 64, bf16());
  step(layer, 1, recipe::NVFP4BlockScaling{});
  Linear other(64, 64, bf16());
  other.load_state_dict(layer.state_dict());
  step(other, 1, recipe::MXFP8BlockScaling{});
  EXPECT_EQ(other.state_dict().size(), 2u);
}

TEST(RandomOffsets, MustBeOnesThatFit) {
  Linear layer(64, 64, bf16());
  step(layer, 1, recipe::NVFP4BlockScaling{});
  for (const Tensor& bad :
       {Tensor::zeros(DType::kI64, {3}), Tensor::zeros(DType::kF32, {2})}) {
    const NamedTensor state{kRandomOffsetBackward, bad};
    try {
      layer.load_extra_state(std::span(&state, 1));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUsage);
      EXPECT_NE(std::string(error.what()).find("Linear: _extra_state.random"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace assay::te
