// Activations: published values, gradients, row scales, layouts, errors.
#include "assay/te/ops/activation.h"

#include <gmock/gmock.h>

#include "assay/numerics/rounding.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

std::vector<Activation> all_activations() {
  std::vector<Activation> all;
  for (int i = 0; i < kActivationCount; ++i)
    all.push_back(static_cast<Activation>(i));
  return all;
}

std::string text(Activation act) { return std::string(activation_name(act)); }

Shape y_shape(Activation act, Shape shape) {
  if (is_gated(act)) shape.back() /= 2;
  return shape;
}

TEST(Activation, NamesAreOneToOne) {
  for (Activation act : all_activations())
    EXPECT_EQ(parse_activation(activation_name(act)), act);
  EXPECT_EQ(parse_activation("erf_gelu"), std::nullopt);
}

// gelu is the tanh form everywhere (T12). At -5 the erf form differs by 84 %,
// which an absolute tolerance of 1e-3 does not see.
TEST(Activation, F28_GeluIsTheTanhForm) {
  const Tensor x = make_tensor({-5, -3, -2, 2, 5}, {5});
  const double tanh_form[] = {-2.2918e-7, -3.6374e-3, -0.0454023, 1.9545977,
                              4.9999998};
  for (Device device : {Device::kCpu, Device::kReference}) {
    const auto y =
        values_of(activation_forward(Activation::kGelu, on(device, x)));
    for (int i = 0; i < 5; ++i)
      EXPECT_NEAR(y[i], tanh_form[i], 2e-5 * std::fabs(tanh_form[i])) << i;
    EXPECT_GT(std::fabs(y[0] + 1.4333e-6), 1e-6);  // the erf form
  }
}

// torch.nn.functional in float64: silu, quick gelu, relu squared.
TEST(Activation, ValuesWorkedByHand) {
  const Tensor x = make_tensor({-1, 0, 0.5, 2}, {4});
  const auto check = [&](Activation act, std::vector<double> expected) {
    const auto y = values_of(activation_forward(act, x));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(y[i], expected[i], 1e-6) << text(act) << " " << i;
  };
  check(Activation::kSilu, {-0.2689414214, 0, 0.3112296656, 1.7615941560});
  check(Activation::kQGelu, {-0.1542042341, 0, 0.3503884366, 1.9356586231});
  check(Activation::kRelu, {0, 0, 0.5, 2});
  check(Activation::kSRelu, {0, 0, 0.25, 4});
}

// T13: the gate is clamped from above only, the linear half on both sides.
TEST(Activation, T13_ClampedSwigluClampsTheGateOnlyFromAbove) {
  const Tensor x = make_tensor({-20, 20, 1, 1, 9, -9, 3, 0}, {2, 4});
  ActivationOptions options;  // limit 7, alpha 1.702, offset 1
  const auto y =
      values_of(activation_forward(Activation::kClampedSwiglu, x, options));
  const auto silu = [](double g) { return g / (1 + std::exp(-1.702 * g)); };
  // Rows are [gate, gate, linear, linear].
  EXPECT_NEAR(y[0], silu(-20) * 2, 1e-18);  // not silu(-7) = -4.7e-5
  EXPECT_NEAR(y[1], silu(7) * 2, 1e-5);
  EXPECT_NEAR(y[2], silu(7) * 4, 1e-5);
  EXPECT_NEAR(y[3], silu(-9) * 1, 1e-9);
  const Tensor dx = activation_backward(
      Activation::kClampedSwiglu, make_tensor({1, 1, 1, 1}, {2, 2}),
      make_tensor({8, 1, 1, 9, 7, 1, 1, -8}, {2, 4}), options);
  const auto g = values_of(dx);
  EXPECT_EQ(g[0], 0);  // above the limit
  EXPECT_NE(g[4], 0);  // on the limit
  EXPECT_EQ(g[3], 0);  // linear beyond the limit, on either side
  EXPECT_EQ(g[7], 0);
  EXPECT_NE(g[2], 0);
}

