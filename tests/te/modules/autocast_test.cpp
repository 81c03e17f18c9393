// Scopes: what counts inside of which, and what an exception leaves.
#include "assay/te/modules/autocast.h"

#include <stdexcept>

#include "assay/te/quantize/current.h"
#include "tests/te/modules/linear_step.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;

recipe::DelayedScaling delayed() {
  recipe::DelayedScaling r;
  r.amax_history_len = 4;
  return r;
}

class AutocastScopes : public testing::Test {
 protected:
  Linear layer{32, 32, bf16()};
  Tensor x = normal_tensor(kBF16, {32, 32}, 1);
  Tensor plain = layer.forward(x);
  Tensor under(const Recipe& r) {
    Linear fresh(32, 32, bf16());
    copy_parameters(layer, fresh);
    Autocast autocast(r);
    return fresh.forward(x);
  }
};

TEST_F(AutocastScopes, TheInnermostCounts) {
  const Recipe mxfp8 = recipe::MXFP8BlockScaling{};
  const Recipe current = recipe::Float8CurrentScaling{};
  const Tensor in_mxfp8 = under(mxfp8), in_current = under(current);
  EXPECT_FALSE(same_bits(plain, in_mxfp8));
  EXPECT_FALSE(same_bits(in_current, in_mxfp8));
  Autocast outer(mxfp8);
  EXPECT_TRUE(same_bits(layer.forward(x), in_mxfp8));
  {
    Autocast inner(current);
    EXPECT_TRUE(same_bits(layer.forward(x), in_current));
    {
      Autocast off(AutocastOptions{.enabled = false});
      EXPECT_TRUE(same_bits(layer.forward(x), plain));
      Autocast on(mxfp8);
      EXPECT_TRUE(same_bits(layer.forward(x), in_mxfp8));
    }
    EXPECT_TRUE(same_bits(layer.forward(x), in_current));
  }
  EXPECT_TRUE(same_bits(layer.forward(x), in_mxfp8));
  outer.end();
  EXPECT_TRUE(same_bits(layer.forward(x), plain));
  EXPECT_EQ(autocast_state().region, nullptr);
}

TEST_F(AutocastScopes, TheDefaultRecipeIsMxfp8) {
  EXPECT_EQ(recipe_name(default_recipe()), "MXFP8BlockScaling");
  Autocast autocast(AutocastOptions{});
  EXPECT_TRUE(same_bits(layer.forward(x), under(recipe::MXFP8BlockScaling{})));
}

TEST_F(AutocastScopes, OnlyTheOutermostEnabledScopeUpdates) {
  Linear::Context context;
  const auto scale = [&] { return extra(layer, "scale_fwd").data<float>()[0]; };
  {
    Autocast off(AutocastOptions{.enabled = false});
    {
      Autocast outer{delayed()};
      {
        Autocast inner{delayed()};
        layer.forward(x, &context);
      }
      EXPECT_EQ(scale(), 1);
    }
    EXPECT_NE(scale(), 1);
  }
}

TEST_F(AutocastScopes, AnExceptionEndsTheScopeWithoutAnUpdate) {
  Linear::Context context;
  const auto scale = [&] { return extra(layer, "scale_fwd").data<float>()[0]; };
  try {
    Autocast outer{delayed()};
    Autocast inner(AutocastOptions{.recipe = recipe::MXFP8BlockScaling{}});
    inner.end();
    layer.forward(x, &context);
    throw std::runtime_error("loss is NaN");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(autocast_state().enabled);
  EXPECT_EQ(scale(), 1);
  EXPECT_TRUE(same_bits(layer.forward(x), plain));
  // The next region is a new one.
  {
    Autocast autocast{delayed()};
    layer.forward(x, &context);
  }
  EXPECT_NE(scale(), 1);
}

// A scope that a destructor opens while another exception passes is ended as
// any other.
TEST_F(AutocastScopes, AScopeWithinUnwindingUpdates) {
  struct Late {
    Linear& layer;
    const Tensor& x;
    ~Late() {
      Linear::Context context;
      Autocast autocast{delayed()};
      layer.forward(x, &context);
    }
  };
  try {
    Late late{layer, x};
    throw std::runtime_error("passes by");
  } catch (const std::runtime_error&) {
  }
  EXPECT_NE(extra(layer, "scale_fwd").data<float>()[0], 1);
}

TEST_F(AutocastScopes, OnlyTheInnermostEnds) {
  {
    Autocast outer{delayed()};
    {
      Autocast inner{recipe::MXFP8BlockScaling{}};
      EXPECT_EQ(message_of([&] { outer.end(); }),
                "Autocast: end: with a scope open inside of it, expected the "
                "innermost scope");
      EXPECT_EQ(recipe_name(*autocast_state().recipe), "MXFP8BlockScaling");
    }
    EXPECT_EQ(recipe_name(*autocast_state().recipe), "DelayedScaling");
  }
  EXPECT_FALSE(autocast_state().enabled);
  EXPECT_EQ(autocast_state().region, nullptr);
}

TEST_F(AutocastScopes, RefusesARecipeThatCannotBe) {
  recipe::DelayedScaling r = delayed();
  r.amax_history_len = 0;
  EXPECT_EQ(message_of([&] { Autocast autocast{r}; }),
            "DelayedScaling: amax_history_len: 0, expected 1 or more");
  EXPECT_FALSE(autocast_state().enabled);
}

// Megatron-LM 7538: the recomputation ran in bf16, its scope being over.
TEST_F(AutocastScopes, ABackwardOutsideOfTheScopeIsQuantised) {
  Linear::Context context;
  {
    Autocast autocast{recipe::Float8CurrentScaling{}};
    layer.forward(x, &context);
  }
  const Tensor dy = normal_tensor(kBF16, {32, 32}, 2);
  CurrentScalingQuantizer e5m2({DType::kE5M2}), e4m3({DType::kE4M3FN});
  const QuantizedTensor w = e4m3.quantize(*layer.weight().value);
  EXPECT_TRUE(same_bits(layer.backward(dy, context),
                        gemm_dgrad(e5m2.quantize(dy), w).d));
}

}  // namespace
}  // namespace assay::te
