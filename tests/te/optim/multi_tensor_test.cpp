// Multi-tensor scaling and norms.
#include "assay/te/optim/multi_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "assay/te/precision.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

TEST(MultiTensor, ScalesAcrossDtypesAndFlags) {
  const std::vector<Tensor> in = {make_tensor({1, 2, 3}, {3}, DType::kBF16),
                                  Tensor::empty(DType::kF32, {0}),
                                  make_tensor({4, -5}, {2})};
  std::vector<Tensor> out = {Tensor::empty(DType::kF32, {3}),
                             Tensor::empty(DType::kF16, {0}),
                             Tensor::empty(DType::kF16, {2})};
  EXPECT_FALSE(multi_tensor_scale(in, out, 0.5f));
  EXPECT_EQ(values_of(out[0]), (std::vector<double>{.5, 1, 1.5}));
  EXPECT_EQ(values_of(out[2]), (std::vector<double>{2, -2.5}));
  EXPECT_FALSE(multi_tensor_scale(in, out, make_tensor({2}, {1})));
  EXPECT_EQ(values_of(out[2]), (std::vector<double>{8, -10}));
  for (double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    const std::vector<Tensor> odd = {in[0], in[1],
                                     make_tensor({4, bad}, {2}, DType::kF16)};
    EXPECT_TRUE(multi_tensor_scale(odd, out, 0.5f));
    EXPECT_EQ(values_of(out[2])[0], 2);
  }
  // A finite input whose product overflows is no overflow of the gradients.
  const std::vector<Tensor> big = {make_tensor({3e38}, {1})};
  std::vector<Tensor> result = {Tensor::empty(DType::kF32, {1})};
  EXPECT_FALSE(multi_tensor_scale(big, result, 4.0f));
  EXPECT_EQ(values_of(result[0])[0], std::numeric_limits<double>::infinity());
}

// F39: a strided output is written where its strides say, in place.
TEST(MultiTensor, F39_StridedOutputsAreWritten) {
  Tensor storage = make_tensor({0, 1, 2, 3, 4, 5}, {2, 3});
  Tensor turned = storage;  // its transpose, sharing the memory
  turned.view.shape = {3, 2};
  turned.view.strides = {1, 3};
  const std::vector<Tensor> in = {turned};
  std::vector<Tensor> out = {turned};
  multi_tensor_scale(in, out, 10.0f);
  EXPECT_EQ(values_of(storage), (std::vector<double>{0, 10, 20, 30, 40, 50}));
  EXPECT_EQ(values_of(turned), (std::vector<double>{0, 30, 10, 40, 20, 50}));
}

TEST(MultiTensor, NormsByHand) {
  const std::vector<Tensor> in = {make_tensor({3, 4}, {2}, DType::kBF16),
                                  Tensor::empty(DType::kF32, {0}),
                                  make_tensor({12}, {1}, DType::kF16)};
  const Norms norms = multi_tensor_l2norm(in, {.per_tensor = true});
  EXPECT_EQ(values_of(norms.total)[0], 13);
  EXPECT_EQ(values_of(norms.per_tensor), (std::vector<double>{5, 0, 12}));
  EXPECT_EQ(values_of(multi_tensor_unscale_l2norm(in, .5f).total)[0], 6.5);
  EXPECT_EQ(values_of(multi_tensor_l2norm({}).total)[0], 0);
}

TEST(MultiTensor, NormOfWhatFp32CannotSquare) {
  const std::vector<Tensor> in = {make_tensor({3e30, 4e30}, {2})};
  EXPECT_NEAR(values_of(multi_tensor_l2norm(in).total)[0], 5e30, 1e24);
  const std::vector<Tensor> nan = {make_tensor({1, std::nan("")}, {2})};
  EXPECT_TRUE(std::isnan(values_of(multi_tensor_l2norm(nan).total)[0]));
}

// 2^20 ones: a running fp32 sum is exact here, a bf16 one stops at 256.
TEST(MultiTensor, NormPrecisions) {
  const std::vector<Tensor> in = {
      make_tensor(std::vector<double>(1 << 16, 1), {1 << 16}, DType::kBF16)};
  using enum InternalPrecision;
  for (InternalPrecision p : kInternalPrecisions) {
    PrecisionScope scope("l2norm", p);
    EXPECT_EQ(values_of(multi_tensor_l2norm(in).total)[0],
              p == kWorking ? 16 : 256)
        << precision_name(p);
  }
}

TEST(MultiTensor, SameBitsForAnyNumberOfThreads) {
  const std::vector<Tensor> in = {normal_tensor({300000}, DType::kF32, 1),
                                  normal_tensor({70001}, DType::kBF16, 2)};
  expect_thread_invariance(
      [&] {
        std::vector<Tensor> out = {Tensor::empty(DType::kBF16, {300000}),
                                   Tensor::empty(DType::kF32, {70001})};
        multi_tensor_scale(in, out, .3f);
        const Norms n = multi_tensor_l2norm(in, {.per_tensor = true});
        return std::vector<Tensor>{out[0], out[1], n.total, n.per_tensor};
      },
      "multi tensor");
}

// F01 among them: an amax whose quotient overflows, and those without one.
TEST(MultiTensor, F01_ScalesOfTinyAndOddAmaxes) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Tensor> amax = {make_tensor({448, 3, 1e-38, 0}, {4}),
                                    make_tensor({inf, std::nan("")}, {2})};
  std::vector<Tensor> scale = {Tensor::empty(DType::kF32, {4}),
                               Tensor::empty(DType::kF32, {2})};
  std::vector<Tensor> inverse = {Tensor::empty(DType::kF32, {4}),
                                 Tensor::empty(DType::kF32, {2})};
  multi_tensor_compute_scale_and_scale_inv(amax, scale, inverse);
  const double top = static_cast<double>(std::numeric_limits<float>::max());
  EXPECT_EQ(values_of(scale[0]),
            (std::vector<double>{1, static_cast<double>(448.0f / 3), top, 1}));
  EXPECT_EQ(values_of(scale[1]), (std::vector<double>{1, 1}));
  EXPECT_EQ(values_of(inverse[0])[1], static_cast<double>(1.0f / (448.0f / 3)));
  multi_tensor_compute_scale_and_scale_inv(amax, scale, inverse,
                                           {.pow2 = true});
  EXPECT_EQ(values_of(scale[0])[1], 128);
  // 448 / 448 = 2^0, 449 / 448 rounds up to 2^1, 0 is 2^-127.
  const std::vector<Tensor> blocks = {make_tensor({448, 449, 0}, {3})};
  std::vector<Tensor> codes = {Tensor::empty(DType::kE8M0, {3})};
  multi_tensor_compute_scale_inv_e8m0(blocks, codes);
  EXPECT_EQ(codes[0].data<std::uint8_t>()[0], 127);
  EXPECT_EQ(codes[0].data<std::uint8_t>()[1], 128);
  EXPECT_EQ(codes[0].data<std::uint8_t>()[2], 0);
}

TEST(MultiTensor, ListsThatDoNotFitAreErrors) {
  const std::vector<Tensor> in = {make_tensor({1}, {1})};
  std::vector<Tensor> none;
  EXPECT_EQ(error_of([&] { multi_tensor_scale(in, none, 1); }),
            "multi_tensor_scale: outputs: 0 tensors, expected 1");
  std::vector<Tensor> wide = {make_tensor({1, 2}, {2})};
  error_of([&] { multi_tensor_scale(in, wide, 1); });
}

}  // namespace
}  // namespace assay::te
