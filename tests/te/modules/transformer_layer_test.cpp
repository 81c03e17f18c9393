#include "assay/te/modules/transformer_layer.h"

#include <algorithm>
#include <map>

#include "assay/base/parallel.h"
#include "assay/formats/tensor_source.h"
#include "assay/te/modules/recompute.h"
#include "tests/te/modules/module_checks.h"

namespace assay::te {
namespace {

using Options = TransformerLayerOptions;
using Arrays = std::map<std::string, Tensor>;

Options no_dropout() {
  Options options;
  options.hidden_dropout = options.attention_dropout = 0;
  return options;
}

// tests/data/te/make_transformer_layer.py: torch's operators in fp64.
Arrays load_case(const std::string& name) {
  const auto source = open_tensors(std::string(ASSAY_TEST_DATA) +
                                   "/te/transformer_layer_" + name + ".npz");
  Arrays arrays;
  for (std::size_t i = 0; i < source->tensors().size(); ++i)
    arrays[source->tensors()[i].name] = contiguous(source->load(i));
  return arrays;
}

// The parameters of the case under "p:", which are to be exactly the layer's.
void load_parameters(const Arrays& arrays, TransformerLayer& layer) {
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : arrays)
    if (name.starts_with("p:")) state.push_back({name.substr(2), tensor});
  layer.load_state_dict(state);
}

// Against the largest value of the tensor, or 1: what is added to all keys
// alike has a gradient of 0 but for the rounding of terms of about 1.
double largest_error(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double error = 0, largest = 1;
  for (std::int64_t i = 0; i < b.numel(); ++i) {
    error = std::max(error, std::abs(at(a, i) - at(b, i)));
    largest = std::max(largest, std::abs(at(b, i)));
  }
  return error / largest;
}

// fp32 through some ten operators of sums of up to 24 terms: each adds a few
// 2^-24 of the largest value, norms times their gain of about 4.
constexpr double kFp32Budget = 2e-5;

void compare_with_torch(const std::string& name, const Options& options) {
  SCOPED_TRACE(name);
  const Arrays a = load_case(name);
  TransformerLayer layer(16, 24, 4, options);
  load_parameters(a, layer);
  TransformerLayerCall call;
  if (a.contains("encoder")) call.encoder_output = a.at("encoder");
  if (a.contains("freqs")) call.rotary_pos_emb = {a.at("freqs"), a.at("freqs")};
  TransformerLayer::Context context;
  EXPECT_LT(largest_error(layer.forward(a.at("x"), &context, call), a.at("y")),
            kFp32Budget);
  const auto g = layer.backward(a.at("dy"), context);
  EXPECT_LT(largest_error(g.d_hidden_states, a.at("dx")), kFp32Budget);
  ASSERT_EQ(g.d_encoder_output.has_value(), a.contains("encoder"));
  if (g.d_encoder_output) {
    EXPECT_LT(largest_error(*g.d_encoder_output, a.at("d_encoder")),
              kFp32Budget);
  }
  for (const NamedParameter& p : layer.parameters()) {
    const Tensor& expected = a.at("g:" + p.name);
    ASSERT_TRUE(p.parameter->grad) << p.name;
    EXPECT_LT(largest_error(*p.parameter->grad, expected), kFp32Budget)
        << p.name;
  }
}

TEST(TransformerLayer, IsTorchsOperatorsForwardAndBackward) {
  compare_with_torch("encoder", no_dropout());
  Options o = no_dropout();
  o.num_gqa_groups = 2;
  o.layer_type = LayerType::kDecoder;
  compare_with_torch("decoder", o);
  o = no_dropout();
  o.parallel_attention_mlp = true;
  o.qk_norm_type = QkNormType::kL2Normalization;
  compare_with_torch("parallel", o);
  o = no_dropout();
  o.apply_residual_connection_post_layernorm = true;
  o.layer_type = LayerType::kDecoder;
  compare_with_torch("post_layernorm", o);
  o = no_dropout();
  o.output_layernorm = true;
  o.self_attn_mask_type = AttentionMask::kNone;
  compare_with_torch("output_layernorm", o);
}

TEST(TransformerLayer, IsTorchsOperatorsWithGroupsRopeAndGates) {
  Options o = no_dropout();
  o.num_gqa_groups = 2;
  o.fuse_qkv_params = true;
  o.normalization = Normalization::kRMSNorm;
  o.bias = false;
  o.activation = Activation::kSwiglu;
  o.qk_norm_type = QkNormType::kRMSNorm;
  compare_with_torch("gqa_rope", o);
  o = no_dropout();
  o.zero_centered_gamma = true;
  o.qk_norm_type = QkNormType::kLayerNorm;
  o.qk_norm_before_rope = true;
  o.rotary_pos_interleaved = true;
  compare_with_torch("zero_centered", o);
}

TEST(TransformerLayer, NamesAreThoseOfNvte) {
  const auto names = [](const Options& o) {
    TransformerLayer layer(16, 24, 4, o);
    std::vector<std::string> out;
    for (const NamedTensor& t : layer.state_dict()) out.push_back(t.name);
    return out;
  };
  const std::vector<std::string> encoder = {
      "self_attention.layernorm_qkv.layer_norm_weight",
      "self_attention.layernorm_qkv.layer_norm_bias",
      "self_attention.layernorm_qkv.query_weight",
      "self_attention.layernorm_qkv.key_weight",
      "self_attention.layernorm_qkv.value_weight",
      "self_attention.layernorm_qkv.query_bias",
      "self_attention.layernorm_qkv.key_bias",
      "self_attention.layernorm_qkv.value_bias",
      "self_attention.proj.weight",
      "self_attention.proj.bias",
      "layernorm_mlp.layer_norm_weight",
      "layernorm_mlp.layer_norm_bias",
      "layernorm_mlp.fc1_weight",
      "layernorm_mlp.fc1_bias",
      "layernorm_mlp.fc2_weight",
      "layernorm_mlp.fc2_bias"};
  EXPECT_EQ(names({}), encoder);
  Options o;
  o.layer_type = LayerType::kDecoder;
  std::vector<std::string> decoder = encoder;
  const std::vector<std::string> inter = {
      "inter_attention.layernorm_query.layer_norm_weight",
      "inter_attention.layernorm_query.layer_norm_bias",
      "inter_attention.layernorm_query.query_weight",
      "inter_attention.layernorm_query.query_bias",
      "inter_attention.key_value.key_weight",
      "inter_attention.key_value.value_weight",
      "inter_attention.key_value.key_bias",
      "inter_attention.key_value.value_bias",
      "inter_attention.proj.weight",
      "inter_attention.proj.bias"};
  decoder.insert(decoder.begin() + 10, inter.begin(), inter.end());
  EXPECT_EQ(names(o), decoder);
  o = {};
  o.fuse_qkv_params = true;
  o.output_layernorm = true;
  EXPECT_EQ(
      names(o),
      (std::vector<std::string>{
          "self_attention.qkv.weight", "self_attention.qkv.bias",
          "self_attention.proj.weight", "self_attention.proj.bias",
          "layernorm_mlp.layer_norm_weight", "layernorm_mlp.layer_norm_bias",
          "layernorm_mlp.fc1_weight", "layernorm_mlp.fc1_bias",
          "layernorm_mlp.fc2_weight", "layernorm_mlp.fc2_bias",
          "layernorm.weight", "layernorm.bias"}));
}

struct Step {
  Tensor y, dx;
};

Step run(TransformerLayer& layer, const Tensor& x, const Tensor& dy,
         const NamedRecipe* recipe, const TransformerLayerCall& call = {}) {
  TransformerLayer::Context context;
  Step step;
  {
    std::optional<Autocast> autocast;
    if (recipe) autocast.emplace(recipe->recipe);
    step.y = layer.forward(x, &context, call);
  }
  step.dx = layer.backward(dy, context).d_hidden_states;
  return step;
}

Options wide(DType dtype) {
  Options o = no_dropout();
  o.num_gqa_groups = 2;
  o.params_dtype = dtype;
  return o;
}

// Budgets as in multihead_attention_test.cpp, with the MLP behind: one more
// operand that follows another. Gradients of parameters take the norm of all.
void compare_with_reference(DType dtype, const NamedRecipe* recipe,
                            double budget) {
  Options o = wide(dtype);
  TransformerLayer fast(128, 256, 4, o);
  o.device = Device::kReference;
  TransformerLayer slow(128, 256, 4, o);
  copy_parameters(fast, slow);
  const Tensor x = normal_tensor(dtype, {32, 2, 128}, 1);
  const Tensor dy = normal_tensor(dtype, {32, 2, 128}, 2, 1e-2);
  // Histories alone make a second step another.
  const int steps = recipe && recipe->name == "delayed" ? 2 : 1;
  for (int step = 0; step < steps; ++step) {
    fast.zero_grad();
    slow.zero_grad();
    const Step a = run(fast, x, dy, recipe);
    const Step b = run(slow, on_reference(x), on_reference(dy), recipe);
    EXPECT_LT(distance(a.y, b.y), budget);
    EXPECT_LT(distance(a.dx, b.dx), budget);
    const auto ours = fast.parameters(), theirs = slow.parameters();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (ours[i].name.ends_with("key_bias")) continue;
      EXPECT_LT(distance(*ours[i].parameter->grad, *theirs[i].parameter->grad),
                budget)
          << ours[i].name;
    }
  }
}

