// LayerNormMLP cut across a group, against the same module in one process.
//
// Codes are the same where delayed scaling takes the group's maxima, and where
// nothing is quantised. y and what the norm gets back then differ by one
// reordered sum; the norm's backward passes that on, so gradients behind it are
// held by their norm.
#include "assay/te/modules/layernorm_mlp.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;
constexpr std::int64_t kHidden = 128;

LayerNormMLPOptions options_of(bool cut, bool sequence, Activation act) {
  LayerNormMLPOptions options;
  options.params_dtype = kBF16;
  options.activation = act;
  options.set_parallel_mode = cut;
  if (cut) options.tp = {group(), sequence};
  return options;
}

double distance(const Tensor& a, const Tensor& e) {
  EXPECT_EQ(a.shape(), e.shape());
  double difference = 0, size = 0;
  for (std::int64_t i = 0; i < e.numel(); ++i) {
    const double x = load_as_double(a.dtype(), a.view.data, i);
    const double y = load_as_double(e.dtype(), e.view.data, i);
    difference += (x - y) * (x - y);
    size += y * y;
  }
  return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

// Every result was rounded to bf16 (2^-9 in the mean square) in one process and
// in the group, each rank's part too.
constexpr double kRounded = 3 * 0x1p-9;

// Rows of a weight whose ranks have their part of each of `blocks`.
Tensor rows_of_rank(const Tensor& whole, int blocks) {
  const std::int64_t rows = whole.shape()[0] / blocks;
  const std::int64_t mine = rows / ranks();
  Shape shape = whole.shape();
  shape[0] = blocks * mine;
  Tensor out = Tensor::empty(whole.dtype(), shape);
  const auto bytes = static_cast<std::size_t>(
      out.view.bytes().size() / static_cast<std::size_t>(shape[0]));
  for (int b = 0; b < blocks; ++b)
    std::memcpy(out.mutable_data() + static_cast<std::size_t>(b * mine) * bytes,
                whole.view.data +
                    static_cast<std::size_t>(b * rows + rank() * mine) * bytes,
                static_cast<std::size_t>(mine) * bytes);
  return out;
}

struct Case {
  Activation activation;
  bool sequence, quantised;
};

void check(const Case& c) {
  const std::int64_t ffn = 64 * ranks(), rows = 16 * ranks();
  const int blocks = is_gated(c.activation) ? 2 : 1;
  manual_seed(5);
  LayerNormMLP whole(kHidden, ffn, options_of(false, false, c.activation));
  manual_seed(5);
  LayerNormMLP cut(kHidden, ffn, options_of(true, c.sequence, c.activation));
  expect_same_bits(*cut.fc1_weight().value,
                   rows_of_rank(*whole.fc1_weight().value, blocks), "fc1");
  expect_same_bits(*cut.fc2_weight().value,
                   columns_of(*whole.fc2_weight().value), "fc2");
  recipe::DelayedScaling delayed;
  delayed.amax_history_len = 4;
  const auto scope = [&](std::shared_ptr<AmaxReduction> amax) {
    return AutocastOptions{.enabled = c.quantised,
                           .recipe = delayed,
                           .amax_reduction = std::move(amax)};
  };
  for (int step = 0; step < 2; ++step) {
    whole.zero_grad();
    cut.zero_grad();
    const Tensor x = normal(kBF16, {rows, kHidden}, 10 + step, 1);
    const Tensor dy = normal(kBF16, {rows, kHidden}, 20 + step, 0.25f);
    LayerNormMLP::Context a, b;
    Tensor y, z;
    {
      Autocast autocast(scope(nullptr));
      y = whole.forward(x, &a).output;
    }
    {
      Autocast autocast(scope(group_amax_reduction(group())));
      z = cut.forward(c.sequence ? part_of(x) : x, &b).output;
    }
    const Tensor dx = whole.backward(dy, a);
    const Tensor dz = cut.backward(c.sequence ? part_of(dy) : dy, b);
    EXPECT_LT(distance(c.sequence ? gathered(z) : z, y), kRounded);
    EXPECT_LT(distance(c.sequence ? gathered(dz) : dz, dx), kRounded);
    // Sums over the rows, of the same numbers: no bit differs.
    expect_same_bits(*cut.fc2_weight().grad,
                     columns_of(*whole.fc2_weight().grad), "fc2 dw");
    expect_same_bits(*cut.fc1_weight().grad,
                     rows_of_rank(*whole.fc1_weight().grad, blocks), "fc1 dw");
    expect_same_bits(*cut.fc1_bias()->grad,
                     rows_of_rank(*whole.fc1_bias()->grad, blocks), "fc1 db");
    // Of this rank's rows where the sequence is cut.
    for (const char* name :
         {"layer_norm_weight", "layer_norm_bias", "fc2_bias"}) {
      const Parameter& p = cut.parameter(name);
      EXPECT_EQ(p.sequence_parallel, c.sequence) << name;
      const Tensor sum =
          c.sequence ? all_reduce_sum(*p.grad, *group()) : *p.grad;
      EXPECT_LT(distance(sum, *whole.parameter(name).grad), kRounded) << name;
    }
    const auto s = cut.extra_state(), t = whole.extra_state();
    ASSERT_EQ(s.size(), t.size());
    for (std::size_t i = 0; i < s.size(); ++i)
      expect_same_bits(s[i].tensor, t[i].tensor, t[i].name);
  }
}

TEST(LayerNormMlpTensorParallel, IsTheSingleProcess) {
  for (const Activation act : {Activation::kGelu, Activation::kSwiglu}) {
    for (const bool sequence : {false, true}) {
      for (const bool quantised : {false, true}) {
        SCOPED_TRACE(std::string(activation_name(act)) +
                     (sequence ? " sequence" : "") +
                     (quantised ? " quantised" : ""));
        check({act, sequence, quantised});
      }
    }
  }
}

}  // namespace
}  // namespace assay::te
