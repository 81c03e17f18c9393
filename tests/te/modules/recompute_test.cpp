// Recomputation gives bit for bit what keeping everything gives: scales,
// maxima, masks, whatever has run in between.
#include "assay/te/modules/recompute.h"

#include "tests/te/modules/linear_step.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;

recipe::DelayedScaling delayed(std::int64_t length = 4) {
  recipe::DelayedScaling r;
  r.amax_history_len = length;
  return r;
}

// Two layers with dropout between; `inner` recomputed where asked for.
class Block : public Module {
 public:
  struct Context {
    Linear::Context first, second;
    RecomputeContext<Linear> again;
    Tensor mask;
    bool kept = false;
    void visit_tensors(const TensorVisitor& visit) const {
      first.visit_tensors(visit);
      second.visit_tensors(visit);
    }
  };

  explicit Block(float p = 0.25f, bool recompute_second = false)
      : Module("Block", ""), p_(p), recompute_second_(recompute_second) {
    add_child("first", first);
    add_child("second", second);
  }

  Tensor forward(const Tensor& x, Context* context) {
    Linear::Context* a = context ? &context->first : nullptr;
    const DropoutForward dropped =
        dropout_forward(first.forward(x, a), p_, next_dropout_state());
    if (!context) return second.forward(dropped.y);
    context->mask = dropped.mask;
    context->kept = true;
    return recompute_second_
               ? recomputed_forward(second, dropped.y, context->again)
               : second.forward(dropped.y, &context->second);
  }

  Tensor backward(const Tensor& dy, Context& context) {
    const Tensor d = recompute_second_
                         ? recomputed_backward(second, dy, context.again)
                         : second.backward(dy, context.second);
    return first.backward(dropout_backward(d, context.mask, p_), context.first);
  }

  Linear first{32, 64, bf16()}, second{64, 32, bf16()};

 private:
  float p_;
  bool recompute_second_;
};

void expect_same_module(Module& a, Module& b, const std::string& what) {
  const auto p = a.parameters(), q = b.parameters();
  ASSERT_EQ(p.size(), q.size());
  for (std::size_t i = 0; i < p.size(); ++i)
    EXPECT_TRUE(same_bits(*p[i].parameter->grad, *q[i].parameter->grad))
        << what << " " << p[i].name;
  const auto s = a.state_dict(), t = b.state_dict();
  ASSERT_EQ(s.size(), t.size());
  for (std::size_t i = 0; i < s.size(); ++i)
    EXPECT_TRUE(same_bits(s[i].tensor, t[i].tensor))
        << what << " " << s[i].name;
}

Tensor input(int i) { return normal_tensor(kBF16, {32, 32}, 10 + i, 1 << i); }
Tensor grad(int i) {
  return normal_tensor(kBF16, {32, 32}, 20 + i, 1.0 / (i + 1));
}

// Micro-batches in one order forward, in another backward; each has its own
// region, so scales move between a first pass and its recomputation.
TEST(Recompute, MicrobatchesInAnyOrder) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Block kept, again;
    copy_parameters(kept, again);
    for (int step = 0; step < 2; ++step) {
      std::vector<Block::Context> a(3);
      std::vector<RecomputeContext<Block>> b(3);
      const RandomStates start = random_states();
      std::vector<Tensor> y;
      for (int i = 0; i < 3; ++i) {
        Autocast autocast(r.recipe);
        y.push_back(kept.forward(input(i), &a[i]));
      }
      set_random_states(start);
      for (int i = 0; i < 3; ++i) {
        Autocast autocast(r.recipe);
        EXPECT_TRUE(same_bits(recomputed_forward(again, input(i), b[i]), y[i]));
      }
      for (int i : {2, 0, 1}) {
        const RandomStates before = random_states();
        const Tensor dx = recomputed_backward(again, grad(i), b[i]);
        EXPECT_TRUE(same_bits(dx, kept.backward(grad(i), a[i]))) << i;
        EXPECT_EQ(random_states(), before);  // a recomputation draws nothing
      }
      expect_same_module(kept, again, r.name);
      kept.zero_grad();
      again.zero_grad();
    }
  }
}

TEST(Recompute, Nested) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Block kept(0.25f), nested(0.25f, true);
    copy_parameters(kept, nested);
    for (int step = 0; step < 3; ++step) {
      Block::Context a;
      RecomputeContext<Block> b;
      const RandomStates start = random_states();
      Tensor y, z;
      {
        Autocast autocast(r.recipe);
        y = kept.forward(input(step), &a);
      }
      set_random_states(start);
      {
        Autocast autocast(r.recipe);
        z = recomputed_forward(nested, input(step), b);
      }
      EXPECT_TRUE(same_bits(y, z));
      EXPECT_TRUE(same_bits(recomputed_backward(nested, grad(step), b),
                            kept.backward(grad(step), a)));
      expect_same_module(kept, nested, r.name);
    }
  }
}

