#include "assay/te/modules/dot_product_attention.h"

#include <limits>

#include "assay/base/parallel.h"
#include "assay/te/ops/attention.h"
#include "tests/te/modules/attention_test.h"

namespace assay::te {
namespace {

using Options = DotProductAttentionOptions;

// q = 0: every query takes the mean of the values of its group of keys. Value
// heads 10 and 20: [10, 10, 20, 20], not [10, 20, 10, 20].
TEST(DotProductAttention, F35_QueryHeadsFollowTheirGroupInOrder) {
  DotProductAttention module(4, 2, {.num_gqa_groups = 2});
  const Tensor q = Tensor::zeros(DType::kF32, {1, 1, 4, 2});
  const Tensor k = Tensor::zeros(DType::kF32, {1, 1, 2, 2});
  const Tensor v = filled(DType::kF32, {1, 1, 2, 2}, {10, 10, 20, 20});
  const Tensor out = module.forward(q, k, v).out;
  EXPECT_EQ(out.shape(), (Shape{1, 1, 8}));
  const std::vector<double> expected = {10, 10, 10, 10, 20, 20, 20, 20};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(at(out, i), expected[i]) << i;
}

TEST(DotProductAttention, F37_NanInAnExcludedKeyStaysThere) {
  DotProductAttention module(2, 16);
  Qkv x = inputs(DType::kF32, 5, 1, 2, 2, 16);
  const Tensor clean = module.forward(x.q, x.k, x.v).out;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int i = 0; i < 2 * 16; ++i) {  // the last key: seen by the last query
    store_from_double(DType::kF32, nan, x.k.mutable_data(), 4 * 32 + i);
    store_from_double(DType::kF32, nan, x.v.mutable_data(), 4 * 32 + i);
  }
  const Tensor out = module.forward(x.q, x.k, x.v).out;
  for (int i = 0; i < 4 * 32; ++i)
    EXPECT_NEAR(at(out, i), at(clean, i), 1e-6) << i;
  for (int i = 4 * 32; i < 5 * 32; ++i) EXPECT_TRUE(std::isnan(at(out, i)));
}

TEST(DotProductAttention, F45_LengthsBesideTilesAreFinite) {
  DotProductAttention module(1, 32);
  for (const std::int64_t s : {255, 256, 257}) {
    const Qkv x = inputs(DType::kBF16, s, 1, 1, 1, 32);
    const AttentionStep step =
        run(module, x, normal_tensor(DType::kBF16, {s, 1, 32}, 4));
    for (const Tensor* t : {&step.out, &step.grads.dq, &step.grads.dk})
      for (std::int64_t i = 0; i < t->numel(); ++i)
        ASSERT_TRUE(std::isfinite(at(*t, i))) << s << " " << i;
  }
}

// x = 0 and v = 1: the output is the kept share of the row times 1 / (1 - p),
// and dv a column's. Forward and backward must have dropped the same pairs:
// both sums are then over one mask.
TEST(DotProductAttention, F43_BackwardDropsWhatForwardDropped) {
  DotProductAttention module(
      1, 1, {.attention_dropout = 0.5, .attn_mask_type = AttentionMask::kNone});
  const Tensor zero = Tensor::zeros(DType::kF32, {8, 1, 1, 1});
  // One key at a time is 1: its column of the dropped matrix comes out.
  for (const bool checkpoint : {false, true}) {
    manual_seed(5);
    const RandomStates before = random_states();
    std::vector<double> forward(64), backward(64);
    for (int j = 0; j < 8; ++j) {
      set_random_states(before);
      std::vector<double> one(8, 0.0);
      one[static_cast<std::size_t>(j)] = 1;
      const Tensor v = filled(DType::kF32, {8, 1, 1, 1}, one);
      DotProductAttention::Context context;
      AttentionCall call;
      call.checkpoint_core_attention = checkpoint;
      const Tensor out = module.forward(zero, zero, v, &context, call).out;
      next_dropout_state();  // what happens in between does not matter
      const auto grads =
          module.backward(filled(DType::kF32, {8, 1, 1}, one), context);
      for (int i = 0; i < 8; ++i) {
        forward[static_cast<std::size_t>(8 * i + j)] = at(out, i);
        backward[static_cast<std::size_t>(8 * j + i)] = at(grads.dv, i);
      }
    }
    int kept = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      EXPECT_TRUE(forward[i] == 0 || forward[i] == 0.25) << forward[i];
      EXPECT_EQ(forward[i], backward[i]) << i;
      kept += forward[i] != 0;
    }
    EXPECT_GT(kept, 16);
    EXPECT_LT(kept, 48);
  }
}

