// Where gradients of a Linear go: grad, main_grad, put off, split, not at all.
#include <rapidcheck.h>

#include <numeric>

#include "assay/te/modules/observer.h"
#include "assay/te/ops/bias_grad.h"
#include "tests/te/modules/linear_step.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;
constexpr DType kF32 = DType::kF32;

struct LinearGradients : testing::Test {
  Tensor x = normal_tensor(kBF16, {32, 96}, 1);
  Tensor dy = normal_tensor(kBF16, {32, 160}, 2);
};

TEST_F(LinearGradients, AddUpInTheParametersDtype) {
  Linear layer(96, 160, bf16());
  run(layer, x, dy);
  const Step second = run(layer, x, dy);
  Tensor w = gemm_wgrad(dy, x).d;
  GemmOptions add;
  add.beta = 1;
  gemm_into(w, x, dy, GemmLayout::kNT, add);
  EXPECT_TRUE(same_bits(second.dw, w));
  // Twice a bf16 number is one: nothing is rounded.
  const Tensor once = bias_grad(dy, kBF16);
  for (int i = 0; i < 160; ++i) EXPECT_EQ(at(second.db, i), 2 * at(once, i));
}

TEST_F(LinearGradients, MainGradIsAddedToInFp32) {
  LinearOptions options = bf16();
  options.fuse_wgrad_accumulation = true;
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear layer(96, 160, options), plain(96, 160, bf16());
    copy_parameters(layer, plain);
    layer.weight().main_grad = normal_tensor(kF32, {160, 96}, 3);
    layer.bias()->main_grad = Tensor::zeros(kF32, {160});
    Tensor expected = copy_of(*layer.weight().main_grad);
    Linear::Context context, twin;
    {
      Autocast autocast(r.recipe);
      layer.forward(x, &context);
    }
    {
      Autocast autocast(r.recipe);
      plain.forward(x, &twin);
    }
    // The operands that the twin's backward has; its own gradient is bf16.
    const QuantizedTensor qx = *twin.saved.input_quantized;
    Quantizer& q = twin.saved.states->backward->at(0);
    set_directions(q, true, true);
    const auto clone = q.clone();
    const QuantizedTensor qdy = clone->quantize(dy);
    GemmOptions add;
    add.beta = 1;
    gemm_into(expected, qx, qdy, GemmLayout::kNT, add);
    EXPECT_FALSE(layer.weight().grad_added_to_main_grad);
    layer.backward(dy, context);
    EXPECT_TRUE(same_bits(*layer.weight().main_grad, expected));
    EXPECT_TRUE(layer.weight().grad_added_to_main_grad);
    EXPECT_FALSE(layer.weight().grad);
    EXPECT_TRUE(same_bits(*layer.bias()->main_grad, bias_grad(dy, kF32)));
    layer.zero_grad();
    EXPECT_FALSE(layer.weight().grad_added_to_main_grad);
    EXPECT_EQ(at(*layer.weight().main_grad, 7), 0);
  }
}

TEST_F(LinearGradients, WithoutFusionMainGradIsLeftAlone) {
  Linear layer(96, 160, bf16());
  layer.weight().main_grad = Tensor::zeros(kF32, {160, 96});
  run(layer, x, dy);
  EXPECT_EQ(at(*layer.weight().main_grad, 0), 0);
  EXPECT_TRUE(layer.weight().grad);
  EXPECT_FALSE(layer.weight().grad_added_to_main_grad);
}

// Four micro-batches are one batch, but for the order of fp32 sums.
TEST_F(LinearGradients, FourMicrobatchesAreOneBatch) {
  Linear layer(96, 160), whole(96, 160);
  copy_parameters(layer, whole);
  const Tensor xs = normal_tensor(kF32, {128, 96}, 1);
  const Tensor dys = normal_tensor(kF32, {128, 160}, 2);
  const auto rows = [](const Tensor& t, std::int64_t from) {
    Tensor part = t;
    part.view.shape[0] = 32;
    part.view.data += from * t.shape()[1] * 4;
    return part;
  };
  std::vector<Linear::Context> contexts(4);
  for (int i = 0; i < 4; ++i) layer.forward(rows(xs, 32 * i), &contexts[i]);
  for (int i : {1, 3, 0, 2}) layer.backward(rows(dys, 32 * i), contexts[i]);
  const Step one = run(whole, xs, dys);
  // gamma(128) sum |t| in both, of 128 terms of magnitude about 0.6.
  for (int i = 0; i < one.dw.numel(); ++i)
    EXPECT_NEAR(at(*layer.weight().grad, i), at(one.dw, i),
                2 * 128 * 0x1p-24 * 128);
}

