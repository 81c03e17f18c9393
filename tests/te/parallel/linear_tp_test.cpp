// Linear modules cut across a group, against the same modules in one process.
//
// Codes are the same in both: every shard holds one element of the whole
// tensor's amax, for a shard of a per-tensor format has its own (NVTE too), and
// blocks end where ranks do. What is left is one reordered sum where the sum
// runs over ranks, and nothing where it does not.
#include "assay/te/modules/linear.h"
#include "assay/te/ops/transpose.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;
constexpr std::int64_t kCut = 128, kWhole = 128;
constexpr unsigned kWeightSeed = 7;
constexpr float kWeightSigma = 0.0625f;

// Standard normal, and 8 in every rank's slice of `dim`.
Tensor planted(Shape shape, int dim, unsigned seed, float sigma) {
  Tensor t = normal(kBF16, shape, seed, sigma);
  for (std::int64_t r = 0; r < ranks(); ++r) {
    const std::int64_t at =
        dim == 0 ? r * shape[0] / ranks() * shape[1] : r * shape[1] / ranks();
    store_from_double(kBF16, 8 * sigma, t.mutable_data(), at);
  }
  return t;
}

struct NamedRecipe {
  std::string name;
  std::optional<Recipe> recipe;  // none: no Autocast
};

std::vector<NamedRecipe> recipes() {
  recipe::DelayedScaling delayed;
  delayed.amax_history_len = 4;
  // The transform's amax and stochastic bits depend on where a rank begins.
  recipe::NVFP4BlockScaling nvfp4;
  nvfp4.disable_rht = nvfp4.disable_stochastic_rounding = true;
  return {{"bf16", std::nullopt},
          {"delayed", delayed},
          {"current", recipe::Float8CurrentScaling{}},
          {"block", recipe::Float8BlockScaling{}},
          {"mxfp8", recipe::MXFP8BlockScaling{}},
          {"nvfp4", nvfp4}};
}

LinearOptions options_of(ParallelMode mode, bool sequence_parallel) {
  LinearOptions options;
  options.params_dtype = kBF16;
  options.parallel_mode = mode;
  if (mode != ParallelMode::kNone) options.tp = {group(), sequence_parallel};
  const int dim = mode == ParallelMode::kRow ? 1 : 0;
  options.init_method = [dim](Tensor& whole, std::uint64_t) {
    const Tensor w = planted(whole.shape(), dim, kWeightSeed, kWeightSigma);
    std::memcpy(whole.mutable_data(), w.view.data, w.view.bytes().size());
  };
  return options;
}

void fill_bias(Linear& layer, bool cut) {
  const std::int64_t n = layer.out_features();
  const Tensor whole = normal(kBF16, {n}, 9);
  const Tensor b = cut ? part_of(whole) : whole;
  std::memcpy(layer.bias()->value->mutable_data(), b.view.data,
              b.view.bytes().size());
}

Tensor copy_of(const Tensor& t) {
  Tensor copy = Tensor::empty(t.dtype(), t.shape());
  std::memcpy(copy.mutable_data(), t.view.data, t.view.bytes().size());
  return copy;
}

struct Step {
  Tensor y, dx, dw, db;
};

Step run(Linear& layer, const NamedRecipe& r, const Tensor& x, const Tensor& dy,
         std::shared_ptr<AmaxReduction> group_amax = {}) {
  layer.zero_grad();
  Linear::Context context;
  Step step;
  if (r.recipe) {
    Autocast autocast(AutocastOptions{.recipe = *r.recipe,
                                      .amax_reduction = std::move(group_amax)});
    step.y = layer.forward(x, &context);
  } else {
    step.y = layer.forward(x, &context);
  }
  step.dx = layer.backward(dy, context);
  step.dw = *layer.weight().grad;
  step.db = *layer.bias()->grad;
  return step;
}

// |a| |b|^T of what the codes stand for: at most twice the tensors' own.
Tensor terms(const Tensor& a, const Tensor& b) {
  Tensor t = magnitude(a, b);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.mutable_data<double>()[i] *= 2;
  return t;
}

// Rows of all ranks: some that can travel as codes under every recipe, and
// some whose ranks end within a block of MXFP8.
std::vector<std::int64_t> row_counts() { return {128 * ranks(), 16 * ranks()}; }

// A second one has the scales of the first.
int steps(const NamedRecipe& r) { return r.name == "delayed" ? 2 : 1; }

bool runs(const NamedRecipe& r, std::int64_t rows) {
  return r.name != "mxfp8" || rows % 32 == 0;
}

