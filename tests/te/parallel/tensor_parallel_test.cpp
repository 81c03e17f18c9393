#include "assay/te/parallel/tensor_parallel.h"

#include <gmock/gmock.h>

#include "assay/te/ops/transpose.h"
#include "tests/te/parallel/linear_recipes.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kRowsOfARank = 128, kCut = 128, kWhole = 256;

// A linear layer with one of its dimensions cut: y [s, out], x [s, in].
struct Layer {
  Tensor x, w, dy;
  std::string name;
  Quantizer* quantize_x = nullptr;
  Quantizer* quantize_w = nullptr;
  Quantizer* quantize_dy = nullptr;

  Layer(DType dtype, std::int64_t in, std::int64_t out) {
    const std::int64_t s = kRowsOfARank * ranks();
    x = normal(dtype, {s, in}, 1);
    w = normal(dtype, {out, in}, 2, 0.5f);
    dy = normal(dtype, {s, out}, 3, 0.1f);
    name = std::string(traits(dtype).name);
  }
  void use(const LinearRecipe& recipe) {
    name = recipe.name;
    quantize_x = recipe.x.get();
    quantize_w = recipe.w.get();
    quantize_dy = recipe.dy.get();
  }
};

// For plain dtypes and every recipe.
template <typename Body>
void for_each_layer(std::int64_t in, std::int64_t out, const Body& body) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    body(Layer(dtype, in, out));
  for (const LinearRecipe& recipe : linear_recipes()) {
    Layer layer(DType::kBF16, in, out);
    layer.use(recipe);
    body(layer);
  }
}

// None of the overlaps, and all of them as far as they go together.
std::vector<std::pair<std::string, CommOverlap>> overlaps() {
  CommOverlap ring, pipeline, bulk;
  ring.ub_overlap_ag = ring.ub_overlap_rs = ring.ub_overlap_rs_dgrad = true;
  pipeline = ring;
  pipeline.rs_method = OverlapMethod::kPipeline;
  pipeline.num_splits = 2;
  bulk.ub_bulk_dgrad = bulk.ub_bulk_wgrad = true;
  return {{"none", {}}, {"ring", ring}, {"pipeline", pipeline}, {"bulk", bulk}};
}

// A pipeline cuts what 128-blocks of the columnwise direction hold together
// nowhere: rowwise data travel. But block GEMMs want 8 rows, tiles 128.
ParallelLinear how(bool sequence_parallel, const CommOverlap& overlap) {
  return {group().get(), sequence_parallel, overlap};
}

struct Reference {
  Tensor y, dx, dw;
};

Reference one_process(const Layer& l) {
  const Operand x(l.x, l.quantize_x), w(l.w, l.quantize_w),
      dy(l.dy, l.quantize_dy);
  return {gemm_fprop(x.operand(), w.operand()).d,
          gemm_dgrad(dy.operand(), w.operand()).d,
          gemm_wgrad(dy.operand(), x.operand()).d};
}

TEST(ColumnParallel, IsTheSingleProcess) {
  for_each_layer(kWhole, kCut * ranks(), [](const Layer& l) {
    const Reference expected = one_process(l);
    const Operand whole_dy(l.dy, l.quantize_dy), whole_w(l.w, l.quantize_w);
    const Tensor terms =
        magnitude(whole_dy.values(true), transpose(whole_w.values(false)));
    const Operand w(part_of(l.w), l.quantize_w);
    const Operand dy(columns_of(l.dy), l.quantize_dy);
    for (const bool sequence : {false, true}) {
      const Operand x(sequence ? part_of(l.x) : l.x, l.quantize_x);
      Tensor first_dx;
      for (const auto& [method, overlap] : overlaps()) {
        SCOPED_TRACE(l.name + " " + method + (sequence ? " sequence" : ""));
        const ParallelLinear p = how(sequence, overlap);
        expect_same_bits(column_parallel_forward(x.operand(), w.operand(), p),
                         columns_of(expected.y), "y");
        const LinearGradients grads =
            column_parallel_backward(dy.operand(), x.operand(), w.operand(), p);
        expect_same_bits(grads.dw, part_of(expected.dw), "dw");
        const Tensor dx = sequence ? gathered(grads.dx) : grads.dx;
        expect_within_reordered_sum(dx, expected.dx, terms, l.w.shape()[0],
                                    "dx");
        if (method == "none") first_dx = dx;
        expect_same_bits(dx, first_dx, "dx and without overlap");
      }
    }
  });
}

