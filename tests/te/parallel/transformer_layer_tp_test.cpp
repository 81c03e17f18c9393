// TransformerLayer under delayed scaling, cut across a group whose maxima it
// takes, against the same layer in one process.
//
// What is behind a sum over ranks, and so quantised from values that may differ
// by a rounding, is held by its norm.
#include "assay/te/modules/transformer_layer.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;
constexpr std::int64_t kHeadDim = 16;

TransformerLayerOptions options_of(bool cut, bool sequence) {
  TransformerLayerOptions options;
  options.params_dtype = kBF16;
  options.num_gqa_groups = ranks();
  options.hidden_dropout = options.attention_dropout = 0;
  options.set_parallel_mode = cut;
  if (cut) options.tp = {group(), sequence};
  return options;
}

double norm(const Tensor& t) {
  double sum = 0;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const double x = load_as_double(t.dtype(), t.view.data, i);
    sum += x * x;
  }
  return std::sqrt(sum);
}

double error(const Tensor& a, const Tensor& e) {
  EXPECT_EQ(a.shape(), e.shape());
  double sum = 0;
  for (std::int64_t i = 0; i < e.numel(); ++i) {
    const double d = load_as_double(a.dtype(), a.view.data, i) -
                     load_as_double(e.dtype(), e.view.data, i);
    sum += d * d;
  }
  return std::sqrt(sum);
}

// The whole gradient of a parameter, from every rank's.
Tensor whole_gradient(const Parameter& p, bool sequence) {
  Tensor g = *p.grad;
  if (p.sequence_parallel && sequence) g = all_reduce_sum(g, *group());
  if (!p.tensor_model_parallel || ranks() == 1) return g;
  return p.partition_dim == 1 ? all_gather_last_dim(g, *group())
                              : all_gather_first_dim(g, *group());
}

void check(bool sequence, double bound) {
  const std::int64_t hidden = 2 * kHeadDim * ranks(), ffn = 32 * ranks();
  const std::int64_t s = 8 * ranks(), b = 2;
  manual_seed(5);
  TransformerLayer whole(hidden, ffn, 2 * ranks(), options_of(false, false));
  manual_seed(5);
  TransformerLayer cut(hidden, ffn, 2 * ranks(), options_of(true, sequence));
  recipe::DelayedScaling delayed;
  delayed.amax_history_len = 4;
  const auto scope = [&](std::shared_ptr<AmaxReduction> amax) {
    return AutocastOptions{.recipe = delayed,
                           .amax_reduction = std::move(amax)};
  };
  for (int step = 0; step < 2; ++step) {
    whole.zero_grad();
    cut.zero_grad();
    const Tensor x = normal(kBF16, {s, b, hidden}, 10 + step, 1);
    const Tensor dy = normal(kBF16, {s, b, hidden}, 20 + step, 0.25f);
    TransformerLayer::Context p, q;
    Tensor y, z;
    {
      Autocast autocast(scope(nullptr));
      y = whole.forward(x, &p);
    }
    {
      Autocast autocast(scope(group_amax_reduction(group())));
      z = cut.forward(sequence ? part_of(x) : x, &q);
    }
    const Tensor dx = whole.backward(dy, p).d_hidden_states;
    const Tensor dz =
        cut.backward(sequence ? part_of(dy) : dy, q).d_hidden_states;
    EXPECT_LT(error(sequence ? gathered(z) : z, y), bound * norm(y));
    EXPECT_LT(error(sequence ? gathered(dz) : dz, dx), bound * norm(dx));
    const auto mine = cut.parameters(), all = whole.parameters();
    ASSERT_EQ(mine.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(mine[i].name, all[i].name);
      // Softmax does not feel a key bias: its gradient is rounding alone, to
      // be small beside that of the value bias, which comes next.
      const bool noise = all[i].name.ends_with("key_bias");
      const double size = norm(*all[i + noise].parameter->grad);
      EXPECT_LT(error(whole_gradient(*mine[i].parameter, sequence),
                      *all[i].parameter->grad),
                bound * size)
          << all[i].name;
    }
  }
}

// A value whose bf16 rounding differs may take the code beside, 2^-4 of it;
// few do.
TEST(TransformerLayerTensorParallel, DelayedScalingIsThatOfOneProcess) {
  for (const bool sequence : {false, true}) {
    SCOPED_TRACE(sequence ? "sequence" : "");
    check(sequence, 0x1p-4);
  }
}

}  // namespace
}  // namespace assay::te
