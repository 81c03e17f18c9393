// Current scaling, delayed quantisers and the casts below them.
#include "assay/te/quantize/tensor_scaled.h"

#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/parallel.h"
#include "assay/kernels/cast.h"
#include "assay/te/ops/grouped_gemm.h"
#include "assay/te/quantize/amax.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/scale.h"
#include "tests/te/quantize/tensors.h"

namespace assay::te {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Floats = std::vector<float>;
using Codes = std::vector<unsigned>;

CurrentScalingQuantizer current(DType format = DType::kE4M3FN) {
  return CurrentScalingQuantizer({.format = format});
}

TEST(CurrentScaling, F01_TinyTensorStaysFinite) {
  const auto q = current().quantize(f32({1, 2}, {1e-38f, -5e-39f}));
  EXPECT_EQ(codes(q.rowwise->data), (Codes{0x46, 0xbe}));  // 3.5, -1.75
  EXPECT_EQ(floats(q.rowwise->scale_inv), (Floats{0x1p-128f}));
  EXPECT_EQ(floats(dequantize(q, DType::kF32)),
            (Floats{3.5f * 0x1p-128f, -1.75f * 0x1p-128f}));
}

TEST(CurrentScaling, F02_ZerosStayZeros) {
  const auto q = current().quantize(f32({2, 2}, {0, -0.0f, 0, 0}));
  EXPECT_EQ(codes(q.rowwise->data), (Codes{0, 0x80, 0, 0}));
  EXPECT_EQ(floats(q.rowwise->scale_inv), (Floats{1}));
  EXPECT_EQ(floats(q.rowwise->amax), (Floats{0}));
}

TEST(CurrentScaling, NanIsKeptButDoesNotCount) {
  const auto q = current().quantize(f32({1, 3}, {kNan, 7, -3.5f}));
  EXPECT_EQ(floats(q.rowwise->amax), (Floats{7}));
  EXPECT_EQ(codes(q.rowwise->data), (Codes{0x7f, 0x7e, 0xf6}));
  EXPECT_TRUE(std::isnan(floats(dequantize(q, DType::kBF16))[0]));
}

TEST(CurrentScaling, InfinityHasScaleOneAndSaturates) {
  const auto q = current(DType::kE5M2).quantize(f32({1, 3}, {-kInf, 2, 1e9f}));
  EXPECT_EQ(floats(q.rowwise->scale_inv), (Floats{1}));
  EXPECT_EQ(codes(q.rowwise->data), (Codes{0xfb, 0x40, 0x7b}));
}

// The same numbers in the fnuz pair: half the range, no negative zero.
TEST(CurrentScaling, F10_FnuzUsesItsOwnMaximum) {
  const auto q =
      current(DType::kE4M3FNUZ).quantize(f32({1, 4}, {448, 224, -0.0f, kInf}));
  EXPECT_EQ(floats(q.rowwise->scale_inv), (Floats{1}));  // infinite amax
  const auto finite =
      current(DType::kE4M3FNUZ).quantize(f32({1, 3}, {480, -240, -0.0f}));
  EXPECT_EQ(codes(finite.rowwise->data), (Codes{0x7f, 0xf7, 0x00}));
  EXPECT_EQ(floats(dequantize(finite, DType::kF32)), (Floats{480, -240, 0}));
}

TEST(CurrentScaling, F39_StridedInputIsItsContiguousCopy) {
  const Tensor base = f32({2, 3}, {0, 1, 2, 3, 4, 5});
  Tensor transposed = base;
  transposed.view.shape = {3, 2};
  transposed.view.strides = {1, 3};
  const auto q = current().quantize(transposed);
  EXPECT_EQ(floats(dequantize(q, DType::kF32)),
            floats(dequantize(current().quantize(contiguous(transposed)),
                              DType::kF32)));
  EXPECT_EQ(codes(q.rowwise->data)[1], 0x78u);  // 3 / 5 * 448 = 268.8 -> 256
}

// T5: columnwise data is the transpose of the same bytes, at and beside the
// tile edges, for every input dtype, whatever the threads.
TEST(TensorScaled, ColumnwiseIsTheTransposeAtEveryTileEdge) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (std::int64_t m : {1, 31, 127, 128, 129, 257}) {
      for (std::int64_t k : {1, 16, 255, 256, 257}) {
        const Tensor x = normal(dtype, {m, k}, 5);
        const auto q = quantize_scaled(x, 37.5f, {.with_amax = true});
        const auto only = quantize_scaled(
            x, 37.5f, {.usage = {true, false}, .with_amax = true});
        expect_same_bits(q.rowwise->data, only.rowwise->data, "rowwise");
        EXPECT_EQ(floats(q.rowwise->amax), floats(only.rowwise->amax));
        EXPECT_EQ(floats(q.rowwise->amax), (Floats{tensor_amax(x)}));
        const Codes a = codes(q.rowwise->data), b = codes(q.columnwise->data);
        for (std::int64_t r = 0; r < m; ++r)
          for (std::int64_t c = 0; c < k; ++c)
            ASSERT_EQ(a[static_cast<std::size_t>(r * k + c)],
                      b[static_cast<std::size_t>(c * m + r)]);
        for (DType out : {DType::kF32, DType::kBF16, DType::kF16})
          expect_same_bits(dequantize(*q.rowwise, q.shape, out),
                           dequantize(*q.columnwise, q.shape, out), "decoded");
      }
    }
  }
}

