// Residual connections: one rounding, recomputed masks, samples, gradients.
#include "assay/te/ops/residual.h"

#include <gmock/gmock.h>

#include "assay/core/philox.h"
#include "tests/te/absent.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

bool bit(const Tensor& mask, std::int64_t i) {
  return mask.data<std::uint8_t>()[i / 8] >> i % 8 & 1;
}

Tensor ones(Shape shape, DType dtype = DType::kF32) {
  const auto n = static_cast<std::size_t>(*checked_numel(shape));
  return make_tensor(std::vector<double>(n, 1), std::move(shape), dtype);
}

// 1 + 2^-8 + 2^-8 in bf16 (spacing 2^-7 above 1): both halves together reach
// the next number, one after the other each is a tie that goes back to 1.
TEST(Residual, BiasAndResidualAreRoundedOnce) {
  const auto bf16 = [](double v) {
    return make_tensor({v}, {1, 1}, DType::kBF16);
  };
  const Tensor half = bf16(0x1p-8);
  const Tensor bias = make_tensor({0x1p-8}, {1}, DType::kBF16);
  for (Device device : {Device::kCpu, Device::kReference}) {
    const auto f = bias_dropout_add_forward(on(device, half), on(device, bias),
                                            on(device, bf16(1)), 0, {});
    EXPECT_EQ(values_of(f.out)[0], 1 + 0x1p-7);
    EXPECT_EQ(f.mask.numel(), 0);
  }
  EXPECT_EQ(values_of(residual_add(residual_add(half, bf16(1)), half))[0], 1);
}

// torch.nn.functional: (x + b) + r of small numbers, exact in f32.
TEST(Residual, ByHand) {
  const Tensor x = make_tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = make_tensor({.5, -1, 2}, {3});
  const Tensor r = make_tensor({10, 20, 30, 40, 50, 60}, {2, 3});
  using V = std::vector<double>;
  EXPECT_EQ(values_of(bias_dropout_add_forward(x, b, r, 0, {}).out),
            (V{11.5, 21, 35, 44.5, 54, 68}));
  EXPECT_EQ(values_of(bias_dropout_add_forward(x, {}, r, 0, {}).out),
            values_of(residual_add(x, r)));
  EXPECT_EQ(values_of(bias_dropout_add_forward(x, b, {}, 0, {}).out),
            (V{1.5, 1, 5, 4.5, 4, 8}));
  EXPECT_EQ(values_of(constant_scale(x, -2)), (V{-2, -4, -6, -8, -10, -12}));
  EXPECT_EQ(values_of(scale_add(x, 2, r)), (V{12, 24, 36, 48, 60, 72}));
  const Tensor turned = strided_like(x);
  EXPECT_EQ(
      values_of(
          bias_dropout_add_forward(turned, b, strided_like(r), 0, {}).out),
      (V{11.5, 21, 35, 44.5, 54, 68}));
}

// The definition in fp64 under the mask of dropout_forward, for widths that
// do and do not end on a byte of the mask, across the tiles of a task.
TEST(Residual, TheMaskIsDropoutsAndFollowsFlatIndices) {
  const DropoutState state{42, 8};
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (Shape shape : {Shape{3, 1}, Shape{5, 3}, Shape{67, 1021},
                        Shape{40, 2048}, Shape{2, 3, 48}, Shape{1, 65537}}) {
      const Tensor x = normal_tensor(shape, dtype, 1);
      const Tensor b = normal_tensor({shape.back()}, dtype, 2);
      const Tensor r = normal_tensor(shape, dtype, 3);
      const auto f = bias_dropout_add_forward(x, b, r, 0.25f, state);
      ASSERT_TRUE(same_bits(f.mask, dropout_forward(x, 0.25f, state).mask));
      const auto vx = values_of(x), vb = values_of(b), vr = values_of(r),
                 out = values_of(f.out);
      for (std::size_t i = 0; i < vx.size(); ++i) {
        const double bias = vb[i % vb.size()];
        const bool kept = bit(f.mask, static_cast<std::int64_t>(i));
        const double want = vr[i] + (kept ? (vx[i] + bias) / .75 : 0);
        const double terms =
            std::fabs(vr[i]) + (std::fabs(vx[i]) + std::fabs(bias)) / .75;
        ASSERT_NEAR(out[i], want,
                    unit_roundoff(dtype) * std::fabs(want) +
                        0x1p-22 * (terms + 0x1p-10))
            << to_string(shape) << " at " << i;
      }
    }
}