TEST(DotProductAttention, IsTheOperatorWithItsDefaults) {
  const Qkv x = inputs(DType::kBF16, 33, 2, 4, 2, 32);
  const Tensor d = normal_tensor(DType::kBF16, {33, 2, 4 * 32}, 4);
  DotProductAttention module(4, 32, {.num_gqa_groups = 2});
  const AttentionStep step = run(module, x, d);
  AttentionInputs in;
  in.q = x.q;
  in.k = x.k;
  in.v = x.v;
  const AttentionResult r = attention_forward(in, {});
  Tensor dr = d;
  dr.view.shape = {33, 2, 4, 32};
  const AttentionGradients g = attention_backward(dr, in, r.out, r.lse, {});
  Tensor out = r.out;
  out.view.shape = {33, 2, 4 * 32};
  EXPECT_TRUE(same_bits(step.out, out));
  EXPECT_TRUE(same_bits(step.grads.dq, g.dq));
  EXPECT_TRUE(same_bits(step.grads.dk, g.dk));
  EXPECT_TRUE(same_bits(step.grads.dv, g.dv));
}

// Budget of te/ops/attention.h: the roundoff of the tiles.
TEST(DotProductAttention, AgreesWithTheReference) {
  for (const auto& [dtype, budget] :
       {std::pair{DType::kF32, 2e-6}, std::pair{DType::kBF16, 0x1p-7}}) {
    for (const SoftmaxType type :
         {SoftmaxType::kVanilla, SoftmaxType::kOffByOne,
          SoftmaxType::kLearnable}) {
      Options options{.num_gqa_groups = 2, .softmax_type = type};
      DotProductAttention fast(4, 32, options);
      options.device = Device::kReference;
      DotProductAttention slow(4, 32, options);
      const Qkv x = inputs(dtype, 47, 2, 4, 2, 32);
      const Tensor d = normal_tensor(dtype, {47, 2, 128}, 4);
      const AttentionStep a = run(fast, x, d);
      const AttentionStep b = run(slow, on_reference(x), te::on_reference(d));
      EXPECT_LT(distance(a.out, b.out), budget);
      EXPECT_LT(distance(a.grads.dq, b.grads.dq), budget);
      EXPECT_LT(distance(a.grads.dk, b.grads.dk), budget);
      EXPECT_LT(distance(a.grads.dv, b.grads.dv), budget);
      ASSERT_EQ(fast.parameters().size(),
                type == SoftmaxType::kLearnable ? 1u : 0u);
      if (type != SoftmaxType::kLearnable) continue;
      EXPECT_EQ(fast.parameters()[0].name, "softmax_offset");
      EXPECT_LT(distance(*fast.parameter("softmax_offset").grad,
                         *slow.parameter("softmax_offset").grad),
                budget);
    }
  }
}

