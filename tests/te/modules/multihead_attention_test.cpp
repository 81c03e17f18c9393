#include "assay/te/modules/multihead_attention.h"

#include <numbers>

#include "tests/te/modules/module_checks.h"

namespace assay::te {
namespace {

using Options = MultiheadAttentionOptions;

std::vector<double> values(const Tensor& t) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < t.numel(); ++i) out.push_back(at(t, i));
  return out;
}

Tensor counting(Shape shape) {
  Tensor t = Tensor::empty(DType::kF32, std::move(shape));
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.mutable_data<float>()[i] = static_cast<float>(i);
  return t;
}

std::vector<std::string> names(Module& module) {
  std::vector<std::string> out;
  for (const NamedTensor& t : module.state_dict())
    out.push_back(t.name + " " + to_string(t.tensor.shape()));
  return out;
}

Options no_dropout() {
  Options options;
  options.attention_dropout = 0;
  return options;
}

TEST(QkvOrder, LiesAsNvteHasIt) {
  const Tensor mixed = counting({1, 8});
  const auto expect = [&](bool interleaved, std::vector<double> q,
                          std::vector<double> k, std::vector<double> v) {
    const QkvOrder order{4, 2, 1, interleaved};
    const QkvTensors parts = split_qkv(mixed, order);
    EXPECT_EQ(parts.q.shape(), (Shape{1, 4, 1}));
    EXPECT_EQ(parts.k.shape(), (Shape{1, 2, 1}));
    EXPECT_EQ(values(parts.q), q);
    EXPECT_EQ(values(parts.k), k);
    EXPECT_EQ(values(parts.v), v);
    EXPECT_TRUE(same_bits(join_qkv(parts, order), mixed));
  };
  expect(false, {0, 1, 2, 3}, {4, 5}, {6, 7});
  expect(true, {0, 1, 4, 5}, {2, 6}, {3, 7});
  const Tensor kv = counting({1, 8});
  for (const bool interleaved : {false, true}) {
    const QkvOrder order{4, 2, 2, interleaved};
    const auto [k, v] = split_kv(kv, order);
    EXPECT_EQ(values(k), interleaved ? (std::vector<double>{0, 1, 4, 5})
                                     : (std::vector<double>{0, 1, 2, 3}));
    EXPECT_TRUE(same_bits(join_kv(k, v, order), kv));
  }
}

TEST(MultiheadAttention, NamesAreThoseOfNvte) {
  Options options;
  options.num_gqa_groups = 2;
  MultiheadAttention split(16, 4, options);
  EXPECT_EQ(
      names(split),
      (std::vector<std::string>{
          "qkv.query_weight [16, 16]", "qkv.key_weight [8, 16]",
          "qkv.value_weight [8, 16]", "qkv.query_bias [16]", "qkv.key_bias [8]",
          "qkv.value_bias [8]", "proj.weight [16, 16]", "proj.bias [16]"}));
  options.fuse_qkv_params = true;
  options.input_layernorm = true;
  options.bias = false;
  options.qk_norm_type = QkNormType::kLayerNorm;
  options.softmax_type = SoftmaxType::kLearnable;
  MultiheadAttention fused(16, 4, options);
  EXPECT_EQ(names(fused),
            (std::vector<std::string>{
                "layernorm_qkv.layer_norm_weight [16]",
                "layernorm_qkv.layer_norm_bias [16]",
                "layernorm_qkv.weight [32, 16]", "q_norm.weight [4]",
                "q_norm.bias [4]", "k_norm.weight [4]", "k_norm.bias [4]",
                "core_attention.softmax_offset [4]", "proj.weight [16, 16]"}));
  Options cross;
  cross.attention_type = AttentionType::kCross;
  MultiheadAttention plain(16, 4, cross);
  EXPECT_EQ(
      names(plain),
      (std::vector<std::string>{
          "query_layer.weight [16, 16]", "query_layer.bias [16]",
          "key_value.key_weight [16, 16]", "key_value.value_weight [16, 16]",
          "key_value.key_bias [16]", "key_value.value_bias [16]",
          "proj.weight [16, 16]", "proj.bias [16]"}));
  cross.input_layernorm = true;
  cross.normalization = Normalization::kRMSNorm;
  MultiheadAttention normed(16, 4, cross);
  EXPECT_EQ(names(normed)[0], "layernorm_query.layer_norm_weight [16]");
  EXPECT_EQ(names(normed)[1], "layernorm_query.query_weight [16, 16]");
}

