#include "assay/te/modules/layernorm_linear.h"

#include <algorithm>

#include "assay/base/parallel.h"
#include "assay/te/modules/norm.h"
#include "assay/te/modules/recompute.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/fused.h"
#include "tests/te/modules/module_checks.h"

namespace assay::te {
namespace {

NormLinearOptions options_of(DType dtype, Device device = Device::kCpu) {
  NormLinearOptions o;
  o.params_dtype = dtype;
  o.device = device;
  return o;
}

TEST(LayerNormLinear, NamesItsParametersAsNvte) {
  NormLinearOptions o;
  o.parameters_split = {{"query", 4}, {"key", 2}};
  LayerNormLinear layer(8, 6, o);
  std::string names;
  for (const NamedParameter& p : layer.parameters()) names += p.name + " ";
  EXPECT_EQ(names,
            "layer_norm_weight layer_norm_bias query_weight key_weight "
            "query_bias key_bias ");
  o.parameters_split.clear();
  o.normalization = Normalization::kRMSNorm;
  o.bias = false;
  LayerNormLinear rms(8, 6, o);
  names.clear();
  for (const NamedParameter& p : rms.parameters()) names += p.name + " ";
  EXPECT_EQ(names, "layer_norm_weight weight ");
}

TEST(LayerNormLinear, AgreesWithTheReference) {
  for (Normalization kind :
       {Normalization::kLayerNorm, Normalization::kRMSNorm}) {
    const auto make = [&](DType dtype, Device device) {
      NormLinearOptions o = options_of(dtype, device);
      o.normalization = kind;
      o.zero_centered_gamma = kind == Normalization::kRMSNorm;
      return std::make_unique<LayerNormLinear>(128, 96, o);
    };
    expect_agrees_with_reference(make, {2, 32, 128}, {2, 32, 96}, 1);
    auto slow = make(DType::kF32, Device::kReference);
    expect_finite_differences(*slow, normal_tensor(DType::kF32, {4, 128}, 1),
                              {4, 96});
  }
}

// y, dw of one pass against the operators called one by one, with quantisers
// that have the scales of the forward: those of the backward are others.
TEST(LayerNormLinear, MakesTheNormsCodesAgainWithTheScalesOfTheForward) {
  recipe::DelayedScaling recipe;
  recipe.amax_history_len = 2;
  LayerNormLinear layer(64, 32, options_of(DType::kBF16));
  for (int step = 0; step < 3; ++step) {
    const Tensor x = normal_tensor(DType::kBF16, {48, 64}, 5 + step, 1 + step);
    const Tensor dy = normal_tensor(DType::kBF16, {48, 32}, 9 + step);
    layer.zero_grad();
    DelayedScalingState forward(1, 2), backward(1, 1);
    if (step > 0) {
      for (const NamedTensor& t : layer.extra_state()) {
        if (t.name == "_extra_state.scale_fwd")
          for (int i = 0; i < 2; ++i)
            forward.scale.mutable_data<float>()[i] =
                static_cast<float>(at(t.tensor, i));
        if (t.name == "_extra_state.scale_bwd")
          backward.scale.mutable_data<float>()[0] =
              static_cast<float>(at(t.tensor, 0));
      }
    }
    const PassResult r = [&] {
      const Recipe any = recipe;
      return train(layer, x, dy, &any);
    }();
    const auto of = [](DType format, const DelayedScalingState& s, int slot) {
      return DelayedScalingQuantizer(
          format, std::make_shared<DelayedScalingState>(s.copy()), slot);
    };
    auto qz = of(DType::kE4M3FN, forward, 0),
         qw = of(DType::kE4M3FN, forward, 1);
    auto qg = of(DType::kE5M2, backward, 0);
    const QuantizedTensor z =
        layernorm_quantize(qz, x, *layer.parameter("layer_norm_weight").value,
                           *layer.parameter("layer_norm_bias").value)
            .z;
    const QuantizedTensor w = qw.quantize(*layer.weight().value);
    const QuantizedTensor g = qg.quantize(dy);
    GemmOptions bias;
    bias.bias = &*layer.bias()->value;
    EXPECT_TRUE(same_bits(r.y, gemm_fprop(z, w, bias).d)) << step;
    EXPECT_TRUE(same_bits(*layer.weight().grad, gemm_wgrad(g, z).d)) << step;
  }
}

TEST(LayerNormLinear, IsANormAndALinearLayerInHighPrecision) {
  LayerNormLinear both(64, 32, options_of(DType::kBF16));
  LayerNorm norm(64, {.params_dtype = DType::kBF16});
  LinearOptions o;
  o.params_dtype = DType::kBF16;
  Linear linear(64, 32, o);
  std::memcpy(linear.weight().value->mutable_data(),
              both.weight().value->view.data, 64 * 32 * 2);
  const Tensor x = normal_tensor(DType::kBF16, {24, 64}, 5);
  const Tensor dy = normal_tensor(DType::kBF16, {24, 32}, 6);
  const PassResult r = train(both, x, dy, nullptr);
  LayerNorm::Context a;
  const Tensor z = norm.forward(x, &a);
  const PassResult l = train(linear, z, dy, nullptr);
  EXPECT_TRUE(same_bits(r.y, l.y));
  EXPECT_TRUE(same_bits(r.dx, norm.backward(l.dx, a)));
  EXPECT_TRUE(same_bits(*both.weight().grad, *linear.weight().grad));
  EXPECT_TRUE(same_bits(*both.parameter("layer_norm_weight").grad,
                        *norm.parameter("weight").grad));
}

TEST(LayerNormLinear, GivesTheNormsResultAndTakesItsGradient) {
  NormLinearOptions o = options_of(DType::kF32);
  o.return_layernorm_output = true;
  LayerNormLinear layer(16, 8, o);
  LayerNorm norm(16);
  const Tensor x = normal_tensor(DType::kF32, {5, 16}, 1);
  const Tensor dy = normal_tensor(DType::kF32, {5, 8}, 2);
  const Tensor dz = normal_tensor(DType::kF32, {5, 16}, 3);
  LayerNormLinear::Context with, without;
  const NormLinearOutput out = layer.forward(x, &with);
  ASSERT_TRUE(out.layernorm_output);
  EXPECT_TRUE(same_bits(*out.layernorm_output, norm.forward(x)));
  const Tensor dx = layer.backward(dy, with, &dz);
  // The difference of the two backwards is what the norm alone gives for dz.
  layer.forward(x, &without);
  const Tensor alone = layer.backward(dy, without);
  const Tensor of_norm = train(norm, x, dz, nullptr).dx;
  for (std::int64_t i = 0; i < dx.numel(); ++i)
    EXPECT_NEAR(at(dx, i) - at(alone, i), at(of_norm, i), 2e-6) << i;
}

TEST(LayerNormLinear, RecomputesBitForBit) {
  const Tensor x = normal_tensor(DType::kBF16, {64, 96}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {64, 32}, 4);
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    LayerNormLinear kept(96, 32, options_of(DType::kBF16));
    LayerNormLinear again(96, 32, options_of(DType::kBF16));
    copy_parameters(kept, again);
    for (int step = 0; step < 3; ++step) {
      kept.zero_grad();
      again.zero_grad();
      const PassResult a = train(kept, x, dy, &r.recipe);
      RecomputeContext<LayerNormLinear> context;
      Tensor y;
      {
        Autocast autocast(r.recipe);
        y = recomputed_forward(again, x, context).output;
      }
      EXPECT_TRUE(same_bits(a.y, y));
      EXPECT_TRUE(same_bits(a.dx, recomputed_backward(again, dy, context)));
      expect_same_gradients(kept, again);
    }
  }
}

// Both keep x and four bytes a row and statistic: z and its codes are made
// again.
TEST(LayerNormLinear, KeepsItsInputAlone) {
  LayerNormLinear layer(256, 128, options_of(DType::kBF16));
  const Tensor x = normal_tensor(DType::kBF16, {256, 256}, 3);
  for (const NamedRecipe& r : all_recipes()) {
    LayerNormLinear::Context plain, quantised;
    layer.forward(x, &plain);
    {
      Autocast autocast(r.recipe);
      layer.forward(x, &quantised);
    }
    EXPECT_EQ(saved_bytes(plain), 256 * 256 * 2 + 2 * 256 * 4);
    EXPECT_EQ(saved_bytes(quantised), saved_bytes(plain)) << r.name;
  }
}

// The operands of an override's backward: GEMMs of decoded or original tensors.
TEST(LayerNormLinear, FollowsTheBackwardOverride) {
  const Tensor x = normal_tensor(DType::kBF16, {64, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {64, 32}, 4);
  LayerNormLinear layer(64, 32, options_of(DType::kBF16));
  for (BackwardOverride kind :
       {BackwardOverride::kHighPrecision, BackwardOverride::kDequantized}) {
    recipe::Float8CurrentScaling scaling;
    scaling.backward_override = kind;
    const Recipe recipe = scaling;
    layer.zero_grad();
    train(layer, x, dy, &recipe);
    LayerNorm norm(64, {.params_dtype = DType::kBF16});
    Tensor z = norm.forward(x);
    if (kind == BackwardOverride::kDequantized) {
      layer.init_quantizers(std::make_shared<const Recipe>(recipe));
      Quantizer& q = layer.quantizer_states()->forward->at(0);
      z = dequantize(q.quantize(z), DType::kBF16);
    }
    EXPECT_TRUE(same_bits(*layer.weight().grad, gemm_wgrad(dy, z).d));
  }
}

TEST(LayerNormLinear, PutsOffItsWeightGradient) {
  for (const NamedRecipe& r : all_recipes()) {
    NormLinearOptions o = options_of(DType::kBF16);
    LayerNormLinear now(64, 32, o);
    o.delay_wgrad_compute = true;
    LayerNormLinear later(64, 32, o);
    copy_parameters(now, later);
    const Tensor x = normal_tensor(DType::kBF16, {64, 64}, 3);
    const Tensor dy = normal_tensor(DType::kBF16, {64, 32}, 4);
    for (int pass = 0; pass < 2; ++pass) {
      train(now, x, dy, &r.recipe);
      train(later, x, dy, &r.recipe);
    }
    EXPECT_FALSE(later.weight().grad);
    EXPECT_TRUE(later.need_backward_dw());
    later.backward_dw();
    EXPECT_FALSE(later.need_backward_dw());
    expect_same_gradients(now, later);
  }
}

TEST(LayerNormLinear, ReusesItsQuantisedWeightWithinAStep) {
  NormLinearOptions o = options_of(DType::kBF16);
  LayerNormLinear layer(64, 32, o), fresh(64, 32, o);
  copy_parameters(layer, fresh);
  const Tensor x = normal_tensor(DType::kBF16, {32, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {32, 32}, 4);
  const Recipe recipe = recipe::MXFP8BlockScaling{};
  LinearCall first, next;
  first.is_first_microbatch = true;
  next.is_first_microbatch = false;
  train(layer, x, dy, &recipe, first);
  train(fresh, x, dy, &recipe);
  // A weight that changes meanwhile is not looked at.
  Tensor& w = *layer.weight().value;
  std::memset(w.mutable_data(), 0, w.view.bytes().size());
  const PassResult a = train(layer, x, dy, &recipe, next);
  const PassResult b = train(fresh, x, dy, &recipe);
  EXPECT_TRUE(same_bits(a.y, b.y));
  EXPECT_TRUE(same_bits(a.dx, b.dx));
  expect_same_gradients(layer, fresh);
}

TEST(LayerNormLinear, AddsToMainGrad) {
  NormLinearOptions o = options_of(DType::kBF16);
  o.fuse_wgrad_accumulation = true;
  LayerNormLinear layer(64, 32, o);
  layer.weight().main_grad = Tensor::zeros(DType::kF32, {32, 64});
  const Tensor x = normal_tensor(DType::kBF16, {16, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {16, 32}, 4);
  train(layer, x, dy, nullptr);
  const Tensor& sum = *layer.weight().main_grad;
  const double once = at(sum, 7);
  train(layer, x, dy, nullptr);
  EXPECT_NE(once, 0);
  EXPECT_NEAR(at(sum, 7), 2 * once, 1e-6 * std::abs(once));
  EXPECT_TRUE(layer.weight().grad_added_to_main_grad);
  EXPECT_FALSE(layer.weight().grad);
}

TEST(LayerNormLinear, TakesNoRowsUnderEveryRecipe) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    LayerNormLinear layer(64, 32, options_of(DType::kBF16));
    const PassResult p = train(layer, Tensor::zeros(DType::kBF16, {0, 64}),
                               Tensor::zeros(DType::kBF16, {0, 32}), &r.recipe);
    EXPECT_EQ(p.y.shape(), (Shape{0, 32}));
    EXPECT_EQ(p.dx.shape(), (Shape{0, 64}));
    for (const NamedParameter& q : layer.parameters()) {
      ASSERT_TRUE(q.parameter->grad) << q.name;
      EXPECT_EQ(at(*q.parameter->grad, 5), 0);
    }
  }
}

TEST(LayerNormLinear, DoesNotDependOnTheNumberOfThreads) {
  const Tensor x = normal_tensor(DType::kBF16, {160, 128}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {160, 64}, 4);
  LayerNormLinear one(128, 64, options_of(DType::kBF16));
  LayerNormLinear four(128, 64, options_of(DType::kBF16));
  expect_same_for_any_threads(one, four, x, dy);
}

TEST(LayerNormLinear, NamesWhatItCannotTake) {
  NormLinearOptions o = options_of(DType::kBF16);
  o.name = "layer.qkv";
  LayerNormLinear layer(64, 32, o);
  EXPECT_EQ(message_of([&] {
              layer.forward(Tensor::zeros(DType::kBF16, {2, 60}));
            }),
            "layer.qkv: input: shape [2, 60], expected [..., 64]");
  LayerNormLinear::Context context;
  const Tensor x = Tensor::zeros(DType::kBF16, {2, 64});
  layer.forward(x, &context);
  EXPECT_EQ(message_of([&] { layer.backward(x, context, &x); }),
            "layer.qkv: d_layernorm_output: given, expected none: "
            "return_layernorm_output is false");
  o.parallel_mode = ParallelMode::kRow;
  EXPECT_EQ(message_of([&] { LayerNormLinear bad(64, 32, o); }),
            "layer.qkv: parallel_mode: row, expected column or none");
}

}  // namespace
}  // namespace assay::te