// A recomputed forward has the mask and the bits of the first pass, and the
// gradient passes where the output was kept.
TEST(Residual, F43_RecomputationDrawsTheSameMask) {
  const Tensor x = ones({8});
  const DropoutState state{1234, 12};
  const auto first = bias_dropout_add_forward(x, {}, {}, .5f, state);
  const auto again = bias_dropout_add_forward(x, {}, {}, .5f, state);
  EXPECT_TRUE(same_bits(first.mask, again.mask));
  EXPECT_TRUE(same_bits(first.out, again.out));
  const auto out = values_of(first.out);
  const auto grad =
      values_of(bias_dropout_add_backward(x, first.mask, .5f, false).dx);
  int kept = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(out[i] != 0, grad[i] != 0);
    EXPECT_TRUE(grad[i] == 0 || grad[i] == 2);
    kept += grad[i] != 0;
  }
  EXPECT_TRUE(kept > 0 && kept < 8);  // both kinds were seen
  const Tensor batch = ones({64, 4, 2});
  const DropPath path{.5f, 0, {9, 4}};
  const auto p1 = drop_path_forward(batch, {}, path);
  const auto p2 = drop_path_forward(batch, {}, path);
  EXPECT_TRUE(same_bits(p1.kept, p2.kept));
  EXPECT_TRUE(same_bits(p1.out, drop_path_backward(batch, p1.kept, path)));
}

// Rates within 4 sigma; neighbours agree in half of the cases, not always.
TEST(Residual, F44_NeighboursDoNotShareDropping) {
  const std::int64_t n = 64 * 4096;
  const auto f =
      bias_dropout_add_forward(ones({64, 4096}), {}, {}, .5f, {5, 0});
  const auto path = drop_path_forward(ones({n, 1}), {}, {.5f, 0, {5, 0}});
  const auto* kept = path.kept.data<std::uint8_t>();
  const double sigma = std::sqrt(.25 / static_cast<double>(n));
  for (std::int64_t lag : {0, 1, 2, 3, 4, 16}) {
    std::int64_t elements = 0, samples = 0;
    for (std::int64_t i = 0; i + lag < n; ++i) {
      elements +=
          lag == 0 ? bit(f.mask, i) : bit(f.mask, i) == bit(f.mask, i + lag);
      samples += lag == 0 ? kept[i] : kept[i] == kept[i + lag];
    }
    const auto of = static_cast<double>(n - lag);
    EXPECT_NEAR(static_cast<double>(elements) / of, .5, 4 * sigma) << lag;
    EXPECT_NEAR(static_cast<double>(samples) / of, .5, 4 * sigma) << lag;
  }
}