TEST_F(LinearGradients, PutOffTheyComeInTheOrderOfBackward) {
  LinearOptions options = bf16();
  options.delay_wgrad_compute = true;
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear delayed(96, 160, options), now(96, 160, bf16());
    copy_parameters(delayed, now);
    std::vector<Linear::Context> a(3), b(3);
    for (int i = 0; i < 3; ++i) {
      const Tensor xi = normal_tensor(kBF16, {32, 96}, 30 + i, 1 << i);
      Autocast autocast(r.recipe);
      delayed.forward(xi, &a[i]);
      now.forward(xi, &b[i]);
    }
    for (int i : {2, 0, 1}) {
      const Tensor dyi = normal_tensor(kBF16, {32, 160}, 40 + i);
      EXPECT_TRUE(
          same_bits(delayed.backward(dyi, a[i]), now.backward(dyi, b[i])));
    }
    EXPECT_TRUE(delayed.need_backward_dw());
    EXPECT_FALSE(delayed.weight().grad);
    EXPECT_TRUE(same_bits(*delayed.bias()->grad, *now.bias()->grad));
    delayed.backward_dw();
    EXPECT_FALSE(delayed.need_backward_dw());
    EXPECT_TRUE(same_bits(*delayed.weight().grad, *now.weight().grad));
    delayed.backward_dw();  // nothing is left
    EXPECT_TRUE(same_bits(*delayed.weight().grad, *now.weight().grad));
  }
}

TEST_F(LinearGradients, AFrozenWeightSavesNothing) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear frozen(96, 160, bf16()), plain(96, 160, bf16());
    copy_parameters(frozen, plain);
    frozen.weight().requires_grad = false;
    Linear::Context context;
    {
      Autocast autocast(r.recipe);
      frozen.forward(x, &context);
    }
    EXPECT_EQ(saved_bytes(context), 0);
    // Thawed in between, there is nothing to compute it from.
    frozen.weight().requires_grad = true;
    EXPECT_TRUE(same_bits(frozen.backward(dy, context),
                          run(plain, r.recipe, x, dy).dx));
    EXPECT_FALSE(frozen.weight().grad);
    EXPECT_TRUE(same_bits(*frozen.bias()->grad, *plain.bias()->grad));
  }
  Linear frozen(96, 160, bf16());
  frozen.weight().requires_grad = frozen.bias()->requires_grad = false;
  const Step step = run(frozen, x, dy);
  EXPECT_FALSE(frozen.bias()->grad);
  EXPECT_TRUE(same_bits(step.dx, gemm_dgrad(dy, *frozen.weight().value).d));
}

class GradInputs : public ModuleObserver {
 public:
  void on_tensor(const Module&, std::string_view what, const Tensor&) override {
    count += what == "grad_input";
  }
  void on_quantized(const Module&, Role, const Tensor*,
                    const QuantizedTensor&) override {}
  int count = 0;
};

TEST_F(LinearGradients, AFirstLayerComputesNoInputGradient) {
  LinearCall call;
  call.input_requires_grad = false;
  GradInputs seen;
  ObserverScope scope(seen);
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    Linear first(96, 160, bf16()), plain(96, 160, bf16());
    copy_parameters(first, plain);
    seen.count = 0;
    const Step step = run(first, r.recipe, x, dy, call);
    EXPECT_EQ(step.dx.view.data, nullptr);
    EXPECT_EQ(seen.count, 0);
    EXPECT_TRUE(same_bits(step.dw, run(plain, r.recipe, x, dy).dw));
    EXPECT_EQ(seen.count, 1);
  }
}

TEST_F(LinearGradients, ReturnBiasLeavesItToTheCaller) {
  LinearOptions options = bf16();
  options.return_bias = true;
  Linear layer(96, 160, options);
  const Tensor b = normal_tensor(kBF16, {160}, 3);
  std::memcpy(layer.bias()->value->mutable_data(), b.view.data,
              b.view.bytes().size());
  const Step step = run(layer, x, dy);
  EXPECT_TRUE(same_bits(step.y, gemm_fprop(x, *layer.weight().value).d));
  EXPECT_TRUE(same_bits(step.db, bias_grad(dy, kBF16)));
  options.bias = false;
  Linear without(96, 160, options);
  EXPECT_EQ(without.bias(), nullptr);
  EXPECT_EQ(without.parameters().size(), 1u);
}