// NVTE 1190: the backward's scales were not updated under recomputation.
TEST(Recompute, TheFirstModuleOfARegionStillUpdatesTheBackward) {
  Block block;
  RecomputeContext<Block> context;
  {
    Autocast autocast{delayed()};
    recomputed_forward(block, input(0), context);
  }
  recomputed_backward(block, grad(0), context);
  EXPECT_NE(extra(block.first, "scale_bwd").data<float>()[0], 1);
  EXPECT_NE(extra(block.second, "scale_bwd").data<float>()[0], 1);
}

// A longer history, then another recipe, between the two passes: the second
// runs with the quantisers of the first and leaves the new ones alone.
TEST(Recompute, TheRecipeMayHaveChanged) {
  Linear kept(32, 64, bf16()), again(32, 64, bf16());
  copy_parameters(kept, again);
  const Tensor x = input(2), dy = normal_tensor(kBF16, {32, 64}, 3);
  run(kept, delayed(), input(1), dy);
  run(again, delayed(), input(1), dy);
  Linear::Context a;
  RecomputeContext<Linear> b;
  {
    Autocast autocast{delayed()};
    kept.forward(x, &a);
  }
  {
    Autocast autocast{delayed()};
    recomputed_forward(again, x, b);
  }
  for (Linear* layer : {&kept, &again}) {
    Autocast autocast{delayed(8)};
    Linear::Context c;
    layer->forward(input(0), &c);
  }
  EXPECT_TRUE(
      same_bits(recomputed_backward(again, dy, b), kept.backward(dy, a)));
  EXPECT_TRUE(same_bits(*again.weight().grad, *kept.weight().grad));
  EXPECT_EQ(extra(again, "amax_history_fwd").shape()[0], 8);
  EXPECT_TRUE(same_bits(extra(again, "amax_history_fwd"),
                        extra(kept, "amax_history_fwd")));
}

// Twice from the same context gives the same: nothing is used up.
TEST(Recompute, AnyNumberOfTimes) {
  Block block;
  RecomputeContext<Block> context;
  {
    Autocast autocast{recipe::MXFP8BlockScaling{}};
    recomputed_forward(block, input(0), context);
  }
  const Tensor once = recomputed_backward(block, grad(0), context);
  EXPECT_TRUE(same_bits(recomputed_backward(block, grad(0), context), once));
}

TEST(Recompute, AContextMayBeFilledAgain) {
  Linear kept(32, 64, bf16()), again(32, 64, bf16());
  copy_parameters(kept, again);
  const Tensor dy = normal_tensor(kBF16, {32, 64}, 3);
  Linear::Context a;
  RecomputeContext<Linear> b;
  for (int i = 0; i < 3; ++i) {
    {
      Autocast autocast{delayed()};
      kept.forward(input(i), &a);
    }
    Autocast autocast{delayed()};
    recomputed_forward(again, input(i), b);
  }
  // With the scales of the third pass, not of the first.
  const Tensor dx = recomputed_backward(again, dy, b);
  EXPECT_TRUE(same_bits(dx, kept.backward(dy, a)));
  EXPECT_TRUE(same_bits(*again.weight().grad, *kept.weight().grad));
}

TEST(Recompute, F43_DrawsTheSameMaskUnderANamedState) {
  manual_seed(5);
  set_random_states({{"", {5, 0}}, {kModelParallelRandom, {6, 0}}});
  Block kept(0.5f), again(0.5f);
  copy_parameters(kept, again);
  Block::Context a;
  RecomputeContext<Block> b;
  const RandomStates start = random_states();
  {
    const RandomScope scope(kModelParallelRandom);
    kept.forward(input(0), &a);
    const RandomStates drawn = random_states();
    EXPECT_EQ(drawn.at(kModelParallelRandom).draws, 1u);
    EXPECT_EQ(drawn.at("").draws, start.at("").draws);
    set_random_states(start);
    recomputed_forward(again, input(0), b);
  }
  // Outside of the scope, and after more draws.
  next_dropout_state();
  EXPECT_TRUE(same_bits(recomputed_backward(again, grad(0), b),
                        kept.backward(grad(0), a)));
  set_random_states({{"", RandomState{}}});
}

TEST(Recompute, KeepsTheInputAlone) {
  Block block;
  Block::Context kept;
  RecomputeContext<Block> context;
  block.forward(input(0), &kept);
  recomputed_forward(block, input(0), context);
  EXPECT_EQ(saved_bytes(context), 32 * 32 * 2);
  EXPECT_EQ(saved_bytes(kept), 32 * 32 * 2 + 32 * 64 * 2);
}

}  // namespace
}  // namespace assay::te