TEST(TransformerLayer, AgreesWithTheReference) {
  compare_with_reference(DType::kF32, nullptr, 1e-5);
  compare_with_reference(DType::kBF16, nullptr, 0x1p-6);
}

TEST(TransformerLayer, AgreesWithTheReferenceUnderEveryRecipe) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    compare_with_reference(DType::kBF16, &r, 2 * r.operand_error);
  }
}

// Nothing kept, the core run again, the whole layer run again: one result,
// with dropout and drop path on, and histories that move once.
TEST(TransformerLayer, F43_RecomputesBitForBitWithDropout) {
  Options o = wide(DType::kBF16);
  o.hidden_dropout = o.attention_dropout = 0.2;
  o.drop_path_rate = 0.3;
  const Tensor x = normal_tensor(DType::kBF16, {32, 4, 128}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {32, 4, 128}, 2, 1e-2);
  auto recipes = all_recipes();
  auto dpa = std::get<recipe::DelayedScaling>(recipes[0].recipe);
  dpa.fp8_dpa = true;
  recipes.push_back({"delayed, fp8_dpa", dpa, 0});
  for (const NamedRecipe& r : recipes) {
    SCOPED_TRACE(r.name);
    TransformerLayer kept(128, 256, 4, o), core(128, 256, 4, o),
        whole(128, 256, 4, o);
    copy_parameters(kept, core);
    copy_parameters(kept, whole);
    TransformerLayerCall checkpoint;
    checkpoint.checkpoint_core_attention = true;
    for (int step = 0; step < 2; ++step) {
      for (TransformerLayer* layer : {&kept, &core, &whole}) layer->zero_grad();
      const RandomStates before = random_states();
      const Step a = run(kept, x, dy, &r);
      set_random_states(before);
      const Step b = run(core, x, dy, &r, checkpoint);
      set_random_states(before);
      RecomputeContext<TransformerLayer> context;
      Step c;
      {
        Autocast autocast(r.recipe);
        c.y = recomputed_forward(whole, x, context);
      }
      next_dropout_state();  // what is drawn in between does not matter
      c.dx = recomputed_backward(whole, dy, context).d_hidden_states;
      EXPECT_TRUE(same_bits(a.y, b.y));
      EXPECT_TRUE(same_bits(a.y, c.y));
      EXPECT_TRUE(same_bits(a.dx, b.dx));
      EXPECT_TRUE(same_bits(a.dx, c.dx));
      expect_same_gradients(kept, core);
      expect_same_gradients(kept, whole);
    }
    const auto p = kept.state_dict(), q = core.state_dict(),
               s = whole.state_dict();
    ASSERT_EQ(p.size(), s.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      EXPECT_TRUE(same_bits(p[i].tensor, q[i].tensor)) << p[i].name;
      EXPECT_TRUE(same_bits(p[i].tensor, s[i].tensor)) << p[i].name;
    }
  }
}