TEST(DotProductAttention, PaddingMaskStandsForItsCounts) {
  const Qkv x = inputs(DType::kF32, 6, 2, 2, 2, 8);
  DotProductAttention module(2, 8, {.attn_mask_type = AttentionMask::kPadding});
  AttentionCall by_mask, by_counts;
  by_mask.attention_mask =
      filled(DType::kU8, {2, 1, 1, 6}, {0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0});
  by_counts.cu_seqlens_q = filled(DType::kI32, {3}, {0, 4, 10});
  by_counts.cu_seqlens_kv = by_counts.cu_seqlens_q;
  const Tensor a = module.forward(x.q, x.k, x.v, nullptr, by_mask).out;
  const Tensor b = module.forward(x.q, x.k, x.v, nullptr, by_counts).out;
  EXPECT_TRUE(same_bits(a, b));
  for (int i = 4 * 2 * 16; i < 4 * 2 * 16 + 16; ++i) EXPECT_EQ(at(a, i), 0);
  AttentionCall holes = by_mask;
  holes.attention_mask =
      filled(DType::kU8, {2, 1, 1, 6}, {0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(message_of([&] { module.forward(x.q, x.k, x.v, nullptr, holes); }),
            "DotProductAttention: attention_mask: token 2 of sequence 0 valid "
            "behind excluded ones, expected valid tokens first");
}

// NVTE: without a top-left mask a window hangs on the bottom right diagonal.
TEST(DotProductAttention, WindowsHangOnTheBottomRightByDefault) {
  const Tensor q = Tensor::zeros(DType::kF32, {1, 1, 1, 1});
  const Tensor k = Tensor::zeros(DType::kF32, {4, 1, 1, 1});
  const Tensor v = filled(DType::kF32, {4, 1, 1, 1}, {1, 2, 4, 8});
  Options options{.attn_mask_type = AttentionMask::kNone,
                  .window_size = {1, 0}};
  DotProductAttention right(1, 1, options);
  EXPECT_EQ(at(right.forward(q, k, v).out, 0), 6);  // keys 2 and 3
  options.bottom_right_diagonal = false;
  DotProductAttention left(1, 1, options);
  EXPECT_EQ(at(left.forward(q, k, v).out, 0), 1);  // key 0
}

TEST(DotProductAttention, StepsOverACacheAreTheWholeForward) {
  const std::int64_t s = 9, b = 2;
  for (const QkvFormat format : {QkvFormat::kSbhd, QkvFormat::kBshd}) {
    Options options{.num_gqa_groups = 1,
                    .qkv_format = format,
                    .softmax_type = SoftmaxType::kLearnable};
    DotProductAttention module(2, 8, options);
    module.load_state_dict(std::vector<NamedTensor>{
        {"softmax_offset", filled(DType::kF32, {2}, {0.5, -1})}});
    const bool sbhd = format == QkvFormat::kSbhd;
    const auto part = [&](const Tensor& t, std::int64_t from, std::int64_t n) {
      Tensor cut = t;
      const std::size_t dim = sbhd ? 0 : 1;
      const std::int64_t row = t.shape()[2] * t.shape()[3];
      cut.view.strides = {t.shape()[1] * row, row, t.shape()[3], 1};
      cut.view.shape[dim] = n;
      cut.view.data += 4 * from * cut.view.strides[dim];
      return contiguous(cut);
    };
    const Shape q_shape = sbhd ? Shape{s, b, 2, 8} : Shape{b, s, 2, 8};
    const Shape k_shape = sbhd ? Shape{s, b, 1, 8} : Shape{b, s, 1, 8};
    const Tensor q = normal_tensor(DType::kF32, q_shape, 1);
    const Tensor k = normal_tensor(DType::kF32, k_shape, 2);
    const Tensor v = normal_tensor(DType::kF32, k_shape, 3);
    const Tensor whole = module.forward(q, k, v).out;
    KvCache cache({.max_batch = b,
                   .max_length = s,
                   .heads = 1,
                   .k_dim = 8,
                   .v_dim = 8,
                   .dtype = DType::kF32});
    AttentionCall call;
    call.inference_params = &cache;
    std::int64_t from = 0;
    for (const std::int64_t n : {5, 1, 3}) {
      cache.begin_step(std::vector<SequenceStep>{{7, n}, {8, n}});
      const Tensor out = module
                             .forward(part(q, from, n), part(k, from, n),
                                      part(v, from, n), nullptr, call)
                             .out;
      for (std::int64_t t = 0; t < n; ++t)
        for (std::int64_t i = 0; i < b; ++i)
          for (std::int64_t c = 0; c < 16; ++c) {
            const std::int64_t step = sbhd ? t * b + i : i * n + t;
            const std::int64_t all =
                sbhd ? (from + t) * b + i : i * s + from + t;
            EXPECT_NEAR(at(out, 16 * step + c), at(whole, 16 * all + c), 1e-6);
          }
      from += n;
    }
  }
}

TEST(DotProductAttention, DoesNotDependOnThreads) {
  const Qkv x = inputs(DType::kBF16, 65, 2, 2, 1, 32);
  const Tensor d = normal_tensor(DType::kBF16, {65, 2, 64}, 4);
  DotProductAttention module(2, 32, {.num_gqa_groups = 1});
  set_thread_count(1);
  const AttentionStep a = run(module, x, d);
  set_thread_count(4);
  const AttentionStep b = run(module, x, d);
  set_thread_count(0);
  EXPECT_TRUE(same_bits(a.out, b.out));
  EXPECT_TRUE(same_bits(a.grads.dk, b.grads.dk));
}

TEST(DotProductAttention, ZeroRowsAndMaxLogit) {
  DotProductAttention module(2, 8, {.return_max_logit = true});
  const Qkv none = inputs(DType::kBF16, 0, 2, 2, 2, 8);
  const AttentionStep step =
      run(module, none, Tensor::zeros(DType::kBF16, {0, 2, 16}));
  EXPECT_EQ(step.out.shape(), (Shape{0, 2, 16}));
  EXPECT_EQ(step.grads.dq.shape(), (Shape{0, 2, 2, 8}));
  const Tensor one = filled(DType::kF32, {1, 1, 2, 8},
                            {4, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0});
  const auto out = module.forward(one, one, one);
  EXPECT_NEAR(at(out.max_logit, 0), 16 / std::sqrt(8.0), 1e-6);
  EXPECT_NEAR(at(out.max_logit, 1), 64 / std::sqrt(8.0), 1e-5);
}

TEST(DotProductAttention, NamesWhatItCannotTake) {
  EXPECT_EQ(message_of([] {
              DotProductAttention(6, 8, {.num_gqa_groups = 4, .name = "core"});
            }),
            "core: num_gqa_groups: 4, expected a divisor of "
            "num_attention_heads, 6");
  DotProductAttention module(2, 8);
  const Qkv x = inputs(DType::kF32, 4, 1, 3, 3, 8);
  EXPECT_EQ(message_of([&] { module.forward(x.q, x.k, x.v); }),
            "DotProductAttention: query_layer: 3 heads of 8, expected 2 of 8");
  DotProductAttention::Context context;
  EXPECT_EQ(message_of([&] { module.backward(x.q, context); }),
            "DotProductAttention: context: not of a forward pass, or used up, "
            "expected that of one");
  recipe::NVFP4BlockScaling recipe;
  recipe.fp8_dpa = true;
  const Qkv y = inputs(DType::kF32, 4, 1, 2, 2, 8);
  EXPECT_EQ(message_of([&] {
              Autocast autocast{Recipe(recipe)};
              module.forward(y.q, y.k, y.v);
            }),
            "DotProductAttention: fp8_dpa: NVFP4BlockScaling, expected "
            "DelayedScaling, Float8CurrentScaling, MXFP8BlockScaling or "
            "Custom");
}

}  // namespace
}  // namespace assay::te
