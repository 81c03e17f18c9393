// is_first_microbatch: one quantisation of the weight for several micro-batches
// (docs/modules.md).
#include "assay/te/modules/observer.h"
#include "tests/te/modules/linear_step.h"

namespace assay::te {
namespace {

class CountWeights : public ModuleObserver {
 public:
  void on_tensor(const Module&, std::string_view, const Tensor&) override {}
  void on_quantized(const Module&, Role role, const Tensor*,
                    const QuantizedTensor&) override {
    weights += role == Role::kWeight;
    others += role != Role::kWeight;
  }
  int weights = 0, others = 0;
};

struct Case {
  Tensor x = normal_tensor(DType::kBF16, {64, 64}, 1);
  Tensor dy = normal_tensor(DType::kBF16, {64, 32}, 2);
};

TEST(WeightCache, QuantisesOnceAndGivesTheSame) {
  const Case c;
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear cached(64, 32, bf16()), plain(64, 32, bf16());
    copy_parameters(cached, plain);
    CountWeights counted;
    std::vector<Linear::Context> a(3), b(3);
    {
      Autocast autocast(r.recipe);
      for (int i = 0; i < 3; ++i) {
        const Tensor y = plain.forward(c.x, &b[i]);
        ObserverScope scope(counted);
        LinearCall call;
        call.is_first_microbatch = i == 0;
        EXPECT_TRUE(same_bits(cached.forward(c.x, &a[i], call), y));
      }
    }
    EXPECT_EQ(counted.weights, 1);
    EXPECT_EQ(counted.others, 3);
    for (int i = 2; i >= 0; --i) {
      const Tensor dx = cached.backward(c.dy, a[i]);
      // Last, for it ran first: it updates the region.
      EXPECT_TRUE(same_bits(dx, plain.backward(c.dy, b[i])));
    }
    EXPECT_TRUE(same_bits(*cached.weight().grad, *plain.weight().grad));
  }
}

TEST(WeightCache, NullQuantisesEveryTime) {
  const Case c;
  Linear layer(64, 32, bf16());
  CountWeights counted;
  ObserverScope scope(counted);
  Autocast autocast{recipe::MXFP8BlockScaling{}};
  layer.forward(c.x);
  layer.forward(c.x);
  EXPECT_EQ(counted.weights, 2);
}

// The weight of the first micro-batch counts until the next first one.
TEST(WeightCache, KeepsTheOldWeightUntilTheNextFirst) {
  const Case c;
  Linear layer(64, 32, bf16());
  Autocast autocast{recipe::Float8CurrentScaling{}};
  LinearCall first, later;
  first.is_first_microbatch = true;
  later.is_first_microbatch = false;
  const Tensor y = layer.forward(c.x, nullptr, first);
  std::memset(layer.weight().value->mutable_data(), 0,
              layer.weight().value->view.bytes().size());
  EXPECT_TRUE(same_bits(layer.forward(c.x, nullptr, later), y));
  EXPECT_FALSE(same_bits(layer.forward(c.x, nullptr, first), y));
}

TEST(WeightCache, LoadingAStateVoidsIt) {
  const Case c;
  Linear layer(64, 32, bf16()), other(64, 32, bf16());
  Autocast autocast{recipe::MXFP8BlockScaling{}};
  LinearCall first, later;
  first.is_first_microbatch = true;
  later.is_first_microbatch = false;
  layer.forward(c.x, nullptr, first);
  layer.load_state_dict(other.state_dict());
  EXPECT_TRUE(
      same_bits(layer.forward(c.x, nullptr, later), other.forward(c.x)));
}

// Kept in inference, it serves training: both directions are there.
TEST(WeightCache, InferenceKeepsWhatTrainingNeeds) {
  const Case c;
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear layer(64, 32, bf16()), plain(64, 32, bf16());
    copy_parameters(layer, plain);
    LinearCall first, later;
    first.is_first_microbatch = true;
    later.is_first_microbatch = false;
    CountWeights counted;
    Linear::Context a, b;
    {
      ObserverScope scope(counted);
      Autocast autocast(r.recipe);
      layer.forward(c.x, nullptr, first);
      layer.forward(c.x, &a, later);
    }
    EXPECT_EQ(counted.weights, 1);
    {
      Autocast autocast(r.recipe);
      plain.forward(c.x, &b);
    }
    EXPECT_TRUE(same_bits(layer.backward(c.dy, a), plain.backward(c.dy, b)));
  }
}

TEST(WeightCache, AnotherRecipeQuantisesAnew) {
  const Case c;
  Linear layer(64, 32, bf16()), plain(64, 32, bf16());
  copy_parameters(layer, plain);
  LinearCall first, later;
  first.is_first_microbatch = true;
  later.is_first_microbatch = false;
  {
    Autocast autocast{recipe::Float8CurrentScaling{}};
    layer.forward(c.x, nullptr, first);
  }
  Autocast autocast{recipe::MXFP8BlockScaling{}};
  EXPECT_TRUE(
      same_bits(layer.forward(c.x, nullptr, later), plain.forward(c.x)));
}

// NVTE 1047: with the weight quantised once a step, its scale must still be
// that of the step.
TEST(WeightCache, DelayedScalesOfTheWeightGoOn) {
  const Case c;
  recipe::DelayedScaling r;
  r.amax_history_len = 4;
  Linear cached(64, 32, bf16()), plain(64, 32, bf16());
  copy_parameters(cached, plain);
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 2; ++i) {
      LinearCall call;
      call.is_first_microbatch = i == 0;
      Linear::Context a, b;
      Autocast autocast{r};
      cached.forward(c.x, &a, call);
      plain.forward(c.x, &b);
    }
    EXPECT_EQ(extra(cached, "scale_fwd").data<float>()[1],
              extra(plain, "scale_fwd").data<float>()[1]);
  }
}

}  // namespace
}  // namespace assay::te