// The three parameters, one, and one in groups are the same function where
// their rows are the same.
TEST(MultiheadAttention, EveryLayoutOfTheWeightIsTheSameFunction) {
  Options options = no_dropout();
  options.num_gqa_groups = 2;
  MultiheadAttention split(16, 4, options);
  options.fuse_qkv_params = true;
  MultiheadAttention grouped(16, 4, options);
  options.qkv_weight_interleaved = false;
  MultiheadAttention fused(16, 4, options);
  const auto rows = [](MultiheadAttention& from, const char* name) {
    for (const NamedTensor& t : from.state_dict())
      if (t.name == name) return t.tensor;
    throw std::runtime_error(name);
  };
  // Row of [q | k | v] that each row of the grouped weight is: two heads of
  // channels 4, then k and v, twice.
  std::vector<int> order;
  for (int g = 0; g < 2; ++g) {
    for (int i = 0; i < 8; ++i) order.push_back(8 * g + i);
    for (int i = 0; i < 4; ++i) order.push_back(16 + 4 * g + i);
    for (int i = 0; i < 4; ++i) order.push_back(24 + 4 * g + i);
  }
  Tensor whole = Tensor::empty(DType::kF32, {32, 16});
  int row = 0;
  for (const char* name :
       {"qkv.query_weight", "qkv.key_weight", "qkv.value_weight"}) {
    const Tensor t = rows(split, name);
    std::memcpy(whole.mutable_data<float>() + 16 * row, t.view.data,
                t.view.bytes().size());
    row += static_cast<int>(t.shape()[0]);
  }
  Tensor to = rows(fused, "qkv.weight"),
         in_groups = rows(grouped, "qkv.weight");
  std::memcpy(to.mutable_data(), whole.view.data, whole.view.bytes().size());
  for (int i = 0; i < 32; ++i)
    std::memcpy(in_groups.mutable_data<float>() + 16 * i,
                whole.data<float>() + 16 * order[static_cast<std::size_t>(i)],
                16 * sizeof(float));
  for (MultiheadAttention* m : {&fused, &grouped}) {
    Tensor proj = rows(*m, "proj.weight");
    std::memcpy(proj.mutable_data(), rows(split, "proj.weight").view.data,
                proj.view.bytes().size());
  }
  const Tensor x = normal_tensor(DType::kF32, {5, 2, 16}, 1);
  const Tensor dy = normal_tensor(DType::kF32, {5, 2, 16}, 2);
  const auto run = [&](MultiheadAttention& m) {
    MultiheadAttention::Context context;
    const Tensor y = m.forward(x, &context).output;
    return std::pair{y, m.backward(dy, context).d_hidden_states};
  };
  const auto a = run(split), b = run(fused), c = run(grouped);
  EXPECT_TRUE(same_bits(a.first, b.first));
  EXPECT_TRUE(same_bits(a.second, b.second));
  EXPECT_LT(distance(c.first, a.first), 1e-6);
  EXPECT_LT(distance(c.second, a.second), 1e-6);
  const Tensor dq = *split.modules()[1].module->parameter("key_weight").grad;
  const Tensor dw = *fused.modules()[1].module->parameter("weight").grad;
  const Tensor dg = *grouped.modules()[1].module->parameter("weight").grad;
  for (int i = 0; i < 8 * 16; ++i) EXPECT_EQ(at(dq, i), at(dw, 256 + i));
  for (int i = 0; i < 32; ++i)
    for (int j = 0; j < 16; ++j)
      EXPECT_NEAR(at(dg, 16 * i + j),
                  at(dw, 16 * order[static_cast<std::size_t>(i)] + j), 1e-5);
}