LinearOptions qkv() {
  LinearOptions options = bf16();
  options.parameters_split = {{"query", 96}, {"key", 32}, {"value", 32}};
  return options;
}

Tensor rows_of(const Tensor& t, std::int64_t from, std::int64_t count) {
  Tensor part = t;
  const std::int64_t columns = t.shape().size() > 1 ? t.shape()[1] : 1;
  part.view.shape[0] = count;
  part.view.data +=
      static_cast<std::size_t>(from * columns * (t.dtype() == kF32 ? 4 : 2));
  return part;
}

TEST_F(LinearGradients, SplitParametersHaveTheirRows) {
  manual_seed(3);
  Linear split(96, 160, qkv());
  std::vector<std::string> names;
  for (const NamedParameter& p : split.parameters()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"query_weight", "key_weight",
                                             "value_weight", "query_bias",
                                             "key_bias", "value_bias"}));
  EXPECT_EQ(split.parameter("key_weight").shape, (Shape{32, 96}));
  Linear whole(96, 160, bf16());
  std::memcpy(whole.weight().value->mutable_data(),
              split.weight().value->view.data, 160 * 96 * 2);
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    split.zero_grad();
    whole.zero_grad();
    const Step expected = run(whole, r.recipe, x, dy);
    Linear::Context context;
    {
      Autocast autocast(r.recipe);
      EXPECT_TRUE(same_bits(split.forward(x, &context), expected.y));
    }
    EXPECT_TRUE(same_bits(split.backward(dy, context), expected.dx));
    std::int64_t from = 0;
    for (const auto& [name, rows] : qkv().parameters_split) {
      EXPECT_TRUE(same_bits(*split.parameter(name + "_weight").grad,
                            rows_of(expected.dw, from, rows)))
          << name;
      EXPECT_TRUE(same_bits(*split.parameter(name + "_bias").grad,
                            rows_of(expected.db, from, rows)))
          << name;
      from += rows;
    }
  }
}

// What an optimizer writes into a part is what the layer multiplies by.
TEST_F(LinearGradients, SplitParametersAreTheWeight) {
  Linear split(96, 160, qkv());
  const Tensor w = normal_tensor(kBF16, {32, 96}, 8);
  std::memcpy(split.parameter("key_weight").value->mutable_data(), w.view.data,
              w.view.bytes().size());
  const Tensor y = split.forward(x);
  const Tensor key = gemm_fprop(x, w).d;
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(at(y, 5 * 160 + 96 + i), at(key, 5 * 32 + i));
}

TEST_F(LinearGradients, SplitPartsTakeFp32MainGrads) {
  LinearOptions options = qkv();
  options.fuse_wgrad_accumulation = true;
  Linear split(96, 160, options);
  for (const NamedParameter& p : split.parameters())
    p.parameter->main_grad = Tensor::zeros(kF32, p.parameter->shape);
  split.parameter("value_weight").requires_grad = false;
  Tensor expected = Tensor::zeros(kF32, {160, 96});
  GemmOptions add;
  add.beta = 1;
  gemm_into(expected, x, dy, GemmLayout::kNT, add);
  run(split, x, dy);
  EXPECT_TRUE(same_bits(*split.parameter("query_weight").main_grad,
                        rows_of(expected, 0, 96)));
  EXPECT_TRUE(same_bits(*split.parameter("key_weight").main_grad,
                        rows_of(expected, 96, 32)));
  EXPECT_TRUE(split.parameter("key_weight").grad_added_to_main_grad);
  EXPECT_FALSE(split.parameter("key_weight").grad);
  EXPECT_EQ(at(*split.parameter("value_weight").main_grad, 0), 0);
  // A second backward: main_grad doubles exactly.
  run(split, x, dy);
  for (int i = 0; i < 32 * 96; i += 101)
    EXPECT_EQ(at(*split.parameter("key_weight").main_grad, i),
              2 * at(expected, 96 * 96 + i));
}

