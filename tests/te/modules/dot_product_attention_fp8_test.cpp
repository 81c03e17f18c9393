// Attention under recipes with fp8_dpa.
#include <algorithm>

#include "assay/te/quantize/current.h"
#include "assay/te/quantize/identity.h"
#include "assay/te/quantize/mxfp8.h"
#include "tests/te/modules/attention_test.h"

namespace assay::te {
namespace {

// fp8_dpa under current scaling, by hand: q, k and v under one scale, then the
// softmax, the output; in backward d_out, dp, and dq, dk and dv under one.
TEST(DotProductAttention, QuantisesWhereFp8AttentionDoes) {
  const Qkv x = inputs(DType::kBF16, 16, 1, 2, 2, 32);
  const Tensor d = normal_tensor(DType::kBF16, {16, 1, 64}, 4);
  DotProductAttention module(2, 32);
  recipe::Float8CurrentScaling recipe;
  recipe.fp8_dpa = true;
  DotProductAttention::Context context;
  Tensor out;
  {
    Autocast autocast{Recipe(recipe)};
    out = module.forward(x.q, x.k, x.v, &context).out;
  }
  const AttentionGradients grads = module.backward(d, context);

  CurrentScalingQuantizer e4m3({DType::kE4M3FN}), e5m2({DType::kE5M2});
  const auto largest = [](std::initializer_list<const Tensor*> tensors) {
    double amax = 0;
    for (const Tensor* t : tensors)
      for (std::int64_t i = 0; i < t->numel(); ++i)
        amax = std::max(amax, std::abs(at(*t, i)));
    return amax;
  };
  // Each tensor with the greatest value of the three in one element more.
  const auto three = [&](CurrentScalingQuantizer& quantizer) {
    return [&](Tensor& a, Tensor& b, Tensor& c) {
      const double amax = largest({&a, &b, &c});
      for (Tensor* t : {&a, &b, &c}) {
        Tensor longer = Tensor::empty(t->dtype(), {t->numel() + 1});
        std::memcpy(longer.mutable_data(), t->view.data,
                    t->view.bytes().size());
        store_from_double(t->dtype(), amax, longer.mutable_data(), t->numel());
        Tensor back = dequantize(quantizer.quantize(longer), t->dtype());
        back.view.shape = t->shape();
        *t = back;
      }
    };
  };
  const auto one = [](CurrentScalingQuantizer& quantizer) {
    return [&](const Tensor& t) {
      return dequantize(quantizer.quantize(t), t.dtype());
    };
  };
  AttentionInputs in;
  in.q = x.q;
  in.k = x.k;
  in.v = x.v;
  const AttentionFp8Roles roles = {three(e4m3), one(e4m3), one(e4m3),
                                   one(e5m2),   one(e5m2), three(e5m2)};
  const AttentionFp8Result expected = attention_fp8_forward(in, {}, roles);
  Tensor dr = d;
  dr.view.shape = {16, 1, 2, 32};
  const AttentionGradients g = attention_fp8_backward(dr, expected, {}, roles);
  Tensor flat = expected.out;
  flat.view.shape = {16, 1, 64};
  EXPECT_TRUE(same_bits(out, flat));
  EXPECT_TRUE(same_bits(grads.dq, g.dq));
  EXPECT_TRUE(same_bits(grads.dk, g.dk));
  EXPECT_TRUE(same_bits(grads.dv, g.dv));
  // And it did quantise: the plain result is another, within e4m3's error.
  const Tensor plain = module.forward(x.q, x.k, x.v).out;
  EXPECT_FALSE(same_bits(out, plain));
  EXPECT_LT(distance(out, plain), 0.1);
}

// MXFP8: q, k, v and d_out, each by itself along the channels, and no more.
TEST(DotProductAttention, QuantisesInputsAloneUnderMxfp8) {
  const Qkv x = inputs(DType::kBF16, 16, 1, 2, 2, 32);
  const Tensor d = normal_tensor(DType::kBF16, {16, 1, 64}, 4);
  DotProductAttention module(2, 32);
  recipe::MXFP8BlockScaling recipe;
  recipe.fp8_dpa = true;
  DotProductAttention::Context context;
  Tensor out;
  {
    Autocast autocast{Recipe(recipe)};
    out = module.forward(x.q, x.k, x.v, &context).out;
  }
  const AttentionGradients grads = module.backward(d, context);

  const auto decoded = [](const Tensor& t) {
    MXFP8Quantizer quantizer(DType::kE4M3FN);
    return dequantize(quantizer.quantize(t), t.dtype());
  };
  AttentionInputs in;
  in.q = decoded(x.q);
  in.k = decoded(x.k);
  in.v = decoded(x.v);
  const AttentionFp8Result expected = attention_fp8_forward(in, {}, {});
  Tensor dr = d;
  dr.view.shape = {16, 1, 2, 32};
  const AttentionGradients g =
      attention_fp8_backward(decoded(dr), expected, {}, {});
  Tensor flat = expected.out;
  flat.view.shape = {16, 1, 64};
  EXPECT_TRUE(same_bits(out, flat));
  EXPECT_TRUE(same_bits(grads.dq, g.dq));
  EXPECT_TRUE(same_bits(grads.dk, g.dk));
  EXPECT_TRUE(same_bits(grads.dv, g.dv));
  EXPECT_FALSE(same_bits(out, module.forward(x.q, x.k, x.v).out));
}

// A factory that quantises nothing gives attention without quantisation, in
// the emulation's order of rounding; it is asked for every slot.
TEST(DotProductAttention, CustomRecipesMakeItsQuantisers) {
  const Qkv x = inputs(DType::kF32, 16, 1, 2, 2, 32);
  DotProductAttention module(2, 32);
  int asked = 0;
  recipe::Custom recipe;
  recipe.fp8_dpa = true;
  recipe.qfactory = [&](const QuantizerRole& role) -> recipe::QuantizerRequest {
    EXPECT_EQ(role.module_type, "dpa");
    ++asked;
    return std::make_unique<IdentityQuantizer>();
  };
  Tensor out;
  {
    Autocast autocast{Recipe(recipe)};
    out = module.forward(x.q, x.k, x.v).out;
  }
  EXPECT_EQ(asked, 9 + 6);
  EXPECT_LT(distance(out, module.forward(x.q, x.k, x.v).out), 2e-6);
}

TEST(DotProductAttention, KeepsHistoriesInNvtesSlots) {
  const Qkv x = inputs(DType::kBF16, 16, 1, 2, 2, 32);
  recipe::DelayedScaling recipe;
  recipe.amax_history_len = 4;
  recipe.fp8_dpa = true;
  DotProductAttention kept(2, 32, {.attention_dropout = 0.25});
  DotProductAttention again(2, 32, {.attention_dropout = 0.25});
  AttentionCall checkpoint;
  checkpoint.checkpoint_core_attention = true;
  const Tensor d = normal_tensor(DType::kBF16, {16, 1, 64}, 4);
  for (int step = 0; step < 3; ++step) {
    AttentionStep a, b;
    const RandomStates before = random_states();
    const auto train = [&](DotProductAttention& module, AttentionStep& s,
                           const AttentionCall& call) {
      DotProductAttention::Context context;
      {
        Autocast autocast{Recipe(recipe)};
        s.out = module.forward(x.q, x.k, x.v, &context, call).out;
      }
      s.grads = module.backward(d, context);
    };
    train(kept, a, {});
    set_random_states(before);
    train(again, b, checkpoint);
    EXPECT_TRUE(same_bits(a.out, b.out));
    EXPECT_TRUE(same_bits(a.grads.dq, b.grads.dq));
    EXPECT_TRUE(same_bits(a.grads.dk, b.grads.dk));
    EXPECT_TRUE(same_bits(a.grads.dv, b.grads.dv));
  }
  const auto state = kept.state_dict();
  ASSERT_EQ(state.size(), 4u);
  EXPECT_EQ(state[1].name, "_extra_state.amax_history_fwd");
  EXPECT_EQ(state[1].tensor.shape(), (Shape{4, 9}));
  EXPECT_EQ(state[3].tensor.shape(), (Shape{4, 6}));
  const auto moved = [](const Tensor& scale) {
    std::vector<int> slots;
    for (int i = 0; i < scale.numel(); ++i)
      if (at(scale, i) != 1) slots.push_back(i);
    return slots;
  };
  EXPECT_EQ(moved(state[0].tensor), (std::vector<int>{2, 3, 8}));
  EXPECT_EQ(moved(state[2].tensor), (std::vector<int>{0, 3, 5}));
  const auto p = kept.extra_state(), q = again.extra_state();
  for (std::size_t i = 0; i < p.size(); ++i)
    EXPECT_TRUE(same_bits(p[i].tensor, q[i].tensor)) << p[i].name;
}

}  // namespace
}  // namespace assay::te