TEST(TransformerLayer, WeightGradientsMayWait) {
  const Tensor x = normal_tensor(DType::kBF16, {32, 2, 128}, 1);
  const Tensor dy = normal_tensor(DType::kBF16, {32, 2, 128}, 2, 1e-2);
  const NamedRecipe r = all_recipes()[3];
  Options o = wide(DType::kBF16);
  TransformerLayer now(128, 256, 4, o);
  o.delay_wgrad_compute = true;
  TransformerLayer later(128, 256, 4, o);
  copy_parameters(now, later);
  const Step a = run(now, x, dy, &r), b = run(later, x, dy, &r);
  EXPECT_TRUE(same_bits(a.dx, b.dx));
  EXPECT_FALSE(later.layernorm_mlp().fc1_weight().grad);
  later.backward_dw();
  expect_same_gradients(now, later);
}

// The second microbatch finds the codes of the first: it does not see what
// has become of the weights.
TEST(TransformerLayer, MicrobatchesShareQuantisedWeights) {
  const Tensor x = normal_tensor(DType::kBF16, {32, 2, 128}, 1);
  const NamedRecipe r = all_recipes()[1];
  TransformerLayer layer(128, 256, 4, wide(DType::kBF16));
  TransformerLayerCall first, second;
  first.is_first_microbatch = true;
  second.is_first_microbatch = false;
  const Step a = run(layer, x, x, &r, first);
  for (const NamedParameter& p : layer.parameters())
    if (p.name.ends_with("_weight") && p.parameter->shape.size() == 2)
      std::memset(p.parameter->value->mutable_data(), 0,
                  p.parameter->value->view.bytes().size());
  const Step b = run(layer, x, x, &r, second);
  EXPECT_TRUE(same_bits(a.y, b.y));
  EXPECT_TRUE(same_bits(a.dx, b.dx));
  EXPECT_FALSE(same_bits(a.y, run(layer, x, x, &r, first).y));
}