TEST(LinearTensorParallel, ColumnIsTheSingleProcess) {
  const std::int64_t out = kCut * ranks();
  const Tensor w = planted({out, kWhole}, 0, kWeightSeed, kWeightSigma);
  for (const std::int64_t rows : row_counts()) {
    const Tensor x = planted({rows, kWhole}, 0, 1, 1);
    const Tensor dy = planted({rows, out}, 1, 2, 0.125f);
    const Tensor dx_terms = terms(dy, transpose(w));
    for (const bool sequence : {false, true}) {
      for (const NamedRecipe& r : recipes()) {
        if (!runs(r, rows)) continue;
        SCOPED_TRACE(r.name + (sequence ? " sequence " : " ") +
                     std::to_string(rows));
        Linear whole(kWhole, out, options_of(ParallelMode::kNone, false));
        Linear cut(kWhole, out, options_of(ParallelMode::kColumn, sequence));
        fill_bias(whole, false);
        fill_bias(cut, true);
        for (int i = 0; i < steps(r); ++i) {
          const Step expected = run(whole, r, x, dy);
          const Step actual =
              run(cut, r, sequence ? part_of(x) : x, columns_of(dy));
          expect_same_bits(actual.y, columns_of(expected.y), "y");
          expect_same_bits(actual.dw, part_of(expected.dw), "dw");
          expect_same_bits(actual.db, part_of(expected.db), "db");
          expect_within_reordered_sum(
              sequence ? gathered(actual.dx) : actual.dx, expected.dx, dx_terms,
              out, "dx");
        }
      }
    }
  }
}

// sum of |dy| over rows, and so on: the terms of sums that ranks share.
Tensor with_bias_terms(Tensor y_terms, const Linear& layer, const Tensor& b) {
  for (std::int64_t i = 0; i < y_terms.numel(); ++i)
    y_terms.mutable_data<double>()[i] +=
        std::fabs(load_as_double(kBF16, b.view.data, i % layer.out_features()));
  return y_terms;
}

Tensor column_terms(const Tensor& dy) {
  const std::int64_t rows = dy.shape()[0], columns = dy.shape()[1];
  Tensor sums = Tensor::zeros(DType::kF64, {columns});
  for (std::int64_t i = 0; i < rows * columns; ++i)
    sums.mutable_data<double>()[i % columns] +=
        std::fabs(load_as_double(kBF16, dy.view.data, i));
  return sums;
}

TEST(LinearTensorParallel, RowIsTheSingleProcess) {
  const std::int64_t in = kCut * ranks();
  const Tensor w = planted({kWhole, in}, 1, kWeightSeed, kWeightSigma);
  for (const std::int64_t rows : row_counts()) {
    const Tensor x = planted({rows, in}, 1, 1, 1);
    const Tensor dy = planted({rows, kWhole}, 0, 2, 0.125f);
    const Tensor y_terms = terms(x, w);
    for (const bool sequence : {false, true}) {
      for (const NamedRecipe& r : recipes()) {
        if (!runs(r, rows)) continue;
        SCOPED_TRACE(r.name + (sequence ? " sequence " : " ") +
                     std::to_string(rows));
        LinearOptions one = options_of(ParallelMode::kNone, false);
        one.init_method = options_of(ParallelMode::kRow, false).init_method;
        Linear whole(in, kWhole, one);
        Linear cut(in, kWhole, options_of(ParallelMode::kRow, sequence));
        fill_bias(whole, false);
        fill_bias(cut, false);
        // The bias comes after the sum, rounded once more.
        const Tensor sizes =
            with_bias_terms(copy_of(y_terms), whole, *whole.bias()->value);
        for (int i = 0; i < steps(r); ++i) {
          const Step expected = run(whole, r, x, dy);
          const Step actual =
              run(cut, r, columns_of(x), sequence ? part_of(dy) : dy);
          expect_within_reordered_sum(sequence ? gathered(actual.y) : actual.y,
                                      expected.y, sizes, in + 1, "y");
          expect_same_bits(actual.dx, columns_of(expected.dx), "dx");
          expect_same_bits(actual.dw, columns_of(expected.dw), "dw");
          // Of this rank's rows with sequence parallelism: the caller sums, as
          // the parameter says.
          EXPECT_EQ(cut.bias()->sequence_parallel, sequence);
          if (sequence) {
            expect_within_reordered_sum(all_reduce_sum(actual.db, *group()),
                                        expected.db, column_terms(dy), rows,
                                        "db");
          } else {
            expect_same_bits(actual.db, expected.db, "db");
          }
        }
      }
    }
  }
}

