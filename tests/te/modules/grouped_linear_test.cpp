#include "assay/te/modules/grouped_linear.h"

#include "assay/base/parallel.h"
#include "assay/te/modules/parameter_init.h"
#include "assay/te/modules/recompute.h"
#include "assay/te/ops/grouped_gemm.h"
#include "tests/te/modules/module_checks.h"

namespace assay::te {
namespace {

using Splits = std::vector<std::int64_t>;

GroupedLinearOptions options_of(DType dtype, Device device = Device::kCpu) {
  GroupedLinearOptions o;
  o.params_dtype = dtype;
  o.device = device;
  return o;
}

GroupedLinearOptions stacked(GroupedLinearOptions o) {
  o.single_grouped_weight = o.single_grouped_bias = true;
  return o;
}

// Every parameter as one list of values, whatever the layout.
std::vector<Tensor> values_in_order(GroupedLinear& layer) {
  std::vector<Tensor> out;
  for (std::size_t g = 0; g < static_cast<std::size_t>(layer.num_gemms()); ++g)
    out.push_back(*layer.weight(g).value);
  return out;
}

TEST(GroupedLinear, HasTheParametersOfNvteInBothLayouts) {
  manual_seed(5);
  GroupedLinear apart(3, 8, 4);
  manual_seed(5);
  GroupedLinear together(3, 8, 4, stacked({}));
  std::string names;
  for (const NamedParameter& p : apart.parameters()) names += p.name + " ";
  EXPECT_EQ(names, "weight0 weight1 weight2 bias0 bias1 bias2 ");
  const auto of_stacked = together.parameters();
  ASSERT_EQ(of_stacked.size(), 2u);
  EXPECT_EQ(of_stacked[0].name, "weight");
  EXPECT_EQ(of_stacked[0].parameter->shape, (Shape{3, 4, 8}));
  EXPECT_EQ(of_stacked[1].parameter->shape, (Shape{3, 4}));
  const auto a = values_in_order(apart), b = values_in_order(together);
  for (std::size_t g = 0; g < 3; ++g) EXPECT_TRUE(same_bits(a[g], b[g])) << g;
  EXPECT_FALSE(same_bits(a[0], a[1]));
}

TEST(GroupedLinear, LoadsEitherLayout) {
  manual_seed(1);
  GroupedLinear apart(3, 8, 4), apart2(3, 8, 4);
  GroupedLinear together(3, 8, 4, stacked({})), together2(3, 8, 4, stacked({}));
  together.load_state_dict(apart.state_dict());
  together2.load_state_dict(together.state_dict());
  apart2.load_state_dict(together2.state_dict());
  const auto a = values_in_order(apart), b = values_in_order(together),
             c = values_in_order(apart2);
  for (std::size_t g = 0; g < 3; ++g)
    EXPECT_TRUE(same_bits(a[g], b[g]) && same_bits(a[g], c[g])) << g;
  // What fits neither is named, and nothing is changed.
  GroupedLinear fewer(2, 8, 4);
  EXPECT_EQ(message_of([&] { apart.load_state_dict(fewer.state_dict()); }),
            "load_state_dict: weight2: missing, expected a tensor");
  EXPECT_EQ(message_of([&] { together.load_state_dict(fewer.state_dict()); }),
            "load_state_dict: weight: missing, expected a tensor");
  EXPECT_TRUE(same_bits(values_in_order(together)[0], a[0]));
}

// Under every recipe a group is a Linear of its rows, bit for bit; with two
// steps, and a group without rows in the first.
TEST(GroupedLinear, IsALinearLayerForEachGroup) {
  std::vector<NamedRecipe> recipes = all_recipes();
  // Slots draw from streams of their own, whatever module they are in.
  recipe::NVFP4BlockScaling nearest;
  nearest.disable_stochastic_rounding = true;
  recipes.back().recipe = nearest;
  recipes.push_back({"none", recipe::MXFP8BlockScaling{}, 0});
  for (const NamedRecipe& r : recipes) {
    SCOPED_TRACE(r.name);
    const Recipe* recipe = r.name == "none" ? nullptr : &r.recipe;
    for (bool stack : {false, true}) {
      const auto o = options_of(DType::kBF16);
      GroupedLinear grouped(3, 64, 32, stack ? stacked(o) : o);
      std::vector<std::unique_ptr<Linear>> single;
      for (std::size_t g = 0; g < 3; ++g) {
        single.push_back(std::make_unique<Linear>(64, 32, o));
        std::memcpy(single[g]->weight().value->mutable_data(),
                    grouped.weight(g).value->view.data, 64 * 32 * 2);
      }
      for (const Splits& splits : {Splits{32, 0, 64}, Splits{32, 64, 32}}) {
        const std::int64_t rows = splits[0] + splits[1] + splits[2];
        const Tensor x = normal_tensor(DType::kBF16, {rows, 64}, 5);
        const Tensor dy = normal_tensor(DType::kBF16, {rows, 32}, 6);
        grouped.zero_grad();
        const PassResult all = train(grouped, x, dy, recipe, splits);
        const auto xs = split_rows(x, splits), dys = split_rows(dy, splits);
        const auto ys = split_rows(all.y, splits),
                   dxs = split_rows(all.dx, splits);
        for (std::size_t g = 0; g < 3; ++g) {
          single[g]->zero_grad();
          const PassResult one = train(*single[g], xs[g], dys[g], recipe);
          EXPECT_TRUE(same_bits(one.y, ys[g])) << g;
          EXPECT_TRUE(same_bits(one.dx, dxs[g])) << g;
          const auto grad = [&](const char* name) {
            if (!stack)
              return *grouped.parameter(name + std::to_string(g)).grad;
            Tensor part = row_view(*grouped.parameter(name).grad,
                                   static_cast<std::int64_t>(g), 1);
            part.view.shape.erase(part.view.shape.begin());
            return part;
          };
          EXPECT_TRUE(same_bits(*single[g]->weight().grad, grad("weight")));
          EXPECT_TRUE(same_bits(*single[g]->bias()->grad, grad("bias")));
        }
      }
    }
  }
}

TEST(GroupedLinear, AgreesWithTheReference) {
  const auto make = [](DType dtype, Device device) {
    return std::make_unique<GroupedLinear>(2, 128, 64,
                                           options_of(dtype, device));
  };
  expect_agrees_with_reference(make, {96, 128}, {96, 64}, 0, Splits{32, 64});
  GroupedLinear slow(2, 12, 8, options_of(DType::kF32, Device::kReference));
  expect_finite_differences(slow, normal_tensor(DType::kF32, {5, 12}, 1),
                            {5, 8}, Splits{2, 3});
}

TEST(GroupedLinear, RecomputesBitForBit) {
  const Splits splits = {32, 0, 32};
  const Tensor x = normal_tensor(DType::kBF16, {64, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {64, 32}, 4);
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    GroupedLinear kept(3, 64, 32, options_of(DType::kBF16));
    GroupedLinear again(3, 64, 32, options_of(DType::kBF16));
    copy_parameters(kept, again);
    for (int step = 0; step < 3; ++step) {
      const PassResult a = train(kept, x, dy, &r.recipe, splits);
      RecomputeContext<GroupedLinear> context;
      Tensor y;
      {
        Autocast autocast(r.recipe);
        y = recomputed_forward(again, x, context, splits);
      }
      EXPECT_TRUE(same_bits(a.y, y));
      EXPECT_TRUE(
          same_bits(a.dx, recomputed_backward(again, dy, context, splits)));
      expect_same_gradients(kept, again);
    }
  }
}

TEST(GroupedLinear, SavesHalfOfWhatBf16Saves) {
  const Splits splits = {128, 0, 256};
  const Tensor x = normal_tensor(DType::kBF16, {384, 256}, 3);
  for (const NamedRecipe& r : all_recipes()) {
    GroupedLinear layer(3, 256, 128, options_of(DType::kBF16));
    GroupedLinear::Context plain, quantised;
    layer.forward(x, &plain, splits);
    {
      Autocast autocast(r.recipe);
      layer.forward(x, &quantised, splits);
    }
    EXPECT_EQ(saved_bytes(plain), 384 * 256 * 2);
    EXPECT_LT(static_cast<double>(saved_bytes(quantised)),
              0.6 * static_cast<double>(saved_bytes(plain)))
        << r.name;
  }
}

// x is kept instead of its codes: the same results, and no memory of its own.
TEST(GroupedLinear, KeepsTheOriginalInputWhereAsked) {
  const Splits splits = {32, 64};
  const Tensor x = normal_tensor(DType::kBF16, {96, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {96, 32}, 4);
  GroupedLinearOptions o = options_of(DType::kBF16);
  GroupedLinear codes(2, 64, 32, o);
  o.save_original_input = true;
  o.name = "experts";
  GroupedLinear original(2, 64, 32, o);
  copy_parameters(codes, original);
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    if (r.name == "delayed") {
      EXPECT_EQ(message_of([&] { train(original, x, dy, &r.recipe, splits); }),
                "experts: save_original_input: true, expected a recipe "
                "without history: x would be recorded twice");
      continue;
    }
    codes.zero_grad();
    original.zero_grad();
    const PassResult a = train(codes, x, dy, &r.recipe, splits);
    const PassResult b = train(original, x, dy, &r.recipe, splits);
    EXPECT_TRUE(same_bits(a.y, b.y) && same_bits(a.dx, b.dx));
    expect_same_gradients(codes, original);
  }
}

// An input that the caller has again: nothing is kept, the bits are the same,
// also where the scales have changed between.
TEST(GroupedLinear, DropsAnInputThatIsGivenAgain) {
  const Splits splits = {32, 0, 64};
  const Tensor x = normal_tensor(DType::kBF16, {96, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {96, 32}, 4);
  GroupedLinear kept(3, 64, 32, options_of(DType::kBF16));
  GroupedLinear dropped(3, 64, 32, options_of(DType::kBF16));
  copy_parameters(kept, dropped);
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    for (int step = 0; step < 2; ++step) {
      kept.zero_grad();
      dropped.zero_grad();
      const PassResult a = train(kept, x, dy, &r.recipe, splits);
      GroupedLinear::Context context;
      context.drops_input = true;
      {
        Autocast autocast(r.recipe);
        dropped.forward(x, &context, splits);
      }
      EXPECT_EQ(saved_bytes(context), 0);
      EXPECT_EQ(message_of([&] { dropped.backward(dy, context); }),
                "GroupedLinear: input: absent, expected that of the forward");
      EXPECT_TRUE(same_bits(a.dx, dropped.backward(dy, context, &x)));
      expect_same_gradients(kept, dropped);
    }
  }
}

TEST(GroupedLinear, PutsOffItsWeightGradients) {
  const Splits splits = {32, 0, 64};
  const Tensor x = normal_tensor(DType::kBF16, {96, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {96, 32}, 4);
  for (bool stack : {false, true}) {
    for (const NamedRecipe& r : all_recipes()) {
      SCOPED_TRACE(r.name);
      GroupedLinearOptions o = options_of(DType::kBF16);
      if (stack) o = stacked(o);
      GroupedLinear now(3, 64, 32, o);
      o.delay_wgrad_compute = true;
      GroupedLinear later(3, 64, 32, o);
      copy_parameters(now, later);
      for (int pass = 0; pass < 2; ++pass) {
        train(now, x, dy, &r.recipe, splits);
        train(later, x, dy, &r.recipe, splits);
      }
      EXPECT_FALSE(later.parameters()[0].parameter->grad);
      EXPECT_TRUE(later.need_backward_dw());
      later.backward_dw();
      EXPECT_FALSE(later.need_backward_dw());
      expect_same_gradients(now, later);
    }
  }
}

TEST(GroupedLinear, AddsToMainGradInBothLayouts) {
  const Splits splits = {16, 0};
  const Tensor x = normal_tensor(DType::kBF16, {16, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {16, 32}, 4);
  std::vector<double> sums;
  for (bool stack : {false, true}) {
    GroupedLinearOptions o = options_of(DType::kBF16);
    o.fuse_wgrad_accumulation = true;
    o.init_method = constant_init(0.5);
    GroupedLinear layer(2, 64, 32, stack ? stacked(o) : o);
    for (const NamedParameter& p : layer.parameters())
      p.parameter->main_grad = Tensor::zeros(DType::kF32, p.parameter->shape);
    for (int pass = 0; pass < 2; ++pass) train(layer, x, dy, nullptr, splits);
    Parameter& first = *layer.parameters()[0].parameter;
    EXPECT_FALSE(first.grad);
    EXPECT_TRUE(first.grad_added_to_main_grad);
    sums.push_back(at(*first.main_grad, 7));
    double exact = 0;
    for (std::int64_t m = 0; m < 16; ++m)
      exact += 2 * at(x, m * 64 + 7) * at(dy, m * 32);
    EXPECT_NEAR(sums.back(), exact, 1e-5);
  }
  EXPECT_EQ(sums[0], sums[1]);
}

TEST(GroupedLinear, ReusesItsQuantisedWeightsWithinAStep) {
  const Splits splits = {32, 32};
  const Recipe recipe = recipe::Float8BlockScaling{};
  const Tensor x = normal_tensor(DType::kBF16, {64, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {64, 32}, 4);
  GroupedLinear cached(2, 64, 32, options_of(DType::kBF16));
  LinearCall call;
  call.is_first_microbatch = true;
  const PassResult a = train(cached, x, dy, &recipe, splits, call);
  for (std::size_t g = 0; g < 2; ++g) {
    Tensor& w = *cached.weight(g).value;
    std::memset(w.mutable_data(), 0, w.view.bytes().size());
  }
  call.is_first_microbatch = false;
  const PassResult b = train(cached, x, dy, &recipe, splits, call);
  EXPECT_TRUE(same_bits(a.y, b.y) && same_bits(a.dx, b.dx));
  // Without the cache the zeroed weights are seen.
  const PassResult c = train(cached, x, dy, &recipe, splits);
  EXPECT_FALSE(same_bits(a.y, c.y));
}

TEST(GroupedLinear, StoresItsWeightsQuantised) {
  const Splits splits = {32, 32};
  const Recipe recipe = recipe::Float8CurrentScaling{};
  const Tensor x = normal_tensor(DType::kBF16, {64, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {64, 32}, 4);
  std::unique_ptr<GroupedLinear> stored;
  manual_seed(3);
  {
    QuantizedModelInit init(recipe);
    stored =
        std::make_unique<GroupedLinear>(2, 64, 32, options_of(DType::kBF16));
    EXPECT_EQ(message_of([] {
                GroupedLinear bad(2, 64, 32, stacked(options_of(DType::kBF16)));
              }),
              "GroupedLinear: single_grouped_weight: true, expected false "
              "where weights are stored quantised");
  }
  manual_seed(3);
  GroupedLinear plain(2, 64, 32, options_of(DType::kBF16));
  const PassResult a = train(*stored, x, dy, &recipe, splits);
  const PassResult b = train(plain, x, dy, &recipe, splits);
  EXPECT_TRUE(same_bits(a.y, b.y) && same_bits(a.dx, b.dx));
}

// (input, weight, output) and (grad_output, grad_input) of each product; the
// size is that after many steps too.
TEST(GroupedLinear, F07_StateHasThreeAndTwoSlotsAProductAndDoesNotGrow) {
  const Splits splits = {32, 0};
  GroupedLinear layer(2, 64, 32, options_of(DType::kBF16));
  recipe::DelayedScaling delayed;
  delayed.amax_history_len = 3;
  const Recipe recipe = delayed;
  const Tensor x = normal_tensor(DType::kBF16, {32, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {32, 32}, 4);
  std::string shapes[2];
  for (std::string& text : shapes) {
    for (int step = 0; step < 4; ++step) train(layer, x, dy, &recipe, splits);
    for (const NamedTensor& t : layer.extra_state()) {
      text += t.name;
      for (std::int64_t d : t.tensor.shape()) text += " " + std::to_string(d);
      text += "\n";
    }
  }
  EXPECT_EQ(shapes[0],
            "_extra_state.scale_fwd 6\n_extra_state.amax_history_fwd 3 6\n"
            "_extra_state.scale_bwd 4\n_extra_state.amax_history_bwd 3 4\n");
  EXPECT_EQ(shapes[0], shapes[1]);
  // The group without rows keeps the scale it began with.
  const auto state = layer.extra_state();
  EXPECT_NE(at(state[0].tensor, 0), 1);
  EXPECT_EQ(at(state[0].tensor, 3), 1);
}

TEST(GroupedLinear, TakesNoRowsAtAll) {
  const Splits splits = {0, 0};
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    GroupedLinear layer(2, 64, 32, options_of(DType::kBF16));
    const PassResult p =
        train(layer, Tensor::zeros(DType::kBF16, {0, 64}),
              Tensor::zeros(DType::kBF16, {0, 32}), &r.recipe, splits);
    EXPECT_EQ(p.y.shape(), (Shape{0, 32}));
    EXPECT_EQ(p.dx.shape(), (Shape{0, 64}));
    EXPECT_EQ(at(*layer.weight(1).grad, 3), 0);
  }
}

TEST(GroupedLinear, DoesNotDependOnTheNumberOfThreads) {
  const Splits splits = {96, 32};
  const Tensor x = normal_tensor(DType::kBF16, {128, 64}, 3);
  const Tensor dy = normal_tensor(DType::kBF16, {128, 64}, 4);
  GroupedLinear one(2, 64, 64, options_of(DType::kBF16));
  GroupedLinear four(2, 64, 64, options_of(DType::kBF16));
  expect_same_for_any_threads(one, four, x, dy, splits);
}

TEST(GroupedLinear, SkipsTheInputsGradientOfAFirstLayer) {
  GroupedLinear layer(2, 16, 8);
  LinearCall call;
  call.input_requires_grad = false;
  const Tensor x = normal_tensor(DType::kF32, {5, 16}, 1);
  const Splits splits = {2, 3};
  const PassResult r = train(layer, x, normal_tensor(DType::kF32, {5, 8}, 2),
                             nullptr, splits, call);
  EXPECT_EQ(r.dx.view.data, nullptr);
  EXPECT_TRUE(layer.weight(1).grad);
}

TEST(GroupedLinear, NamesWhatItCannotTake) {
  GroupedLinearOptions o = options_of(DType::kBF16);
  o.name = "experts.fc1";
  GroupedLinear layer(2, 64, 32, o);
  const Tensor x = Tensor::zeros(DType::kBF16, {48, 64});
  const auto forward = [&](const Splits& splits) {
    return message_of([&] {
      Autocast autocast{recipe::MXFP8BlockScaling{}};
      GroupedLinear::Context context;
      layer.forward(x, &context, splits);
    });
  };
  EXPECT_EQ(forward({48}), "experts.fc1: m_splits: 1 groups, expected 2");
  EXPECT_EQ(forward({16, 16}).substr(0, 21), "experts.fc1: m_splits");
  EXPECT_EQ(forward({32, 16}),
            "experts.fc1: m_splits[1]: 16 rows, expected a multiple of 32 for "
            "MXFP8BlockScaling");
  EXPECT_EQ(message_of([] { GroupedLinear bad(0, 4, 4); }),
            "GroupedLinear: num_gemms: 0, expected 1 or more");
}

}  // namespace
}  // namespace assay::te