// Word `offset` of subsequence i below p: dropped; timm's scale 1 / keep.
TEST(Residual, DropPathDropsWholeSamples) {
  const float p = .3f;
  const Tensor x = normal_tensor({5, 7, 33}, DType::kF32, 1);
  const Tensor r = normal_tensor({5, 7, 33}, DType::kF32, 2);
  for (std::int64_t dim : {0, 1, 2}) {
    const DropPath path{p, dim, {77, 5}};
    const auto f = drop_path_forward(x, r, path);
    const std::int64_t samples = x.shape()[static_cast<std::size_t>(dim)];
    ASSERT_EQ(f.kept.shape(), Shape{samples});
    for (std::int64_t s = 0; s < samples; ++s) {
      const auto words =
          philox4x32({1, 0, static_cast<std::uint32_t>(s), 0}, {77, 0});
      const bool kept = static_cast<double>(words[1]) >= double{p} * 0x1p32;
      EXPECT_EQ(f.kept.data<std::uint8_t>()[s], kept ? 1 : 0);
    }
    const auto vx = values_of(x), vr = values_of(r), out = values_of(f.out);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const std::int64_t index[3] = {i / (7 * 33), i / 33 % 7, i % 33};
      const bool kept = f.kept.data<std::uint8_t>()[index[dim]] != 0;
      const auto k = static_cast<std::size_t>(i);
      ASSERT_NEAR(out[k], vr[k] + (kept ? vx[k] / .7 : 0), 2e-6);
      if (!kept) {
        ASSERT_EQ(out[k], vr[k]);
      }
    }
  }
}

TEST(Residual, DropPathOfLongSamplesCrossesTasks) {
  const Tensor x = normal_tensor({4, 70001}, DType::kBF16, 1);
  const DropPath path{.5f, 0, {3, 0}};
  const auto fast = drop_path_forward(x, {}, path);
  const auto plain = drop_path_forward(on(Device::kReference, x), {}, path);
  EXPECT_TRUE(same_bits(fast.out, on(Device::kCpu, plain.out)));
}

TEST(Residual, GradientsAreTheSlopes) {
  const Device device = Device::kReference;
  const Tensor x = normal_tensor({3, 21}, DType::kF32, 1, device);
  const Tensor b = normal_tensor({21}, DType::kF32, 2, device);
  const Tensor r = normal_tensor({3, 21}, DType::kF32, 3, device);
  const Tensor dy = normal_tensor({3, 21}, DType::kF32, 4, device);
  const DropoutState state{9, 0};
  const auto run = [&](const Tensor& px, const Tensor& pb, const Tensor& pr) {
    return bias_dropout_add_forward(px, pb, pr, .25f, state).out;
  };
  const auto f = bias_dropout_add_forward(x, b, r, .25f, state);
  const auto g = bias_dropout_add_backward(dy, f.mask, .25f, true);
  expect_gradient([&](const Tensor& at) { return run(at, b, r); }, x, dy, g.dx,
                  1e-3, "x");
  expect_gradient([&](const Tensor& at) { return run(x, at, r); }, b, dy,
                  *g.dbias, 1e-3, "bias");
  expect_gradient([&](const Tensor& at) { return run(x, b, at); }, r, dy,
                  g.dresidual, 1e-3, "residual");
  const DropPath path{.4f, 1, {2, 0}};
  const auto d = drop_path_forward(x, r, path);
  expect_gradient(
      [&](const Tensor& at) { return drop_path_forward(at, r, path).out; }, x,
      dy, drop_path_backward(dy, d.kept, path), 1e-3, "drop path");
  expect_gradient([&](const Tensor& at) { return scale_add(at, -3, r); }, x, dy,
                  constant_scale(dy, -3), 1e-3, "scale");
}

TEST(Residual, ZeroRows) {
  const Tensor x = Tensor::empty(DType::kBF16, {0, 8});
  const Tensor b = Tensor::zeros(DType::kBF16, {8});
  const auto f = bias_dropout_add_forward(x, b, x, .5f, {});
  EXPECT_EQ(f.out.shape(), (Shape{0, 8}));
  const auto g = bias_dropout_add_backward(x, f.mask, .5f, true);
  EXPECT_EQ(values_of(*g.dbias), std::vector<double>(8, 0));
  EXPECT_EQ(residual_add(x, x).shape(), (Shape{0, 8}));
  EXPECT_EQ(drop_path_forward(x, x, {.5f, 0, {}}).kept.numel(), 0);
  EXPECT_EQ(drop_path_forward(x, x, {.5f, 1, {}}).kept.numel(), 8);
}