TEST(TransformerLayer, TheCoreRunAgainKeepsLess) {
  const Options o = wide(DType::kBF16);
  TransformerLayer layer(128, 256, 4, o);
  const Tensor x = normal_tensor(DType::kBF16, {32, 2, 128}, 1);
  TransformerLayer::Context kept, core;
  layer.forward(x, &kept);
  TransformerLayerCall call;
  call.checkpoint_core_attention = true;
  layer.forward(x, &core, call);
  // The log-sum-exp in fp32; the output is proj's input as well.
  EXPECT_EQ(saved_bytes(kept) - saved_bytes(core), 2 * 4 * 32 * 4);
}

TEST(TransformerLayer, TheFutureDoesNotChangeThePast) {
  TransformerLayer layer(128, 256, 4, wide(DType::kF32));
  const Tensor x = normal_tensor(DType::kF32, {9, 2, 128}, 1);
  Tensor other = normal_tensor(DType::kF32, {9, 2, 128}, 1);
  for (std::int64_t i = 6 * 256; i < 9 * 256; ++i)
    other.mutable_data<float>()[i] += 1;
  const Tensor a = layer.forward(x), b = layer.forward(other);
  for (std::int64_t i = 0; i < 6 * 256; ++i) ASSERT_EQ(at(a, i), at(b, i)) << i;
  EXPECT_NE(at(a, 6 * 256), at(b, 6 * 256));
}