TEST(Activation, GradientsAreTheSlopesOfTheForward) {
  for (Activation act : all_activations()) {
    // Away from the corners at 0 and at the limit.
    Tensor x = normal_tensor({3, 8}, DType::kF32, 11, Device::kReference, 2);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      float& v = x.mutable_data<float>()[i];
      if (std::fabs(v) < 0.05f) v = 0.25f;
    }
    const Tensor dy = normal_tensor(y_shape(act, {3, 8}), DType::kF32, 12,
                                    Device::kReference);
    const Tensor dx = activation_backward(act, dy, x);
    expect_gradient(
        [&](const Tensor& at) { return activation_forward(act, at); }, x, dy,
        dx, 1e-3, text(act));
    expect_close(
        activation_backward(act, on(Device::kCpu, dy), on(Device::kCpu, x)), dx,
        1e-5, 1e-6, text(act));
  }
}

TEST(Activation, RowScalesScaleRowsAndHaveTheirGradient) {
  for (Activation act :
       {Activation::kSwiglu, Activation::kSituglu, Activation::kClampedSwiglu,
        Activation::kSRelu, Activation::kGelu}) {
    for (Device device : {Device::kCpu, Device::kReference}) {
      const Tensor x = normal_tensor({5, 64}, DType::kF32, 21, device);
      const Tensor s = normal_tensor({5}, DType::kF32, 22, device);
      const Tensor dy =
          normal_tensor(y_shape(act, {5, 64}), DType::kF32, 23, device);
      const auto grads = scaled_activation_backward(act, dy, x, s);
      const auto forward = [&](const Tensor& at) {
        return scaled_activation_forward(act, x, at);
      };
      expect_gradient(forward, s, dy, grads.act_scales, 2e-3, text(act));
      // dx: the plain backward of dy scaled by rows.
      Tensor scaled = normal_tensor(dy.shape(), DType::kF32, 23, device);
      const std::int64_t columns = dy.shape()[1];
      for (std::int64_t i = 0; i < dy.numel(); ++i)
        scaled.mutable_data<float>()[i] *= s.data<float>()[i / columns];
      expect_close(grads.dx, activation_backward(act, scaled, x), 1e-5, 1e-6,
                   text(act));
    }
  }
}

TEST(Activation, InterleavedColumnsAreTheSameFunction) {
  for (std::int64_t size : {1, 8, 32}) {
    const Tensor x = normal_tensor({3, 128}, DType::kBF16, 31);
    const Tensor dy = normal_tensor({3, 64}, DType::kBF16, 32);
    const Tensor mixed = interleave_glu(x, size);
    EXPECT_TRUE(same_bits(deinterleave_glu(mixed, size), x));
    ActivationOptions options;
    options.glu_interleave_size = size;
    EXPECT_TRUE(
        same_bits(activation_forward(Activation::kSwiglu, mixed, options),
                  activation_forward(Activation::kSwiglu, x)));
    EXPECT_TRUE(same_bits(
        activation_backward(Activation::kSwiglu, dy, mixed, options),
        interleave_glu(activation_backward(Activation::kSwiglu, dy, x), size)));
  }
  const Tensor codes = make_tensor({0, 1, 2, 3, 10, 11, 12, 13}, {1, 8});
  EXPECT_EQ(values_of(interleave_glu(codes, 2)),
            (std::vector<double>{0, 1, 10, 11, 2, 3, 12, 13}));
}