TEST(Residual, ThreadsDoNotChangeBits) {
  const Tensor x = normal_tensor({300, 1001}, DType::kBF16, 1);
  const Tensor b = normal_tensor({1001}, DType::kBF16, 2);
  expect_thread_invariance(
      [&] {
        const auto f = bias_dropout_add_forward(x, b, x, .4f, {3, 0});
        const auto g = bias_dropout_add_backward(x, f.mask, .4f, true);
        return std::vector<Tensor>{
            f.out,
            f.mask,
            g.dx,
            *g.dbias,
            scale_add(x, .3f, x),
            drop_path_forward(x, x, {.4f, 1, {3, 0}}).out};
      },
      "residual");
}

TEST(Residual, ErrorsNameTheArgument) {
  const Tensor x = ones({2, 3}), b = ones({3});
  const auto forward = [&](const Tensor& bias, const Tensor& residual,
                           float p) {
    return error_of(
        [&] { bias_dropout_add_forward(x, bias, residual, p, {}); });
  };
  EXPECT_THAT(forward(ones({2}), x, 0),
              HasSubstr("bias_dropout_add_forward: bias: shape [2], expected"
                        " [3]"));
  EXPECT_THAT(forward(ones({3}, DType::kBF16), x, 0),
              HasSubstr("bias: bfloat16, expected float32"));
  EXPECT_THAT(forward(b, ones({3, 2}), 0),
              HasSubstr("residual: shape [3, 2], expected [2, 3]"));
  EXPECT_THAT(forward(b, x, 1), HasSubstr("p: 1.000000, expected 0 <= p < 1"));
  EXPECT_THAT(forward(b, on(Device::kReference, x), 0),
              HasSubstr("tensors on cpu and reference"));
  EXPECT_THAT(error_of([&] { residual_add(x, b); }),
              HasSubstr("residual_add: residual: shape [3], expected [2, 3]"));
  EXPECT_THAT(error_of([&] { constant_scale(x, std::nanf("")); }),
              HasSubstr("constant_scale: factor: nan, expected a number"));
  EXPECT_THAT(error_of([&] {
                bias_dropout_add_backward(x, Tensor::zeros(DType::kU8, {2}), 0,
                                          false);
              }),
              HasSubstr("mask: shape [2], expected [0]"));
  EXPECT_THAT(error_of([&] {
                drop_path_forward(x, {}, {.5f, 2, {}});
              }),
              HasSubstr("drop_path_forward: batch_dim: 2, expected a dimension"
                        " of [2, 3]"));
  EXPECT_THAT(
      error_of([&] {
        drop_path_backward(x, Tensor::zeros(DType::kU8, {3}), {.5f, 0, {}});
      }),
      HasSubstr("kept: shape [3], expected [2]"));
}

TEST(Residual, AbsentTensors) {
  using List = std::vector<Tensor>;
  const Tensor x = ones({2, 16}), b = ones({16});
  const Tensor mask = Tensor::zeros(DType::kU8, {4});
  const Tensor kept = Tensor::zeros(DType::kU8, {2});
  expect_absent_refused("residual_add", {x, x},
                        [](List& t) { residual_add(t[0], t[1]); });
  expect_absent_refused("scale_add", {x, x},
                        [](List& t) { scale_add(t[0], 2, t[1]); });
  expect_absent_refused("bias_dropout_add_forward", {x, b, x}, [](List& t) {
    bias_dropout_add_forward(t[0], t[1], t[2], .5f, {});
  });
  expect_absent_refused("bias_dropout_add_backward", {x, mask}, [](List& t) {
    bias_dropout_add_backward(t[0], t[1], .5f, true);
  });
  expect_absent_refused("drop_path_forward", {x, x}, [](List& t) {
    drop_path_forward(t[0], t[1], {.5f, 0, {}});
  });
  expect_absent_refused("drop_path_backward", {x, kept}, [](List& t) {
    drop_path_backward(t[0], t[1], {.5f, 0, {}});
  });
}

}  // namespace
}  // namespace assay::te
