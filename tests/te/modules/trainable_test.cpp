// Modules and optimizers together: a layer learns, quantised or not.
#include "assay/te/modules/trainable.h"

#include <gmock/gmock.h>

#include "assay/base/error.h"
#include "assay/te/modules/linear.h"
#include "assay/te/optim/grad_clip.h"
#include "tests/te/modules/module_test.h"

namespace assay::te {
namespace {

// Sum of squares of y - target, and dy its gradient.
double loss_of(const Tensor& y, const Tensor& target, Tensor& dy) {
  dy = Tensor::empty(y.dtype(), y.shape());
  double sum = 0;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double d = at(y, i) - at(target, i);
    sum += d * d;
    store_from_double(y.dtype(), 2 * d, dy.mutable_data(), i);
  }
  return sum;
}

// Losses of 30 steps towards the outputs of another layer.
std::vector<double> train(Linear& layer, const Recipe* recipe) {
  FusedAdam adam(trainable(layer), {.lr = .02, .master_weights = true});
  const Tensor x = normal_tensor(DType::kBF16, {64, 32}, 1);
  const Tensor target = normal_tensor(DType::kBF16, {64, 32}, 2, .5);
  std::vector<double> losses;
  for (int k = 0; k < 30; ++k) {
    std::optional<Autocast> scope;
    if (recipe != nullptr) scope.emplace(*recipe);
    Linear::Context context;
    Tensor dy;
    losses.push_back(loss_of(layer.forward(x, &context), target, dy));
    layer.zero_grad();
    layer.backward(dy, context);
    std::vector<Tensor> grads = gradients(layer);
    clip_grad_norm(grads, 100);
    adam.step(grads);
  }
  return losses;
}

TEST(Trainable, ALayerLearns) {
  Linear layer(32, 32, {.params_dtype = DType::kBF16});
  const auto losses = train(layer, nullptr);
  EXPECT_LT(losses.back(), .75 * losses.front());
}

// The codes are the parameter: the forward of the next step sees the new ones,
// and another recipe half way makes new quantisers.
TEST(Trainable, AQuantisedLayerLearns) {
  const Recipe current = recipe::Float8CurrentScaling{};
  const Recipe delayed = recipe::DelayedScaling{};
  std::optional<QuantizedModelInit> scope(current);
  Linear layer(32, 32, {.params_dtype = DType::kBF16});
  scope.reset();
  const auto first = train(layer, &current);
  EXPECT_LT(first.back(), .75 * first.front());
  const auto second = train(layer, &delayed);
  EXPECT_LT(second.back(), .75 * first.front());
}

TEST(Trainable, SkipsFrozenParametersAndNamesMissingGradients) {
  Linear layer(4, 4);
  EXPECT_EQ(trainable(layer).size(), 2u);
  layer.bias()->requires_grad = false;
  ASSERT_EQ(trainable(layer).size(), 1u);
  EXPECT_EQ(trainable(layer)[0].name, "weight");
  try {
    gradients(layer);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("weight: no gradient, expected one from a"));
  }
  // main_grad comes first: what fused accumulation writes to.
  layer.weight().grad = Tensor::zeros(DType::kF32, {4, 4});
  layer.weight().main_grad =
      filled(DType::kF32, {4, 4}, std::vector<double>(16, 7));
  EXPECT_EQ(at(gradients(layer)[0], 0), 7);
}

// A main_grad beside a module that was not made to add to it.
TEST(Trainable, AddsAGradientToTheMainGradBesideIt) {
  Linear layer(4, 4);
  layer.bias()->requires_grad = false;
  layer.weight().main_grad =
      filled(DType::kF32, {4, 4}, std::vector<double>(16, 7));
  Linear::Context context;
  layer.forward(filled(DType::kF32, {1, 4}, {1, 2, 3, 4}), &context);
  layer.backward(filled(DType::kF32, {1, 4}, {1, 1, 1, 1}), context);
  for (int call = 0; call < 2; ++call) {
    const Tensor g = gradients(layer)[0];
    EXPECT_EQ(g.dtype(), DType::kF32);
    EXPECT_EQ(at(g, 0), 8);
    EXPECT_EQ(at(g, 7), 11);
    EXPECT_FALSE(layer.weight().grad);
  }
}

}  // namespace
}  // namespace assay::te
