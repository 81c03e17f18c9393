// Layers whose weights, sequences or vocabulary are cut across ranks against
// the same layers in one process.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/te/modules/embedding.h"
#include "assay/te/modules/lm_head.h"
#include "assay/te/modules/parameter_init.h"
#include "assay/te/modules/trainable.h"
#include "assay/te/modules/transformer_layer.h"
#include "assay/te/quantize/current.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

constexpr std::int64_t kHidden = 64, kFfn = 128, kHeads = 4, kBatch = 2;

double value(const Tensor& t, std::int64_t i) {
  return load_as_double(t.dtype(), t.view.data, i);
}

// Of the largest value, or 1: sums over ranks are other sums, in fp32 a few
// 2^-24 a step. In bf16 every partial sum is rounded too: 2^-8 of it, and what
// falls on the other side of a tie goes on through the layer.
double budget(DType dtype) { return dtype == DType::kF32 ? 2e-5 : 0x1p-5; }

void expect_close(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const Tensor x = contiguous(a), y = contiguous(b);
  double error = 0, largest = 1;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    error = std::max(error, std::abs(value(x, i) - value(y, i)));
    largest = std::max(largest, std::abs(value(y, i)));
  }
  EXPECT_LE(error, budget(y.dtype()) * largest) << what;
}

// The gradients of a rank against its part of those of one process. `partial`:
// every gradient is of this rank's tokens.
void expect_same_gradients(Module& cut_module, Module& whole, bool partial) {
  if (!partial) sum_sequence_parallel_gradients(cut_module, *group());
  const auto ours = cut_module.parameters(), all = whole.parameters();
  ASSERT_EQ(ours.size(), all.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const Parameter& p = *ours[i].parameter;
    ASSERT_EQ(ours[i].name, all[i].name);
    const Tensor sum = partial ? all_reduce_sum(*p.grad, *group()) : *p.grad;
    const Tensor expected =
        p.tensor_model_parallel && ranks() > 1
            ? cut(*all[i].parameter->grad, p.partition_dim, ranks(), rank(),
                  static_cast<int>(p.partition_stride))
            : *all[i].parameter->grad;
    expect_close(sum, expected, ours[i].name);
  }
}

std::vector<TransformerLayerOptions> layers() {
  TransformerLayerOptions plain;
  plain.hidden_dropout = plain.attention_dropout = 0;
  TransformerLayerOptions gated = plain;
  gated.num_gqa_groups = kHeads;
  gated.fuse_qkv_params = true;
  gated.normalization = Normalization::kRMSNorm;
  gated.activation = Activation::kSwiglu;
  gated.qk_norm_type = QkNormType::kRMSNorm;
  gated.softmax_type = SoftmaxType::kLearnable;
  TransformerLayerOptions bf16 = plain;
  bf16.params_dtype = DType::kBF16;
  TransformerLayerOptions post = plain;
  post.apply_residual_connection_post_layernorm = true;
  TransformerLayerOptions last = plain;
  last.output_layernorm = true;
  return {plain, gated, bf16, post, last};
}

TransformerLayerCall with_rope(std::int64_t length) {
  const Tensor f = rope_frequencies({.dim = kHidden / kHeads}, length);
  TransformerLayerCall call;
  call.rotary_pos_emb = {f, f};
  return call;
}

TEST(TransformerLayer, CutOverRanksIsTheSingleProcess) {
  const std::int64_t s = 4 * ranks();
  const TransformerLayerCall call = with_rope(s);
  for (TransformerLayerOptions o : layers()) {
    const Tensor x = normal(o.params_dtype, {s, kBatch, kHidden}, 1);
    const Tensor dy = normal(o.params_dtype, {s, kBatch, kHidden}, 2);
    manual_seed(3);
    TransformerLayer one(kHidden, kFfn, kHeads, o);
    TransformerLayer::Context c;
    const Tensor y = one.forward(x, &c, call);
    const auto g = one.backward(dy, c);
    for (const bool sequence : {false, true}) {
      SCOPED_TRACE(sequence ? "sequence parallel" : "tensor parallel");
      o.tp = {group(), sequence};
      o.set_parallel_mode = true;
      manual_seed(3);
      TransformerLayer many(kHidden, kFfn, kHeads, o);
      TransformerLayer::Context d;
      const Tensor z = many.forward(sequence ? part_of(x) : x, &d, call);
      const auto h = many.backward(sequence ? part_of(dy) : dy, d);
      expect_close(sequence ? gathered(z) : z, y, "y");
      expect_close(sequence ? gathered(h.d_hidden_states) : h.d_hidden_states,
                   g.d_hidden_states, "dx");
      expect_same_gradients(many, one, false);
    }
  }
}

// Chunks r and 2 n - 1 - r of the sequence, the first dimension.
Tensor chunks_of(const Tensor& whole) {
  const std::int64_t rows = whole.shape()[0] / (2 * ranks());
  Shape shape = whole.shape();
  shape[0] = 2 * rows;
  Tensor out = Tensor::empty(whole.dtype(), shape);
  for (const int half : {0, 1}) {
    const std::int64_t chunk = half ? 2 * ranks() - 1 - rank() : rank();
    Tensor to = row_view(out, half * rows, rows);
    const auto from = row_view(whole, chunk * rows, rows).view.bytes();
    std::memcpy(to.mutable_data(), from.data(), from.size());
  }
  return out;
}