TEST(RowParallel, IsTheSingleProcess) {
  for_each_layer(kCut * ranks(), kWhole, [](const Layer& l) {
    const Reference expected = one_process(l);
    const Operand whole_x(l.x, l.quantize_x), whole_w(l.w, l.quantize_w);
    const Tensor terms = magnitude(whole_x.values(true), whole_w.values(true));
    const Operand x(columns_of(l.x), l.quantize_x);
    const Operand w(columns_of(l.w), l.quantize_w);
    for (const bool sequence : {false, true}) {
      const Operand dy(sequence ? part_of(l.dy) : l.dy, l.quantize_dy);
      Tensor first_y;
      for (const auto& [method, overlap] : overlaps()) {
        SCOPED_TRACE(l.name + " " + method + (sequence ? " sequence" : ""));
        const ParallelLinear p = how(sequence, overlap);
        const Tensor part = row_parallel_forward(x.operand(), w.operand(), p);
        const Tensor y = sequence ? gathered(part) : part;
        expect_within_reordered_sum(y, expected.y, terms, l.w.shape()[1], "y");
        if (method == "none") first_y = y;
        expect_same_bits(y, first_y, "y and without overlap");
        const LinearGradients grads =
            row_parallel_backward(dy.operand(), x.operand(), w.operand(), p);
        expect_same_bits(grads.dx, columns_of(expected.dx), "dx");
        expect_same_bits(grads.dw, columns_of(expected.dw), "dw");
      }
    }
  });
}

// The bias of a column-parallel layer is in the product; that of a row-parallel
// one comes after the sum of the ranks, once and not once a rank.
TEST(RowParallel, BiasIsAddedOnce) {
  const Layer l(DType::kF32, kCut * ranks(), kWhole);
  const Tensor bias = normal(DType::kF32, {kWhole}, 4);
  GemmOptions options;
  for (const bool sequence : {false, true}) {
    const ParallelLinear p = how(sequence, {});
    const Tensor x = columns_of(l.x), w = columns_of(l.w);
    options.bias = nullptr;
    const Tensor without = row_parallel_forward(x, w, p, options);
    options.bias = &bias;
    const Tensor with = row_parallel_forward(x, w, p, options);
    for (std::int64_t i = 0; i < with.numel(); ++i)
      ASSERT_EQ(with.data<float>()[i],
                without.data<float>()[i] + bias.data<float>()[i % kWhole]);
  }
}

TEST(ColumnParallel, BiasIsInTheProduct) {
  const Layer l(DType::kBF16, kWhole, kCut * ranks());
  const Tensor bias = normal(DType::kBF16, {kCut * ranks()}, 4);
  GemmOptions options;
  options.bias = &bias;
  const Tensor expected = columns_of(gemm_fprop(l.x, l.w, options).d);
  const Tensor own = part_of(bias);
  options.bias = &own;
  for (const auto& [method, overlap] : overlaps())
    expect_same_bits(column_parallel_forward(part_of(l.x), part_of(l.w),
                                             how(true, overlap), options),
                     expected, method);
}

TEST(TensorParallel, MainGradIsAddedTo) {
  const Layer l(DType::kBF16, kWhole, kCut * ranks());
  const Tensor x = part_of(l.x), w = part_of(l.w), dy = columns_of(l.dy);
  const ParallelLinear p = how(true, {});
  LinearGradientOptions options;
  options.dw_dtype = DType::kF32;
  const Tensor dw = column_parallel_backward(dy, x, w, p, options).dw;
  Tensor main_grad = Tensor::zeros(DType::kF32, dw.shape());
  options.dw_dtype.reset();
  options.main_grad = &main_grad;
  EXPECT_EQ(column_parallel_backward(dy, x, w, p, options).dw.numel(), 0);
  expect_same_bits(main_grad, dw, "once");
  column_parallel_backward(dy, x, w, p, options);
  for (std::int64_t i = 0; i < dw.numel(); ++i)
    ASSERT_EQ(main_grad.data<float>()[i], 2 * dw.data<float>()[i]);
  options.dw = false;
  column_parallel_backward(dy, x, w, p, options);
  EXPECT_EQ(main_grad.data<float>()[0], 2 * dw.data<float>()[0]);
  options.dx = false;
  EXPECT_EQ(column_parallel_backward(dy, x, w, p, options).dx.numel(), 0);
  EXPECT_EQ(
      row_parallel_backward(part_of(l.dy), l.x, l.w, p, options).dx.numel(), 0);
}

