// A context may be filled again without a backward in between, as where a step
// is skipped, and may serve one step after the other: nothing of what was there
// before counts.
#include "assay/te/modules/layernorm_mlp.h"
#include "assay/te/modules/moe.h"
#include "assay/te/modules/multihead_attention.h"
#include "assay/te/modules/recompute.h"
#include "assay/te/ops/rope.h"
#include "tests/te/modules/linear_step.h"
#include "tests/te/modules/module_checks.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;

template <typename M, typename Args>
Tensor run_forward(M& module, const Tensor& x, const Recipe* recipe,
                   typename M::Context& context, const Args& args) {
  std::optional<Autocast> autocast;
  if (recipe) autocast.emplace(*recipe);
  return output_of(module.forward(x, &context, args));
}

Tensor grad_of(const MultiheadAttention::Gradients& g) {
  return g.d_hidden_states;
}
Tensor grad_of(const Tensor& dx) { return dx; }

// Forward `first` and forward `second` into one context gives what `second`
// alone gives.
template <typename M, typename Args>
void expect_only_the_last_counts(M& module, const Tensor& x,
                                 const Recipe* first, const Args& first_args,
                                 const Recipe* second,
                                 const Args& second_args) {
  typename M::Context used, fresh;
  const Tensor other = normal_tensor(x.dtype(), x.shape(), 77, 4);
  run_forward(module, other, first, used, first_args);
  const Tensor y = run_forward(module, x, second, used, second_args);
  EXPECT_TRUE(same_bits(run_forward(module, x, second, fresh, second_args), y));
  const Tensor dy = normal_tensor(y.dtype(), y.shape(), 78);
  const auto gradients = [&](typename M::Context& context) {
    module.zero_grad();
    std::vector<Tensor> out = {grad_of(module.backward(dy, context))};
    for (const NamedParameter& p : module.parameters())
      out.push_back(*p.parameter->grad);
    return out;
  };
  const auto a = gradients(used), b = gradients(fresh);
  for (std::size_t i = 0; i < b.size(); ++i)
    EXPECT_TRUE(same_bits(a[i], b[i])) << i;
}

const Recipe kMxfp8 = recipe::MXFP8BlockScaling{};

TEST(ContextReuse, OfALinearLayerUnderAnotherRecipe) {
  Linear layer(32, 64, bf16());
  const Tensor x = normal_tensor(kBF16, {32, 32}, 1);
  const LinearCall call;
  expect_only_the_last_counts(layer, x, nullptr, call, &kMxfp8, call);
  expect_only_the_last_counts(layer, x, &kMxfp8, call, nullptr, call);
  recipe::Float8CurrentScaling current;
  current.backward_override = BackwardOverride::kHighPrecision;
  const Recipe high = current;
  expect_only_the_last_counts(layer, x, &high, call, &kMxfp8, call);
}

TEST(ContextReuse, OfAnMlpUnderAnotherRecipe) {
  LayerNormMLPOptions options;
  options.params_dtype = kBF16;
  LayerNormMLP mlp(32, 64, options);
  const Tensor x = normal_tensor(kBF16, {32, 32}, 1);
  const LinearCall call;
  expect_only_the_last_counts(mlp, x, nullptr, call, &kMxfp8, call);
  expect_only_the_last_counts(mlp, x, &kMxfp8, call, nullptr, call);
}

TEST(ContextReuse, OfAMixtureOfExpertsUnderAnotherRecipe) {
  MoEOptions options;
  options.num_experts = 4;
  options.router.topk = 2;
  options.params_dtype = kBF16;
  MoELayer moe(64, 64, options);
  const Tensor x = normal_tensor(kBF16, {8, 64}, 1);
  const LinearCall call;
  expect_only_the_last_counts(moe, x, nullptr, call, &kMxfp8, call);
  expect_only_the_last_counts(moe, x, &kMxfp8, call, nullptr, call);
}

TEST(ContextReuse, OfAttentionWithoutRotation) {
  MultiheadAttentionOptions options;
  options.attention_dropout = 0;
  MultiheadAttention attention(32, 4, options);
  const Tensor angles = rope_frequencies({.dim = 8}, 8);
  MultiheadAttentionCall rotated;
  rotated.rotary_pos_emb = {angles, angles};
  expect_only_the_last_counts(attention,
                              normal_tensor(DType::kF32, {8, 2, 32}, 1),
                              nullptr, rotated, nullptr, {});
}

// The scales of the first pass of this step, not of the first step.
TEST(ContextReuse, OfARecomputationStepAfterStep) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear kept(32, 64, bf16()), again(32, 64, bf16());
    copy_parameters(kept, again);
    Linear::Context a;
    RecomputeContext<Linear> b;
    for (int step = 0; step < 3; ++step) {
      const Tensor x = normal_tensor(kBF16, {32, 32}, step, 1 << (3 * step));
      const Tensor dy = normal_tensor(kBF16, {32, 64}, 9 + step);
      kept.zero_grad();
      again.zero_grad();
      {
        Autocast autocast(r.recipe);
        kept.forward(x, &a);
      }
      {
        Autocast autocast(r.recipe);
        recomputed_forward(again, x, b);
      }
      EXPECT_TRUE(
          same_bits(recomputed_backward(again, dy, b), kept.backward(dy, a)))
          << step;
      EXPECT_TRUE(same_bits(*again.weight().grad, *kept.weight().grad)) << step;
    }
  }
}

}  // namespace
}  // namespace assay::te