// The bias gradient sums what dx was before it was rounded to bf16.
TEST(Activation, TheBiasGradientSumsUnroundedValues) {
  for (Device device : {Device::kCpu, Device::kReference}) {
    const Tensor x = normal_tensor({37, 50}, DType::kBF16, 45, device);
    const Tensor dy = normal_tensor({37, 50}, DType::kBF16, 46, device);
    const auto both = activation_backward_dbias(Activation::kSRelu, dy, x);
    EXPECT_TRUE(
        same_bits(both.dx, activation_backward(Activation::kSRelu, dy, x)));
    const auto a = values_of(x), g = values_of(dy),
               sums = values_of(both.dbias);
    for (std::size_t j = 0; j < 50; ++j) {
      double sum = 0;  // products of 16-bit numbers: exact in fp64
      for (std::size_t r = 0; r < 37; ++r)
        sum += std::max(2 * a[50 * r + j], 0.0) * g[50 * r + j];
      EXPECT_EQ(sums[j], round_to(DType::kBF16, sum)) << j;
    }
    const Tensor dgelu = activation_backward(Activation::kGelu, dy, x);
    EXPECT_TRUE(same_bits(
        dgelu, activation_backward_dbias(Activation::kGelu, dy, x).dx));
  }
}

TEST(Activation, RowsOfFp32RoundToTheStoredResult) {
  const Tensor x = normal_tensor({7, 66}, DType::kBF16, 41);
  const Tensor y = activation_forward(Activation::kGeglu, x);
  std::vector<float> rows(3 * 33);
  activation_rows_f32(Activation::kGeglu, x, 2, 5, {}, rows.data());
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(round_to(DType::kBF16, static_cast<double>(rows[i])),
              values_of(y)[2 * 33 + i]);
}

TEST(Activation, ThreadsDoNotChangeBits) {
  for (Activation act : {Activation::kGelu, Activation::kSwiglu}) {
    const Tensor x = normal_tensor({513, 514}, DType::kBF16, 51);
    const Tensor dy = normal_tensor(y_shape(act, {513, 514}), DType::kBF16, 52);
    expect_thread_invariance(
        [&] {
          return std::vector<Tensor>{activation_forward(act, x),
                                     activation_backward(act, dy, x)};
        },
        text(act));
  }
}

TEST(Activation, StridedInputsAreReadByTheirStrides) {
  const Tensor x = normal_tensor({9, 34}, DType::kF16, 61);
  for (Activation act : {Activation::kSilu, Activation::kReglu})
    EXPECT_TRUE(same_bits(activation_forward(act, strided_like(x)),
                          activation_forward(act, x)));
}

TEST(Activation, ZeroRowsGiveNothing) {
  for (Activation act : all_activations()) {
    const Tensor x = Tensor::empty(DType::kBF16, {0, 64});
    const Tensor y = activation_forward(act, x);
    EXPECT_EQ(y.shape(), y_shape(act, {0, 64}));
    EXPECT_EQ(activation_backward(act, y, x).shape(), x.shape());
  }
}

TEST(Activation, ErrorsNameTheArgument) {
  const Tensor odd = normal_tensor({2, 7}, DType::kF32, 1);
  EXPECT_THAT(error_of([&] { activation_forward(Activation::kGlu, odd); }),
              HasSubstr("activation_forward: x: shape [2, 7], expected an even "
                        "last dimension"));
  EXPECT_THAT(error_of([&] {
                activation_backward(Activation::kGelu,
                                    normal_tensor({2, 6}, DType::kF32, 1), odd);
              }),
              HasSubstr("dy: shape [2, 6], expected [2, 7]"));
  EXPECT_THAT(error_of([&] {
                activation_forward(Activation::kGelu,
                                   Tensor::zeros(DType::kI32, {2}));
              }),
              HasSubstr("x: int32"));
  EXPECT_THAT(error_of([&] {
                ActivationOptions options;
                options.glu_interleave_size = 3;
                activation_forward(Activation::kSwiglu,
                                   normal_tensor({2, 8}, DType::kF32, 1),
                                   options);
              }),
              HasSubstr("a multiple of 3"));
  EXPECT_THAT(error_of([&] {
                scaled_activation_forward(Activation::kSRelu, odd,
                                          normal_tensor({3}, DType::kF32, 1));
              }),
              HasSubstr("act_scales: 3 values, expected 2"));
  EXPECT_THAT(error_of([&] {
                activation_backward(Activation::kGelu, odd,
                                    on(Device::kReference, odd));
              }),
              HasSubstr("cpu and reference"));
}

}  // namespace
}  // namespace assay::te