TEST(TransformerLayer, DropsForTrainingAlone) {
  Options o;
  o.hidden_dropout = 0.5;
  TransformerLayer layer(16, 24, 4, o);
  const Tensor x = normal_tensor(DType::kF32, {4, 2, 16}, 1);
  const Tensor a = layer.forward(x);
  EXPECT_TRUE(same_bits(a, layer.forward(x)));
  TransformerLayer::Context context;
  EXPECT_FALSE(same_bits(a, layer.forward(x, &context)));
}

// A sample of the batch whose paths are all dropped passes unchanged; it is a
// sample, not a position, that is dropped (NVTE's takes the first dimension).
TEST(TransformerLayer, DropPathDropsSamples) {
  Options o = no_dropout();
  o.drop_path_rate = 0.9;
  TransformerLayer layer(16, 24, 4, o);
  const Tensor x = normal_tensor(DType::kF32, {3, 40, 16}, 1);
  TransformerLayer::Context context;
  const Tensor y = layer.forward(x, &context);
  int unchanged = 0;
  for (int b = 0; b < 40; ++b) {
    int same = 0;
    for (int s = 0; s < 3; ++s) {
      bool equal = true;
      for (int i = 0; i < 16; ++i)
        equal &= at(x, (s * 40 + b) * 16 + i) == at(y, (s * 40 + b) * 16 + i);
      same += equal;
    }
    EXPECT_TRUE(same == 0 || same == 3) << b;
    unchanged += same == 3;
  }
  EXPECT_GT(unchanged, 22);  // 0.81 of 40 expected; 4 sigma is 10
  EXPECT_LT(unchanged, 40);
}

TEST(TransformerLayer, DoesNotDependOnThreads) {
  TransformerLayer layer(128, 256, 4, wide(DType::kBF16));
  const Tensor x = normal_tensor(DType::kBF16, {33, 2, 128}, 1);
  set_thread_count(1);
  const Step a = run(layer, x, x, nullptr);
  set_thread_count(4);
  const Step b = run(layer, x, x, nullptr);
  set_thread_count(0);
  EXPECT_TRUE(same_bits(a.y, b.y));
  EXPECT_TRUE(same_bits(a.dx, b.dx));
}

TEST(TransformerLayer, F45_LengthsBesideTilesAreFinite) {
  TransformerLayer layer(64, 64, 1, no_dropout());
  for (const std::int64_t s : {255, 256, 257}) {
    const Tensor x = normal_tensor(DType::kF32, {s, 1, 64}, 1);
    const Step step = run(layer, x, x, nullptr);
    for (std::int64_t i = 0; i < x.numel(); ++i)
      ASSERT_TRUE(std::isfinite(at(step.y, i)) && std::isfinite(at(step.dx, i)))
          << s << " " << i;
  }
}

TEST(TransformerLayer, ZeroRows) {
  Options o = no_dropout();
  o.layer_type = LayerType::kDecoder;
  TransformerLayer layer(16, 24, 4, o);
  const Tensor none = Tensor::zeros(DType::kF32, {0, 2, 16});
  TransformerLayerCall call;
  call.encoder_output = none;
  const Step step = run(layer, none, none, nullptr, call);
  EXPECT_EQ(step.y.shape(), (Shape{0, 2, 16}));
  EXPECT_EQ(step.dx.shape(), (Shape{0, 2, 16}));
}

TEST(TransformerLayer, NamesWhatItCannotTake) {
  Options o;
  o.name = "decoder.layers.0";
  o.parallel_attention_mlp = true;
  o.output_layernorm = true;
  EXPECT_EQ(message_of([&] { TransformerLayer(16, 24, 4, o); }),
            "decoder.layers.0: parallel_attention_mlp: true with "
            "output_layernorm, expected one of the two");
  o = {};
  o.hidden_dropout = 1;
  EXPECT_EQ(message_of([&] { TransformerLayer(16, 24, 4, o); }),
            "TransformerLayer: hidden_dropout: 1, expected at least 0 and "
            "below 1");
  TransformerLayer layer(16, 24, 4);
  TransformerLayerCall call;
  call.encoder_output = Tensor::zeros(DType::kF32, {2, 1, 16});
  EXPECT_EQ(
      message_of([&] { layer.forward(*call.encoder_output, nullptr, call); }),
      "TransformerLayer: encoder_output: given, expected none in an "
      "encoder layer");
}

