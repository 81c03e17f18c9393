#include "assay/te/modules/embedding.h"

#include "assay/te/modules/lm_head.h"
#include "assay/te/modules/rotary.h"
#include "assay/te/ops/gemm.h"
#include "tests/te/modules/module_checks.h"

namespace assay::te {
namespace {

Tensor ids(Shape shape, const std::vector<double>& values) {
  return filled(DType::kI64, std::move(shape), values);
}

// Word w is [10 w, 10 w + 1], position p [p / 2, p].
void number(TokenEmbedding& m) {
  std::vector<double> words, positions;
  for (int w = 0; w < 4; ++w) words.insert(words.end(), {10. * w, 10. * w + 1});
  for (int p = 0; p < 3; ++p)
    positions.insert(positions.end(), {p / 2., 1. * p});
  m.load_state_dict(std::vector<NamedTensor>{
      {"word_embeddings.weight", filled(DType::kF32, {4, 2}, words)},
      {"position_embeddings.weight", filled(DType::kF32, {3, 2}, positions)}});
}

TEST(TokenEmbedding, AddsWordsAndPositions) {
  TokenEmbedding m(4, 2, {.max_sequence_length = 3});
  number(m);
  // Two sequences of three tokens; the result is [s, b, h].
  const Tensor tokens = ids({2, 3}, {1, 0, 3, 2, 1, 1});
  TokenEmbedding::Context context;
  const Tensor y = m.forward(tokens, &context);
  EXPECT_EQ(y.shape(), (Shape{3, 2, 2}));
  const std::vector<double> expected = {10,   11, 20, 21, 0.5, 2,
                                        10.5, 12, 31, 33, 11,  13};
  for (int i = 0; i < 12; ++i) EXPECT_EQ(at(y, i), expected[i]) << i;
  // dy counts 1 ... 12: word 1 is at (0, 0), (1, 1), (2, 1).
  std::vector<double> counted;
  for (int i = 1; i <= 12; ++i) counted.push_back(i);
  m.backward(filled(DType::kF32, {3, 2, 2}, counted), context);
  const std::vector<double> words = {5, 6, 1 + 7 + 11, 2 + 8 + 12, 3, 4, 9, 10};
  const std::vector<double> positions = {4, 6, 12, 14, 20, 22};
  const auto p = m.parameters();
  EXPECT_EQ(p[0].name, "word_embeddings.weight");
  EXPECT_EQ(p[1].name, "position_embeddings.weight");
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(at(*p[0].parameter->grad, i), words[i]) << i;
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(at(*p[1].parameter->grad, i), positions[i]) << i;
}

TEST(TokenEmbedding, TakesPositionsAndLayouts) {
  TokenEmbedding m(4, 2, {.max_sequence_length = 3, .format = QkvFormat::kThd});
  number(m);
  const Tensor y = m.forward(ids({3}, {1, 1, 2}), nullptr, ids({3}, {2, 0, 1}));
  const std::vector<double> expected = {11, 13, 10, 11, 20.5, 22};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(at(y, i), expected[i]) << i;
  TokenEmbedding bshd(4, 2,
                      {.max_sequence_length = 3, .format = QkvFormat::kBshd});
  number(bshd);
  const Tensor z = bshd.forward(ids({1, 2}, {3, 2}));
  EXPECT_EQ(z.shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(at(z, 0), 30);
  EXPECT_EQ(at(z, 3), 22);
  EXPECT_EQ(bshd.forward(ids({1, 0}, {})).shape(), (Shape{1, 0, 2}));
}

TEST(TokenEmbedding, AccumulatesIntoMainGrad) {
  TokenEmbedding m(
      4, 2, {.params_dtype = DType::kBF16, .fuse_wgrad_accumulation = true});
  m.word_weight().main_grad =
      filled(DType::kF32, {4, 2}, {1, 1, 1, 1, 1, 1, 1, 1});
  TokenEmbedding::Context context;
  m.forward(ids({1, 1}, {2}), &context);
  m.backward(filled(DType::kBF16, {1, 1, 2}, {0.25, 2}), context);
  EXPECT_FALSE(m.word_weight().grad);
  EXPECT_TRUE(m.word_weight().grad_added_to_main_grad);
  EXPECT_EQ(at(*m.word_weight().main_grad, 4), 1.25);
  EXPECT_EQ(at(*m.word_weight().main_grad, 5), 3);
  EXPECT_EQ(at(*m.word_weight().main_grad, 3), 1);
}

TEST(TokenEmbedding, F43_BackwardDropsWhatForwardDropped) {
  TokenEmbedding m(1, 64,
                   {.embedding_dropout = 0.5, .init_method = constant_init(1)});
  TokenEmbedding::Context context;
  const Tensor y = m.forward(ids({1, 1}, {0}), &context);
  Tensor one = Tensor::empty(DType::kF32, {1, 1, 64});
  for (int i = 0; i < 64; ++i) one.mutable_data<float>()[i] = 1;
  m.backward(one, context);
  int kept = 0;
  for (int i = 0; i < 64; ++i) {
    EXPECT_TRUE(at(y, i) == 0 || at(y, i) == 2);
    EXPECT_EQ(at(y, i), at(*m.word_weight().grad, i));
    kept += at(y, i) != 0;
  }
  EXPECT_GT(kept, 16);
  EXPECT_LT(kept, 48);
  EXPECT_EQ(at(m.forward(ids({1, 1}, {0})), 0), 1);
}

TEST(TokenEmbedding, F40_RefusesIdsOutOfRange) {
  TokenEmbedding m(5, 3, {.max_sequence_length = 2});
  for (const double id : {5., -1.}) {
    const std::string message = message_of([&] {
      m.forward(ids({1, 1}, {id}));
    });
    EXPECT_NE(message.find(std::to_string(static_cast<int>(id))),
              std::string::npos)
        << message;
  }
  EXPECT_NE(message_of([&] { m.forward(ids({1, 3}, {0, 0, 0})); }), "no error");
  EXPECT_EQ(message_of([] { TokenEmbedding(0, 3); }),
            "TokenEmbedding: vocab_size: 0, expected a positive size");
  TokenEmbedding::Context context;
  EXPECT_EQ(message_of([&] {
              m.backward(Tensor::zeros(DType::kF32, {1, 1, 3}), context);
            }),
            "TokenEmbedding: context: not of a forward pass, or used up, "
            "expected that of one");
}

LmHeadOptions head(DType dtype, Device device = Device::kCpu) {
  LmHeadOptions o;
  o.params_dtype = dtype;
  o.device = device;
  return o;
}

TEST(LmHead, IsANormAndAProductInHighPrecision) {
  LmHead m(64, 32, head(DType::kBF16));
  const Tensor x = normal_tensor(DType::kBF16, {32, 1, 64}, 1);
  Tensor y;
  {
    Autocast autocast{recipe::MXFP8BlockScaling{}};  // has no effect
    y = m.forward(x);
  }
  EXPECT_TRUE(same_bits(y, m.forward(x)));
  LayerNorm norm(64, {.params_dtype = DType::kBF16});
  EXPECT_TRUE(same_bits(y, gemm_fprop(norm.forward(x), *m.weight().value).d));
  LmHeadOptions o = head(DType::kBF16);
  o.fp32_logits = true;
  LmHead wide(64, 32, o);
  copy_parameters(m, wide);
  const Tensor z = wide.forward(x);
  EXPECT_EQ(z.dtype(), DType::kF32);
  for (std::int64_t i = 0; i < y.numel(); ++i)
    EXPECT_NEAR(at(z, i), at(y, i), std::abs(at(z, i)) * 0x1p-8);
}

TEST(LmHead, AgreesWithTheReference) {
  for (const auto& [dtype, budget] :
       {std::pair{DType::kF32, 2e-6}, std::pair{DType::kBF16, 0x1p-8}}) {
    for (const bool fp32_logits : {false, true}) {
      LmHeadOptions o = head(dtype);
      o.fp32_logits = fp32_logits;
      LmHead fast(64, 40, o);
      o.device = Device::kReference;
      LmHead slow(64, 40, o);
      copy_parameters(fast, slow);
      const DType logits = fp32_logits ? DType::kF32 : dtype;
      const Tensor x = normal_tensor(dtype, {7, 2, 64}, 1);
      const Tensor dy = normal_tensor(logits, {7, 2, 40}, 2);
      LmHead::Context a, b;
      EXPECT_LT(
          distance(fast.forward(x, &a), slow.forward(on_reference(x), &b)),
          budget);
      EXPECT_LT(
          distance(fast.backward(dy, a), slow.backward(on_reference(dy), b)),
          budget);
      const auto p = fast.parameters(), q = slow.parameters();
      ASSERT_EQ(p.size(), 3u);
      EXPECT_EQ(p[0].name, "final_layernorm.weight");
      EXPECT_EQ(p[2].name, "output_layer.weight");
      for (std::size_t i = 0; i < p.size(); ++i)
        EXPECT_LT(distance(*p[i].parameter->grad, *q[i].parameter->grad),
                  budget)
            << p[i].name;
    }
  }
}

// A tied weight takes the gradients of both of its uses.
TEST(LmHead, SharesTheWeightOfTheEmbedding) {
  TokenEmbedding embedding(3, 2);
  LmHeadOptions o;
  o.final_layernorm = false;
  o.shared_weight = &embedding.word_weight();
  LmHead m(2, 3, o);
  EXPECT_TRUE(m.state_dict().empty());
  embedding.load_state_dict(std::vector<NamedTensor>{
      {"word_embeddings.weight",
       filled(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6})}});
  TokenEmbedding::Context words;
  LmHead::Context logits;
  const Tensor y =
      m.forward(embedding.forward(ids({1, 1}, {1}), &words), &logits);
  const std::vector<double> expected = {11, 25, 39};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(at(y, i), expected[i]) << i;
  const Tensor dx =
      m.backward(filled(DType::kF32, {1, 1, 3}, {1, 0, 2}), logits);
  EXPECT_EQ(at(dx, 0), 11);
  EXPECT_EQ(at(dx, 1), 14);
  embedding.backward(dx, words);
  const std::vector<double> grad = {3, 4, 11, 14, 6, 8};
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(at(*embedding.word_weight().grad, i), grad[i]) << i;
}

TEST(LmHead, ZeroRowsAndErrors) {
  LmHead m(8, 4);
  LmHead::Context context;
  EXPECT_EQ(m.forward(Tensor::zeros(DType::kF32, {0, 8}), &context).shape(),
            (Shape{0, 4}));
  EXPECT_EQ(m.backward(Tensor::zeros(DType::kF32, {0, 4}), context).shape(),
            (Shape{0, 8}));
  EXPECT_EQ(at(*m.weight().grad, 0), 0);
  EXPECT_EQ(message_of([&] {
              m.backward(Tensor::zeros(DType::kF32, {0, 4}), context);
            }),
            "LmHead: context: not of a forward pass, or used up, expected that "
            "of one");
  EXPECT_EQ(message_of([&] {
              m.forward(Tensor::zeros(DType::kF32, {2, 7}));
            }),
            "LmHead: input: shape [2, 7], expected [..., 8]");
  TokenEmbedding embedding(3, 8);
  LmHeadOptions o;
  o.shared_weight = &embedding.word_weight();
  EXPECT_EQ(message_of([&] { LmHead(8, 4, o); }),
            "LmHead: shared_weight: shape [3, 8], expected [4, 8]");
  m.forward(Tensor::zeros(DType::kF32, {2, 8}), &context);
  EXPECT_EQ(message_of([&] {
              m.backward(Tensor::zeros(DType::kF32, {3, 4}), context);
            }),
            "LmHead: grad_output: shape [3, 4], expected [2, 4]");
}

// 10000^(-2 i / 4): 1 and 0.01.
TEST(RotaryPositionEmbedding, GivesTheAngles) {
  RotaryPositionEmbedding m(8, {.rotary_percent = 0.5});
  const Tensor f = m.forward(3, 1);
  EXPECT_EQ(f.shape(), (Shape{3, 1, 1, 4}));
  for (int p = 0; p < 3; ++p) {
    EXPECT_EQ(at(f, 4 * p), p + 1);
    EXPECT_NEAR(at(f, 4 * p + 1), 0.01 * (p + 1), 1e-8);
    EXPECT_EQ(at(f, 4 * p + 2), p + 1);
  }
  EXPECT_EQ(m.forward(3, 1).view.data, f.view.data);
  EXPECT_EQ(at(m.forward(3), 0), 0);
  EXPECT_TRUE(m.state_dict().empty());
  RotaryPositionEmbedding pairs(4, {.interleaved = true});
  EXPECT_EQ(at(pairs.forward(2), 5), 1);
  RotaryPositionEmbedding fresh(4);
  EXPECT_EQ(message_of([&] { fresh.forward(-1); }),
            "RotaryPositionEmbedding: max_seq_len: -1, expected 0 or more");
}

}  // namespace
}  // namespace assay::te