TEST(TransformerLayer, OverPartsOfTheSequenceIsTheSingleProcess) {
  const std::int64_t s = 8 * ranks();
  const TransformerLayerCall call = with_rope(s);
  TransformerLayerOptions o = layers()[1];
  const Tensor x = normal(DType::kF32, {s, kBatch, kHidden}, 1);
  const Tensor dy = normal(DType::kF32, {s, kBatch, kHidden}, 2);
  manual_seed(3);
  TransformerLayer one(kHidden, kFfn, kHeads, o);
  TransformerLayer::Context c;
  const Tensor y = one.forward(x, &c, call);
  const auto g = one.backward(dy, c);
  for (const CpCommType comm :
       {CpCommType::kP2P, CpCommType::kAllGather, CpCommType::kA2A}) {
    SCOPED_TRACE(static_cast<int>(comm));
    manual_seed(3);
    TransformerLayer many(kHidden, kFfn, kHeads, o);
    many.set_context_parallel_group(group(), comm);
    TransformerLayerCall checkpoint = call;
    checkpoint.checkpoint_core_attention = comm == CpCommType::kP2P;
    TransformerLayer::Context d;
    expect_close(many.forward(chunks_of(x), &d, checkpoint), chunks_of(y), "y");
    const auto h = many.backward(chunks_of(dy), d);
    expect_close(h.d_hidden_states, chunks_of(g.d_hidden_states), "dx");
    expect_same_gradients(many, one, true);
  }
}

// Under fp8_dpa keys and values travel as codes, under a scale of each rank:
// the bits of attention over what they decode to.
TEST(TransformerLayer, QuantisedKeysTravelUnderFp8Attention) {
  DotProductAttention core(2, 32);
  core.set_context_parallel_group(group());
  const std::int64_t s = 8 * ranks();
  const auto heads = [&](std::uint64_t seed) {
    return chunks_of(normal(DType::kBF16, {s, 1, 2, 32}, seed));
  };
  const auto decoded = [](const Tensor& t) {
    CurrentScalingQuantizer quantizer({DType::kE4M3FN});
    return dequantize(quantizer.quantize(t), t.dtype());
  };
  const Tensor q = heads(1), k = heads(2), v = heads(3), dy = heads(4);
  if (ranks() == 1) GTEST_SKIP() << "nothing travels";
  DotProductAttention::Context context, plain;
  const Tensor expected = core.forward(q, decoded(k), decoded(v), &plain).out;
  const auto g = core.backward(dy, plain);
  recipe::Float8CurrentScaling recipe;
  recipe.fp8_dpa = true;
  Tensor out;
  {
    Autocast autocast{Recipe(recipe)};
    out = core.forward(q, k, v, &context).out;
  }
  const auto h = core.backward(dy, context);
  expect_same_bits(out, expected, "out");
  expect_same_bits(h.dq, g.dq, "dq");
  expect_same_bits(h.dk, g.dk, "dk");
  expect_same_bits(h.dv, g.dv, "dv");
}

TEST(LanguageModel, CutVocabularyIsTheSingleProcess) {
  const std::int64_t s = 3 * ranks(), vocab = 8 * ranks();
  Tensor ids = Tensor::empty(DType::kI64, {kBatch, s});
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    ids.mutable_data<std::int64_t>()[i] = (5 * i) % vocab;
  const Tensor d_logits = normal(DType::kF32, {s, kBatch, vocab}, 2);
  TokenEmbeddingOptions words{.max_sequence_length = s,
                              .init_method = normal_init(1)};
  manual_seed(3);
  TokenEmbedding one(vocab, kHidden, words);
  LmHeadOptions head;
  head.shared_weight = &one.word_weight();
  LmHead one_head(kHidden, vocab, head);
  TokenEmbedding::Context a;
  LmHead::Context b;
  const Tensor x = one.forward(ids, &a);
  const Tensor y = one_head.forward(x, &b);
  one.backward(one_head.backward(d_logits, b), a);
  for (const bool sequence : {false, true}) {
    SCOPED_TRACE(sequence ? "sequence parallel" : "tensor parallel");
    words.tp = head.tp = {group(), sequence};
    manual_seed(3);
    TokenEmbedding many(vocab, kHidden, words);
    head.shared_weight = &many.word_weight();
    LmHead many_head(kHidden, vocab, head);
    TokenEmbedding::Context c;
    LmHead::Context d;
    const Tensor z = many.forward(ids, &c);
    expect_close(sequence ? gathered(z) : z, x, "embedded");
    expect_close(many_head.forward(z, &d), columns_of(y), "logits");
    many.backward(many_head.backward(columns_of(d_logits), d), c);
    expect_same_gradients(many, one, false);
    expect_same_gradients(many_head, one_head, false);
  }
}

}  // namespace
}  // namespace assay::te