TEST(TensorParallel, LeadingDimensionsStayAndZeroRowsWork) {
  for (const std::int64_t s : {0, 4}) {
    const Tensor x = normal(DType::kBF16, {s * ranks(), 3, 32}, 5);
    const Tensor w = normal(DType::kBF16, {16 * ranks(), 32}, 6);
    const Tensor expected = gemm_fprop(x, w).d;
    const Tensor v = normal(DType::kBF16, {32, 16 * ranks()}, 7);
    for (const auto& [method, overlap] : overlaps()) {
      const ParallelLinear p = how(true, overlap);
      const Tensor y = column_parallel_forward(part_of(x), part_of(w), p);
      expect_same_bits(y, columns_of(expected), method);
      const Tensor z = row_parallel_forward(y, columns_of(v), p);
      EXPECT_EQ(z.shape(), (Shape{s, 3, 32}));
      const auto back = row_parallel_backward(z, y, columns_of(v), p);
      EXPECT_EQ(back.dx.shape(), y.shape());
      EXPECT_EQ(back.dw.shape(), (Shape{32, 16}));
      EXPECT_EQ(column_parallel_backward(back.dx, part_of(x), part_of(w), p)
                    .dx.shape(),
                (Shape{s, 3, 32}));
    }
  }
}

TEST(TensorParallel, RefusalsAreOnEveryRank) {
  const Tensor x = normal(DType::kBF16, {ranks() + 1, 16}, 8);
  const Tensor w = normal(DType::kBF16, {16, 16}, 9);
  ParallelLinear p = how(true, {});
  EXPECT_THAT(error_of([&] { row_parallel_forward(x, w, {}); }),
              HasSubstr("row_parallel_forward: group: null"));
  p.overlap.ub_overlap_rs_dgrad = p.overlap.ub_bulk_wgrad = true;
  EXPECT_THAT(error_of([&] { column_parallel_backward(x, x, w, p); }),
              HasSubstr("ub_overlap_rs_dgrad: together with a bulk overlap"));
  EXPECT_THAT(error_of([] { parse_overlap_method("external"); }),
              HasSubstr("none, ring_exchange or pipeline"));
  if (ranks() == 1) return;
  for (const auto& [method, overlap] : overlaps()) {
    EXPECT_THAT(
        error_of([&] { row_parallel_forward(x, w, how(true, overlap)); }),
        HasSubstr("first dimension: " + std::to_string(ranks() + 1)));
    const Tensor own = rank() == 1 ? w : x;
    EXPECT_THAT(
        error_of([&] { column_parallel_forward(own, w, how(true, overlap)); }),
        HasSubstr("the ranks differ"));
    // A product that no rank can form, found while rows are on their way.
    const Tensor narrow = normal(DType::kBF16, {16, 8}, 9);
    EXPECT_THAT(error_of([&] {
                  column_parallel_forward(w, narrow, how(true, overlap));
                }),
                HasSubstr("inner dimension"));
  }
  // And nothing is left on its way.
  expect_same_bits(gathered(part_of(normal(DType::kF32, {ranks(), 2}, 1))),
                   normal(DType::kF32, {ranks(), 2}, 1), "after");
  const auto current = CurrentScalingQuantizer({}).quantize(
      normal(DType::kBF16, {16, 16}, 10, std::ldexp(1.0f, rank())));
  for (const auto& [method, overlap] : overlaps())
    EXPECT_THAT(error_of([&] {
                  column_parallel_forward(current, current, how(true, overlap));
                }),
                HasSubstr("the ranks differ"));
}

}  // namespace
}  // namespace assay::te