// x = [1, 2, 3, 4] twice, identity projections; the second token is rotated by
// cos [1, 1, 0, 0] and sin [0, 0, 1, 1] to [1, 2, 1, 2]: its logits are 16 and
// 10 times the scale. Where only the first half of the angles is read nothing
// is rotated and they are 30 and 30.
TEST(MultiheadAttention, F23_ReadsBothHalvesOfTheAngles) {
  Options options = no_dropout();
  options.fuse_qkv_params = true;
  options.qkv_weight_interleaved = false;
  options.bias = false;
  options.softmax_type = SoftmaxType::kOffByOne;
  options.softmax_scale = 0.01f;
  MultiheadAttention m(4, 1, options);
  std::vector<double> identity(16, 0.0), three(48, 0.0);
  for (std::size_t i = 0; i < 4; ++i) {
    identity[5 * i] = 1;
    for (std::size_t j = 0; j < 3; ++j) three[16 * j + 5 * i] = 1;
  }
  m.load_state_dict(std::vector<NamedTensor>{
      {"qkv.weight", filled(DType::kF32, {12, 4}, three)},
      {"proj.weight", filled(DType::kF32, {4, 4}, identity)}});
  const double right = std::numbers::pi / 2;
  const Tensor freqs =
      filled(DType::kF32, {2, 1, 1, 4}, {0, 0, 0, 0, 0, 0, right, right});
  MultiheadAttentionCall call;
  call.rotary_pos_emb = {freqs, freqs};
  const Tensor x = filled(DType::kF32, {2, 1, 4}, {1, 2, 3, 4, 1, 2, 3, 4});
  const Tensor y = m.forward(x, nullptr, call).output;
  const double sum = std::exp(0.16) + std::exp(0.10);
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(at(y, 4 + i), (i + 1) * sum / (1 + sum), 2e-6);
}

struct Case {
  const char* name;
  Options options;
  bool rope;
};

std::vector<Case> cases() {
  Options self = no_dropout();
  self.num_gqa_groups = 2;
  self.input_layernorm = true;
  Options fused = self;
  fused.fuse_qkv_params = true;
  fused.qk_norm_type = QkNormType::kRMSNorm;
  fused.normalization = Normalization::kRMSNorm;
  Options l2 = no_dropout();
  l2.qk_norm_type = QkNormType::kL2Normalization;
  l2.qk_norm_before_rope = true;
  Options cross = self;
  cross.attention_type = AttentionType::kCross;
  cross.attn_mask_type = AttentionMask::kNone;
  cross.qk_norm_type = QkNormType::kLayerNorm;
  return {{"self", self, false},
          {"fused", fused, true},
          {"l2", l2, true},
          {"cross", cross, false}};
}

struct Step {
  Tensor y, dx;
  std::optional<Tensor> d_encoder;
};

Step run(MultiheadAttention& m, const Tensor& x, const Tensor& dy,
         const MultiheadAttentionCall& call, const NamedRecipe* recipe) {
  MultiheadAttention::Context context;
  Step step;
  {
    std::optional<Autocast> autocast;
    if (recipe) autocast.emplace(recipe->recipe);
    step.y = m.forward(x, &context, call).output;
  }
  auto g = m.backward(dy, context);
  step.dx = g.d_hidden_states;
  step.d_encoder = g.d_encoder_output;
  return step;
}

// Histories alone make a second step another.
int steps_of(const NamedRecipe* recipe) {
  return recipe && recipe->name == "delayed" ? 2 : 1;
}