TEST(TensorScaled, SameBitsForAnyThreadsAndAsThePlainLoops) {
  const Tensor x = normal(DType::kBF16, {300, 1111}, 9);
  Tensor plain = x;
  plain.device = Device::kReference;
  set_thread_count(1);
  const auto one = current().quantize(x);
  set_thread_count(4);
  const auto four = current().quantize(x);
  set_thread_count(0);
  expect_same_bits(one, four, "threads");
  const auto reference = current().quantize(plain);
  expect_same_bits(one, reference, "reference");
  EXPECT_EQ(reference.rowwise->data.device, Device::kReference);
  expect_same_bits(dequantize(one, DType::kBF16),
                   dequantize(reference, DType::kBF16), "decoded");
}

TEST(TensorScaled, ZeroRowsGiveEmptyData) {
  for (const Shape& shape : {Shape{0, 16}, Shape{3, 0}, Shape{0}}) {
    const auto q = current().quantize(Tensor::empty(DType::kBF16, shape));
    EXPECT_EQ(q.rowwise->data.numel(), 0);
    EXPECT_EQ(q.columnwise->data.numel(), 0);
    EXPECT_EQ(floats(q.rowwise->scale_inv), (Floats{1}));
    EXPECT_EQ(dequantize(q, DType::kF32).shape(), shape);
  }
}

// F41, F42: more blocks than 65535, an output full of sentinels.
TEST(TensorScaled, F41_F42_NoTailIsLeftUnwritten) {
  const std::int64_t n = (std::int64_t{1} << 16) * 3 + 17;
  Tensor x = Tensor::empty(DType::kBF16, {n, 1});
  std::fill_n(x.mutable_data<std::uint16_t>(), n, std::uint16_t{0x3f80});
  { const Tensor sentinel = Tensor::zeros(DType::kU8, {n}); }  // its memory
  const auto q = quantize_scaled(x, 1.0f, {});
  for (std::int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(q.rowwise->data.data<std::uint8_t>()[i], 0x38) << i;
    ASSERT_EQ(q.columnwise->data.data<std::uint8_t>()[i], 0x38) << i;
  }
}

TEST(TensorScaled, SeveralTensorsAreAsOneAfterTheOther) {
  const std::vector<Tensor> xs = {normal(DType::kBF16, {130, 33}, 1),
                                  Tensor::empty(DType::kBF16, {0, 5}),
                                  normal(DType::kF32, {1000, 700}, 2, 1e-3f)};
  auto quantizer = current();
  const auto all = quantizer.quantize_multi(xs);
  ASSERT_EQ(all.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i)
    expect_same_bits(all[i], quantizer.quantize(xs[i]), std::to_string(i));
}

// A grouped tensor is its row groups: a scale for each, empty ones too.
TEST(TensorScaled, RowGroupsHaveScalesOfTheirOwn) {
  const Tensor x = f32({3, 2}, {7, 1, 2, 2, 14, 3});
  const std::int64_t splits[] = {1, 0, 2};
  const auto q = current().quantize_multi(split_rows(x, splits));
  ASSERT_EQ(q.size(), 3u);
  EXPECT_EQ(floats(q[0].rowwise->scale_inv), (Floats{1 / 64.0f}));
  EXPECT_EQ(floats(q[1].rowwise->scale_inv), (Floats{1}));
  EXPECT_EQ(floats(q[2].rowwise->scale_inv), (Floats{1 / 32.0f}));
  EXPECT_EQ(floats(dequantize(q[2], DType::kF32)), (Floats{2, 2, 14, 3}));
}

// Two processes that see half of a tensor each agree on its scale and write
// the bytes of the whole one.
TEST(TensorScaled, ShardsWriteTheBytesOfTheWhole) {
  const Tensor x = normal(DType::kF32, {40, 50}, 4);
  const auto half = [&](int i) {
    Tensor shard = x;
    shard.view.shape = {1000};
    shard.view.strides = {};
    shard.view.data += i * 1000 * 4;
    return shard;
  };
  const float amax = std::max(tensor_amax(half(0)), tensor_amax(half(1)));
  const float scale = compute_scale(amax, 448, {});
  auto quantizer = current();
  const Codes whole = codes(quantizer.quantize(x).rowwise->data);
  Codes parts;
  for (int i : {0, 1})
    for (unsigned code : codes(cast_shard(half(i), scale, DType::kE4M3FN)))
      parts.push_back(code);
  EXPECT_EQ(parts, whole);
}