TEST_F(LinearGradients, AllPartsFrozenSaveNothing) {
  Linear split(96, 160, qkv());
  for (const char* name : {"query_weight", "key_weight", "value_weight"})
    split.parameter(name).requires_grad = false;
  Linear::Context context;
  split.forward(x, &context);
  EXPECT_EQ(saved_bytes(context), 0);
}

TEST_F(LinearGradients, AContextServesOneBackward) {
  Linear layer(96, 160, bf16());
  Linear::Context context;
  EXPECT_EQ(message_of([&] { layer.backward(dy, context); }),
            "Linear: context: not of a forward pass, or used up, expected that "
            "of one");
  layer.forward(x, &context);
  EXPECT_EQ(message_of([&] {
              layer.backward(normal_tensor(kBF16, {16, 160}, 1), context);
            }),
            "Linear: grad_output: 16 rows, expected 32");
  EXPECT_EQ(message_of([&] {
              layer.backward(normal_tensor(kBF16, {32, 96}, 1), context);
            }),
            "Linear: grad_output: last dimension 96, expected 160");
  EXPECT_EQ(message_of([&] {
              layer.backward(normal_tensor(kF32, {32, 160}, 1), context);
            }),
            "Linear: grad_output: float32, expected bfloat16");
  EXPECT_FALSE(layer.bias()->grad);  // a refused one adds nothing
  layer.backward(dy, context);
  EXPECT_NE(message_of([&] { layer.backward(dy, context); }), "no error");
}

// A pass without a backward leaves nothing in its context.
TEST_F(LinearGradients, AContextMayBeFilledAgain) {
  const Recipe r = recipe::Float8CurrentScaling{};
  Linear layer(96, 160, bf16()), twin(96, 160, bf16());
  copy_parameters(layer, twin);
  Linear::Context context;
  layer.forward(normal_tensor(kBF16, {16, 96}, 7), &context);
  {
    Autocast autocast(r);
    layer.forward(x, &context);
  }
  EXPECT_TRUE(same_bits(layer.backward(dy, context), run(twin, r, x, dy).dx));
  EXPECT_TRUE(same_bits(*layer.weight().grad, *twin.weight().grad));
}

// <dy, y(x + d) - y(x)> = <dx, d>, and the same for the weight: exact for a
// product, but for fp32 rounding, whatever the shape.
TEST_F(LinearGradients, AreTheAdjoint) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<std::int64_t>(1, 40);
    const auto in = *rc::gen::inRange<std::int64_t>(1, 70);
    const auto out = *rc::gen::inRange<std::int64_t>(1, 70);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Linear layer(in, out);
    const Tensor xs = normal_tensor(kF32, {n, in}, seed);
    const Tensor d = normal_tensor(kF32, {n, out}, seed + 1);
    const Step step = run(layer, xs, d);
    const auto dot = [](const Tensor& a, const Tensor& b) {
      double sum = 0, size = 0;
      for (std::int64_t i = 0; i < a.numel(); ++i) {
        sum += at(a, i) * at(b, i);
        size += std::fabs(at(a, i) * at(b, i));
      }
      return std::pair(sum, size);
    };
    // The bias is zero, so y is linear in x and in W.
    const auto [yd, size] = dot(step.y, d);
    const double bound = 1e-5 * (size + 1);
    RC_ASSERT(std::fabs(dot(step.dx, xs).first - yd) < bound);
    RC_ASSERT(std::fabs(dot(step.dw, *layer.weight().value).first - yd) <
              bound);
  }));
}

TEST(AddInPlace, RoundsOnceAndTakesStrides) {
  Tensor t = filled(kBF16, {2}, {256, 1});
  add_in_place(t, filled(kF32, {2}, {1.0078125, 0x1p-9}));
  EXPECT_EQ(at(t, 0), 258);  // 257.0078 is beyond the tie at 257
  EXPECT_EQ(at(t, 1), 1);
  Tensor base = filled(kF32, {2, 3}, {0, 1, 2, 3, 4, 5});
  Tensor transposed = base;  // F39: written where the strides say
  transposed.view.shape = {3, 2};
  transposed.view.strides = {1, 3};
  add_in_place(transposed, filled(kF32, {3, 2}, {10, 20, 30, 40, 50, 60}));
  const std::vector<double> expected = {10, 31, 52, 23, 44, 65};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(at(base, i), expected[i]) << i;
}

}  // namespace
}  // namespace assay::te