// Beside Device::kReference: fp32 within 1e-5 (sums of up to 128 terms in four
// steps, 2^-24 each); bf16 within 2^-6, for in bf16 tiles p is rounded to bf16
// (2^-9 of every weight) and every intermediate that falls on the other side
// of a tie moves by 2^-8. Quantised: an operand that differs by d relative,
// about 2^-8 after attention, has d / u of its codes one step u off (u about
// 2^-3 of the value in E4M3, 2^-2 in E5M2, 2^-1 in E2M1): sqrt(d u), 0.03 and
// less in FP8 (NamedRecipe::operand_error); twice that where such an operand
// follows another: proj, then the projections of the input.
void compare(const Case& c, DType dtype, const NamedRecipe* recipe,
             double budget) {
  SCOPED_TRACE(c.name);
  Options options = c.options;
  options.params_dtype = dtype;
  MultiheadAttention fast(128, 4, options);
  options.device = Device::kReference;
  MultiheadAttention slow(128, 4, options);
  copy_parameters(fast, slow);
  const Tensor x = normal_tensor(dtype, {32, 2, 128}, 1);
  const Tensor dy = normal_tensor(dtype, {32, 2, 128}, 2, 1e-2);
  MultiheadAttentionCall a, b;
  if (options.attention_type == AttentionType::kCross) {
    a.encoder_output = normal_tensor(dtype, {48, 2, 128}, 3);
    b.encoder_output = on_reference(*a.encoder_output);
  }
  if (c.rope) {
    const Tensor f = rope_frequencies({.dim = 32}, 32);
    a.rotary_pos_emb = {f, f};
    b.rotary_pos_emb = {on_reference(f), on_reference(f)};
  }
  for (int step = 0; step < steps_of(recipe); ++step) {
    fast.zero_grad();
    slow.zero_grad();
    const Step p = run(fast, x, dy, a, recipe);
    const Step q = run(slow, on_reference(x), on_reference(dy), b, recipe);
    EXPECT_LT(distance(p.y, q.y), budget);
    EXPECT_LT(distance(p.dx, q.dx), budget);
    if (p.d_encoder) {
      EXPECT_LT(distance(*p.d_encoder, *q.d_encoder), budget);
    }
    const auto ours = fast.parameters(), theirs = slow.parameters();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      ASSERT_TRUE(ours[i].parameter->grad) << ours[i].name;
      // What is added to all keys alike has no gradient but rounding: rows of
      // dS sum to 0.
      if (ours[i].name.ends_with("key_bias") ||
          ours[i].name.ends_with("k_norm.bias"))
        continue;
      EXPECT_LT(distance(*ours[i].parameter->grad, *theirs[i].parameter->grad),
                budget)
          << ours[i].name;
    }
  }
}

TEST(MultiheadAttention, AgreesWithTheReference) {
  for (const Case& c : cases()) {
    compare(c, DType::kF32, nullptr, 1e-5);
    compare(c, DType::kBF16, nullptr, 0x1p-6);
  }
}

TEST(MultiheadAttention, AgreesWithTheReferenceUnderEveryRecipe) {
  for (const NamedRecipe& r : all_recipes()) {
    SCOPED_TRACE(r.name);
    compare(cases()[1], DType::kBF16, &r, 2 * r.operand_error);
    compare(cases()[3], DType::kBF16, &r, 2 * r.operand_error);
  }
}

// The layer that the region began with updates the scales of the backward when
// all of it is done: the maxima of every projection are in by then.
TEST(MultiheadAttention, CrossAttentionUpdatesTheBackwardLast) {
  Options options = no_dropout();
  options.params_dtype = DType::kBF16;
  options.attention_type = AttentionType::kCross;
  options.attn_mask_type = AttentionMask::kNone;
  for (bool norm : {false, true}) {
    options.input_layernorm = norm;
    MultiheadAttention attention(32, 4, options);
    MultiheadAttentionCall call;
    call.encoder_output = normal_tensor(DType::kBF16, {16, 2, 32}, 7);
    MultiheadAttention::Context context;
    {
      Autocast autocast{recipe::DelayedScaling{}};
      attention.forward(normal_tensor(DType::kBF16, {8, 2, 32}, 3), &context,
                        call);
    }
    attention.backward(normal_tensor(DType::kBF16, {8, 2, 32}, 4), context);
    int seen = 0;
    for (const NamedTensor& t : attention.state_dict()) {
      if (!t.name.ends_with("_extra_state.scale_bwd")) continue;
      EXPECT_NE(at(t.tensor, 0), 1) << t.name;
      ++seen;
    }
    EXPECT_EQ(seen, 3);
  }
}

TEST(MultiheadAttention, LayoutsAreTransposesOfEachOther) {
  Options options = no_dropout();
  options.num_gqa_groups = 2;
  MultiheadAttention sbhd(16, 4, options);
  options.qkv_format = QkvFormat::kBshd;
  MultiheadAttention bshd(16, 4, options);
  options.qkv_format = QkvFormat::kThd;
  options.attn_mask_type = AttentionMask::kPaddingCausal;
  MultiheadAttention thd(16, 4, options);
  copy_parameters(sbhd, bshd);
  copy_parameters(sbhd, thd);
  const Tensor f = rope_frequencies({.dim = 4}, 5);
  MultiheadAttentionCall call;
  call.rotary_pos_emb = {f, f};
  const Tensor x = normal_tensor(DType::kF32, {5, 2, 16}, 1);
  const Tensor y = sbhd.forward(x, nullptr, call).output;
  const auto swapped = [](const Tensor& t) {
    Tensor out = Tensor::empty(t.dtype(), {2, 5, 16});
    for (int s = 0; s < 5; ++s)
      for (int b = 0; b < 2; ++b)
        for (int i = 0; i < 16; ++i)
          out.mutable_data<float>()[(b * 5 + s) * 16 + i] =
              t.data<float>()[(s * 2 + b) * 16 + i];
    return out;
  };
  const Tensor yt = swapped(y);
  EXPECT_LT(distance(bshd.forward(swapped(x), nullptr, call).output, yt), 1e-6);
  call.cu_seqlens_q = filled(DType::kI32, {3}, {0, 5, 10});
  call.cu_seqlens_kv = call.cu_seqlens_q;
  Tensor packed = swapped(x), expected = yt;
  packed.view.shape = expected.view.shape = {10, 16};
  EXPECT_LT(distance(thd.forward(packed, nullptr, call).output, expected),
            1e-6);
}