class Doubling : public AmaxReduction {
 public:
  void reduce_max(float* values, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) values[i] *= 2;
    ++calls;
  }
  int calls = 0;
};

TEST(CurrentScaling, ReducesOnceForAllTensors) {
  const auto reduction = std::make_shared<Doubling>();
  CurrentScalingQuantizer quantizer({.amax_reduction = reduction});
  const std::vector<Tensor> xs = {f32({1, 1}, {7}), f32({1, 1}, {14})};
  const auto q = quantizer.quantize_multi(xs);
  EXPECT_EQ(reduction->calls, 1);
  EXPECT_EQ(floats(q[0].rowwise->amax), (Floats{14}));
  EXPECT_EQ(floats(q[1].rowwise->scale_inv), (Floats{1 / 16.0f}));
}

TEST(CurrentScaling, TakesAnAmaxThatIsKnown) {
  auto quantizer = current();
  quantizer.set_existing_amax(448.0f);
  EXPECT_EQ(codes(quantizer.quantize(f32({1, 1}, {1})).rowwise->data),
            (Codes{0x38}));
}

// T9: 1 + 2^-9 is 1 in bf16. Current scaling sees that, delayed scaling the
// fp32 value.
TEST(CurrentScaling, FusedInputIsRoundedFirst) {
  const Tensor x = f32({1, 2}, {1 + 0x1p-9f, 0.5f});
  const auto q = current().quantize_fused(x, DType::kBF16);
  EXPECT_EQ(q.dtype, DType::kBF16);
  EXPECT_EQ(floats(q.rowwise->amax), (Floats{1}));
}
TEST(DelayedQuantizer, FusedInputIsNotRounded) {
  const Tensor x = f32({1, 2}, {1.0625f + 0x1p-9f, 0.5f});  // above the tie
  auto state = std::make_shared<DelayedScalingState>(2, 1);
  DelayedScalingQuantizer quantizer(DType::kE4M3FN, state, 0);
  const auto q = quantizer.quantize_fused(x, DType::kBF16);
  EXPECT_EQ(q.dtype, DType::kBF16);
  EXPECT_EQ(state->staging()[0], 1.0625f + 0x1p-9f);
  EXPECT_EQ(codes(q.rowwise->data), (Codes{0x39, 0x30}));
}

TEST(CurrentScaling, RefusesWhatItCannotHold) {
  EXPECT_EQ(error_of([] { CurrentScalingQuantizer({.epsilon = -1}); }),
            "CurrentScalingQuantizer: epsilon: -1.000000, expected 0 or more");
  EXPECT_EQ(error_of([] { current(DType::kE2M1); }),
            "CurrentScalingQuantizer: format: float4_e2m1fn, expected "
            "float8_e4m3fn, float8_e5m2, float8_e4m3fnuz or float8_e5m2fnuz");
  EXPECT_EQ(error_of([] {
              current().quantize(Tensor::zeros(DType::kF64, {1, 1}));
            }),
            "amax: x: float64, expected float32 or bfloat16 or float16");
}

TEST(QuantizeDequantize, LosesWhatTheFormatCannotHold) {
  const Tensor x = f32({1, 3}, {1, 1.05f, 500});
  EXPECT_EQ(floats(quantize_dequantize_scaled(x, 1.0f, DType::kE4M3FN)),
            (Floats{1, 1, 448}));
}

TEST(DelayedQuantizer, UsesItsSlotAndLeavesItsAmax) {
  auto state = std::make_shared<DelayedScalingState>(4, 3);
  state->scale.mutable_data<float>()[1] = 2.0f;
  DelayedScalingQuantizer quantizer(DType::kE4M3FN, state, 1);
  const auto q = quantizer.quantize(f32({1, 3}, {1, -300, kNan}));
  EXPECT_EQ(codes(q.rowwise->data), (Codes{0x40, 0xfe, 0x7f}));
  EXPECT_EQ(floats(q.columnwise->scale_inv), (Floats{0.5f}));
  EXPECT_EQ(state->staging()[1], 300.0f);
  EXPECT_EQ(state->staging()[0], 0.0f);
  quantizer.quantize(f32({1, 1}, {2}));
  EXPECT_EQ(state->staging()[1], 300.0f);  // the larger of the step
  quantizer.calibrate(f32({2, 1}, {-900, 3}));
  EXPECT_EQ(state->staging()[1], 900.0f);
}

TEST(DelayedQuantizer, CloneHasStateOfItsOwn) {
  auto state = std::make_shared<DelayedScalingState>(2, 1);
  DelayedScalingQuantizer quantizer(DType::kE5M2, state, 0);
  quantizer.set_usage({true, false});
  const auto copy = quantizer.clone();
  copy->quantize(f32({1, 1}, {5}));
  EXPECT_EQ(state->staging()[0], 0.0f);
  EXPECT_FALSE(copy->usage().columnwise);
}

}  // namespace
}  // namespace assay::te