// A first layer some of whose norms are frozen: nobody asks for its input's
// gradient, parts of which do not exist then.
TEST(TransformerLayer, FrozenNormsOfAFirstLayer) {
  for (int variant = 0; variant < 4; ++variant) {
    for (const char* frozen : {"self_attention", "layernorm_mlp", ""}) {
      SCOPED_TRACE(std::to_string(variant) + frozen);
      Options o = no_dropout();
      o.parallel_attention_mlp = variant == 1;
      o.apply_residual_connection_post_layernorm = variant == 2;
      o.output_layernorm = variant == 3;
      TransformerLayer some(16, 24, 4, o), all(16, 24, 4, o);
      copy_parameters(some, all);
      const auto is_frozen = [&](const std::string& name) {
        return name.starts_with(frozen) &&
               name.find("layer_norm_") != std::string::npos;
      };
      for (const NamedParameter& p : some.parameters())
        p.parameter->requires_grad = !is_frozen(p.name);
      const Tensor x = normal_tensor(DType::kF32, {6, 2, 16}, 1);
      const Tensor dy = normal_tensor(DType::kF32, {6, 2, 16}, 2);
      TransformerLayer::Context a, b;
      some.forward(x, &a, {.input_requires_grad = false});
      some.backward(dy, a);
      all.forward(x, &b);
      all.backward(dy, b);
      const auto ours = some.parameters(), theirs = all.parameters();
      for (std::size_t i = 0; i < ours.size(); ++i) {
        ASSERT_EQ(ours[i].parameter->grad.has_value(),
                  !is_frozen(ours[i].name));
        if (!ours[i].parameter->grad) continue;
        EXPECT_TRUE(
            same_bits(*ours[i].parameter->grad, *theirs[i].parameter->grad))
            << ours[i].name;
      }
    }
  }
}

// Said of the layer, not of the first operator that stumbles over it.
TEST(TransformerLayer, NamesAContextOrGradientOfAnotherForward) {
  TransformerLayer layer(16, 24, 4);
  const Tensor x = normal_tensor(DType::kF32, {3, 2, 16}, 1);
  TransformerLayer::Context context;
  const std::string used_up =
      "TransformerLayer: context: not of a forward pass, or used up, expected "
      "that of one";
  EXPECT_EQ(message_of([&] { layer.backward(x, context); }), used_up);
  layer.forward(x, &context);
  EXPECT_EQ(message_of([&] {
              layer.backward(Tensor::zeros(DType::kF32, {3, 1, 16}), context);
            }),
            "TransformerLayer: grad_output: shape [3, 1, 16], expected "
            "[3, 2, 16]");
  layer.backward(x, context);
  EXPECT_EQ(message_of([&] { layer.backward(x, context); }), used_up);
}

TEST(TransformerLayer, NamesTheLayerWhoseRowsCannotBeQuantised) {
  TransformerLayer layer(64, 128, 4);
  layer.name_tree("layers.3");
  Autocast autocast{recipe::MXFP8BlockScaling{}};
  const Tensor x = normal_tensor(DType::kF32, {7, 2, 64}, 1);
  TransformerLayer::Context context;
  for (auto* c : {&context, static_cast<TransformerLayer::Context*>(nullptr)})
    EXPECT_EQ(message_of([&] { layer.forward(x, c); }),
              "layers.3.self_attention.layernorm_qkv: input: 14 rows, expected "
              "a multiple of 32 for MXFP8BlockScaling");
}

}  // namespace
}  // namespace assay::te