TEST(MultiheadAttention, StepsOverACacheAreTheWholeForward) {
  Options options = no_dropout();
  options.num_gqa_groups = 2;
  options.layer_number = 2;
  MultiheadAttention m(16, 4, options);
  const std::int64_t s = 7, b = 2;
  const Tensor f = rope_frequencies({.dim = 4}, s);
  MultiheadAttentionCall call;
  call.rotary_pos_emb = {f, f};
  const Tensor x = normal_tensor(DType::kF32, {s, b, 16}, 1);
  const Tensor whole = m.forward(x, nullptr, call).output;
  KvCache cache({.layers = 2,
                 .max_batch = b,
                 .max_length = s,
                 .heads = 2,
                 .k_dim = 4,
                 .v_dim = 4,
                 .dtype = DType::kF32});
  call.inference_params = &cache;
  std::int64_t from = 0;
  for (const std::int64_t n : {4, 1, 2}) {
    cache.begin_step(std::vector<SequenceStep>{{1, n}, {2, n}});
    Tensor part = x;
    part.view.shape[0] = n;
    part.view.data += from * b * 16 * 4;
    const Tensor y = m.forward(part, nullptr, call).output;
    for (std::int64_t i = 0; i < y.numel(); ++i)
      EXPECT_NEAR(at(y, i), at(whole, from * b * 16 + i), 1e-6);
    from += n;
  }
  MultiheadAttention::Context context;
  call.rotary_pos_emb.reset();
  EXPECT_EQ(message_of([&] { m.forward(x, &context, call); }),
            "MultiheadAttention.core_attention: inference_params: given with "
            "a context, expected inference");
}

TEST(MultiheadAttention, ZeroRowsGiveZeroGradients) {
  MultiheadAttention m(16, 4, no_dropout());
  MultiheadAttention::Context context;
  const Tensor none = Tensor::zeros(DType::kF32, {0, 2, 16});
  EXPECT_EQ(m.forward(none, &context).output.shape(), (Shape{0, 2, 16}));
  EXPECT_EQ(m.backward(none, context).d_hidden_states.shape(),
            (Shape{0, 2, 16}));
  for (const NamedParameter& p : m.parameters())
    for (std::int64_t i = 0; i < p.parameter->grad->numel(); ++i)
      EXPECT_EQ(at(*p.parameter->grad, i), 0) << p.name;
}

TEST(MultiheadAttention, NamesWhatItCannotTake) {
  EXPECT_EQ(message_of([] { MultiheadAttention(10, 4); }),
            "MultiheadAttention: hidden_size: 10, expected a multiple of 4");
  Options options;
  options.return_layernorm_output = true;
  options.name = "layer.3";
  EXPECT_EQ(message_of([&] { MultiheadAttention(16, 4, options); }),
            "layer.3: return_layernorm_output: true, expected input_layernorm "
            "with it");
  options = {};
  options.attention_type = AttentionType::kCross;
  MultiheadAttention cross(16, 4, options);
  EXPECT_EQ(message_of([&] {
              cross.forward(Tensor::zeros(DType::kF32, {2, 1, 16}));
            }),
            "MultiheadAttention: encoder_output: absent, expected one with "
            "cross attention");
  EXPECT_EQ(message_of([] { parse_qk_norm_type("BatchNorm"); }),
            "MultiheadAttention: qk_norm_type: BatchNorm, expected "
            "L2Normalization, RMSNorm or LayerNorm");
}

}  // namespace
}  // namespace assay::te