// A shard of a per-tensor format has its own amax; a sequence has one.
TEST(LinearTensorParallel, ScalesAreThoseOfTheGroupWhereTheSequenceIsCut) {
  const std::int64_t rows = 16 * ranks(), out = kCut * ranks();
  Tensor x = normal(kBF16, {rows, kWhole}, 1);
  store_from_double(kBF16, 64, x.mutable_data(), 3);  // rank 0's rows
  const NamedRecipe r{"current", recipe::Float8CurrentScaling{}};
  Linear whole(kWhole, out, options_of(ParallelMode::kNone, false));
  Linear cut(kWhole, out, options_of(ParallelMode::kColumn, true));
  const Tensor dy = planted({rows, out}, 1, 2, 0.125f);
  expect_same_bits(run(cut, r, part_of(x), columns_of(dy)).y,
                   columns_of(run(whole, r, x, dy).y), "y");
}

// Delayed scaling with maxima of the group: the pair of layers, whose hidden
// values have no planted maxima, keeps the histories of one process.
TEST(LinearTensorParallel, DelayedMaximaOfTheGroupAreThoseOfOneProcess) {
  recipe::DelayedScaling delayed;
  delayed.amax_history_len = 4;
  const NamedRecipe r{"delayed", delayed};
  const std::int64_t ffn = kCut * ranks(), rows = 16 * ranks();
  const auto amax = group_amax_reduction(group());
  for (const bool sequence : {false, true}) {
    Linear up(kWhole, ffn, options_of(ParallelMode::kNone, false));
    LinearOptions one = options_of(ParallelMode::kNone, false);
    one.init_method = options_of(ParallelMode::kRow, false).init_method;
    Linear down(ffn, kWhole, one);
    Linear cut_up(kWhole, ffn, options_of(ParallelMode::kColumn, sequence));
    Linear cut_down(ffn, kWhole, options_of(ParallelMode::kRow, sequence));
    for (int step = 0; step < 3; ++step) {
      const Tensor x = normal(kBF16, {rows, kWhole}, 20 + step, 2.0f + step);
      const Tensor dy = normal(kBF16, {rows, kWhole}, 30 + step, 0.25f);
      Linear::Context a, b, c, d;
      Tensor y, z;
      {
        Autocast autocast{delayed};
        y = down.forward(up.forward(x, &a), &b);
      }
      {
        Autocast autocast(
            AutocastOptions{.recipe = delayed, .amax_reduction = amax});
        z = cut_down.forward(cut_up.forward(sequence ? part_of(x) : x, &c), &d);
      }
      expect_within_reordered_sum(sequence ? gathered(z) : z, y,
                                  terms(up.forward(x), *down.weight().value),
                                  ffn, "y");
      const Tensor dh = down.backward(dy, b);
      const Tensor dh_cut = cut_down.backward(sequence ? part_of(dy) : dy, d);
      expect_same_bits(dh_cut, columns_of(dh), "dh");
      up.backward(dh, a);
      cut_up.backward(dh_cut, c);
      const auto same_state = [&](Linear& cut, Linear& whole) {
        const auto p = cut.extra_state(), q = whole.extra_state();
        ASSERT_EQ(p.size(), q.size());
        for (std::size_t i = 0; i < p.size(); ++i)
          expect_same_bits(p[i].tensor, q[i].tensor, q[i].name);
      };
      same_state(cut_up, up);
      same_state(cut_down, down);
    }
  }
}

TEST(LinearTensorParallel, ShardsAndMarksAreThoseOfMegatron) {
  const std::int64_t n = kCut * ranks();
  Linear column(kWhole, n, options_of(ParallelMode::kColumn, true));
  EXPECT_EQ(column.weight().shape, (Shape{kCut, kWhole}));
  EXPECT_TRUE(column.weight().tensor_model_parallel);
  EXPECT_EQ(column.weight().partition_dim, 0);
  EXPECT_TRUE(column.bias()->tensor_model_parallel);
  EXPECT_FALSE(column.bias()->sequence_parallel);
  Linear row(n, kWhole, options_of(ParallelMode::kRow, true));
  EXPECT_EQ(row.weight().shape, (Shape{kWhole, kCut}));
  EXPECT_EQ(row.weight().partition_dim, 1);
  EXPECT_EQ(row.bias()->shape, (Shape{kWhole}));
  EXPECT_FALSE(row.bias()->tensor_model_parallel);
  EXPECT_TRUE(row.bias()->sequence_parallel);
  EXPECT_EQ(row.weight().partition_stride, 1);
}

TEST(LinearTensorParallel, SizesThatCannotBeCutAreRefused) {
  if (ranks() == 1) GTEST_SKIP();
  LinearOptions options = options_of(ParallelMode::kColumn, false);
  options.init_method = {};
  try {
    Linear layer(kWhole, kCut * ranks() + 1, options);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "Linear: out_features: " + std::to_string(kCut * ranks() + 1) +
                  ", expected a multiple of tp_size " +
                  std::to_string(ranks()));
  }
}

}  // namespace
}  // namespace assay::te
