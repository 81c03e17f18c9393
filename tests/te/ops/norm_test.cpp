// Norms: published values, rounding points, gradients, dtypes, errors.
#include "assay/te/ops/norm.h"

#include <gmock/gmock.h>

#include "assay/te/ops/norm_rows.h"
#include "assay/te/precision.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

constexpr DType kF32 = DType::kF32;
constexpr DType kBF16 = DType::kBF16;

double first(const Tensor& t) { return values_of(t)[0]; }

// torch.nn.functional.layer_norm([1, 2, 3, 6], weight, bias) in float64:
// mean 3, variance 3.5.
TEST(Norm, LayerNormValuesWorkedByHand) {
  const Tensor x = make_tensor({1, 2, 3, 6}, {1, 4});
  const Tensor gamma = make_tensor({1, 2, 1, 0.5}, {4});
  const Tensor beta = make_tensor({0, 1, 0, -1}, {4});
  NormOptions options;
  options.eps = 0.5f;
  for (Device device : {Device::kCpu, Device::kReference}) {
    const auto f = layernorm_forward(on(device, x), on(device, gamma),
                                     on(device, beta), options);
    EXPECT_EQ(first(f.mean), 3);
    EXPECT_EQ(first(f.rsigma), 0.5);
    EXPECT_EQ(values_of(f.z), (std::vector<double>{-1, 0, 0, -0.25}));
  }
}

// 1 + w in fp32 keeps what bf16 loses; the rounded form is an option.
TEST(Norm, F24_OnePlusGammaIsFormedInFp32) {
  const Tensor gamma = make_tensor({0.00390625, 15.8125}, {2}, kBF16);
  NormOptions options;
  options.zero_centered_gamma = true;
  const auto kept = norm_weights(gamma, options, ColumnOrder::kPlain);
  EXPECT_EQ(kept[0], 1.00390625f);
  EXPECT_EQ(kept[1], 16.8125f);
  options.gamma_in_weight_dtype = true;
  const auto rounded = norm_weights(gamma, options, ColumnOrder::kPlain);
  EXPECT_EQ(rounded[0], 1.0f);
  EXPECT_EQ(rounded[1], 16.75f);
  // The same through the operator, on a row whose normalised values are +-1.
  const Tensor x = make_tensor({8, -8}, {1, 2});
  options.gamma_in_weight_dtype = false;
  options.eps = 0;
  EXPECT_EQ(values_of(rmsnorm_forward(x, gamma, options).z)[1], -16.8125);
}

// rms 15.65696 against the 15.62050 of a running bf16 sum, which stalls at 256.
TEST(Norm, F25_TheVarianceIsNotSummedInBf16) {
  std::vector<double> values(4096, 1.0);
  values.back() = 1000;
  const Tensor x = make_tensor(values, {1, 4096}, kBF16);
  const Tensor gamma = make_tensor(std::vector<double>(4096, 1), {4096}, kBF16);
  NormOptions options;
  options.eps = 0;
  const auto rms = [&](Device device) {
    return 1 / first(rmsnorm_forward(on(device, x), on(device, gamma), options)
                         .rsigma);
  };
  EXPECT_NEAR(rms(Device::kCpu), 15.65696, 1e-5);
  EXPECT_NEAR(rms(Device::kReference), 15.65696, 1e-5);
  PrecisionScope faulty("rmsnorm", InternalPrecision::kWorking);
  EXPECT_NEAR(rms(Device::kCpu), 15.62050, 1e-5);
}

// x^ = 1.00390625 in fp32, w = 1.0078125: fp32 then one rounding gives
// 1.015625; a model that rounds x^ to bf16 first gets 1.0078125.
TEST(Norm, F26_TheRoundingPointsAreAChoice) {
  // y = 2 / sqrt(3 + 0.984375^2) = 1.003899: just below the tie of 1 and
  // 1.0078125, and y * 1.0078125 just above that of 1.0078125 and 1.015625.
  const Tensor x = make_tensor({1, 1, 1, 0.984375}, {1, 4}, kBF16);
  const Tensor w = make_tensor({1.0078125, 1, 1, 1}, {4}, kBF16);
  for (Device device : {Device::kCpu, Device::kReference}) {
    NormOptions options;
    options.eps = 0;
    EXPECT_EQ(first(rmsnorm_forward(on(device, x), on(device, w), options).z),
              1.015625);
    options.rounding = NormRounding::kNormalisedFirst;
    EXPECT_EQ(first(rmsnorm_forward(on(device, x), on(device, w), options).z),
              1.0078125);
  }
}

// A weight of another dtype is used as it is, never NaN.
TEST(Norm, F51_WeightsOfAnotherDtypeAreExact) {
  const Tensor x = normal_tensor({5, 70}, kBF16, 1);
  const Tensor g32 = normal_tensor({70}, kF32, 2);
  const Tensor b16 = normal_tensor({70}, DType::kF16, 3);
  const auto f = layernorm_forward(x, g32, b16);
  const auto r =
      layernorm_forward(on(Device::kReference, x), on(Device::kReference, g32),
                        on(Device::kReference, b16));
  expect_close(f.z, r.z, 0x1p-7, 1e-6, "mixed dtypes");
  for (double v : values_of(f.z)) EXPECT_TRUE(std::isfinite(v));
  const auto b = layernorm_backward(x, x, f.mean, f.rsigma, g32);
  EXPECT_EQ(b.dgamma.dtype(), kF32);
}

struct Case {
  bool centred, zero_centered;
  std::string text() const {
    return std::string(centred ? "layernorm" : "rmsnorm") +
           (zero_centered ? " zero-centred" : "");
  }
};
const Case kCases[] = {
    {true, false}, {true, true}, {false, false}, {false, true}};

NormForward forward_of(const Case& c, const Tensor& x, const Tensor& gamma,
                       const Tensor& beta) {
  NormOptions options;
  options.zero_centered_gamma = c.zero_centered;
  return c.centred ? layernorm_forward(x, gamma, beta, options)
                   : rmsnorm_forward(x, gamma, options);
}

NormBackward backward_of(const Case& c, const Tensor& dz, const Tensor& x,
                         const Tensor& gamma, const NormForward& f) {
  NormOptions options;
  options.zero_centered_gamma = c.zero_centered;
  return c.centred ? layernorm_backward(dz, x, f.mean, f.rsigma, gamma, options)
                   : rmsnorm_backward(dz, x, f.rsigma, gamma, options);
}

TEST(Norm, GradientsAreTheSlopesOfTheForward) {
  constexpr Device kRef = Device::kReference;
  for (const Case& c : kCases) {
    const Tensor x = normal_tensor({4, 9}, kF32, 11, kRef);
    const Tensor gamma = normal_tensor({9}, kF32, 12, kRef);
    const Tensor beta = normal_tensor({9}, kF32, 13, kRef);
    const Tensor dz = normal_tensor({4, 9}, kF32, 14, kRef);
    const auto f = forward_of(c, x, gamma, beta);
    const auto b = backward_of(c, dz, x, gamma, f);
    const auto z_of = [&](const Tensor& at) {
      return forward_of(c, at, gamma, beta).z;
    };
    expect_gradient(z_of, x, dz, b.dx, 2e-3, c.text() + " dx");
    expect_gradient(
        [&](const Tensor& at) { return forward_of(c, x, at, beta).z; }, gamma,
        dz, b.dgamma, 2e-3, c.text() + " dgamma");
    if (c.centred)
      expect_gradient(
          [&](const Tensor& at) { return forward_of(c, x, gamma, at).z; }, beta,
          dz, b.dbeta, 2e-3, c.text() + " dbeta");
  }
}

// Every table against the fp64 loops, at and beside the steps of 16 and 32
// columns and of 16 rows.
TEST(Norm, FastAgreesWithTheReferenceAtEveryEdge) {
  for (const Case& c : kCases) {
    for (DType dtype : {kF32, kBF16, DType::kF16}) {
      for (std::int64_t columns : {1, 7, 8, 15, 16, 17, 31, 32, 33, 64, 257}) {
        for (std::int64_t rows : {1, 15, 16, 17, 33}) {
          const Tensor x = normal_tensor({rows, columns}, dtype, 21);
          const Tensor dz = normal_tensor({rows, columns}, dtype, 22);
          const Tensor gamma = normal_tensor({columns}, dtype, 23);
          const Tensor beta = normal_tensor({columns}, dtype, 24);
          const auto ref = [](const Tensor& t) {
            return on(Device::kReference, t);
          };
          const auto f = forward_of(c, x, gamma, beta);
          const auto rf = forward_of(c, ref(x), ref(gamma), ref(beta));
          const double u = dtype == kF32 ? 2e-6 : unit_roundoff(dtype) * 2;
          const std::string what = c.text() + " " + to_string(x.shape());
          expect_close(f.rsigma, rf.rsigma, 1e-5, 0, what + " rsigma");
          expect_close(f.z, rf.z, u, 4e-6, what + " z");
          const auto b = backward_of(c, dz, x, gamma, f);
          auto rsaved = rf;
          const auto rb = backward_of(c, ref(dz), ref(x), ref(gamma), rsaved);
          // One column: dx is 0 up to the rounding of its terms, which
          // rsigma = 316 magnifies.
          const double atol = columns == 1 ? 2e-3 : 1e-4;
          expect_close(b.dx, rb.dx, 4 * u, atol, what + " dx");
          expect_close(b.dgamma, rb.dgamma, 2 * u, 1e-4, what + " dgamma");
          if (c.centred)
            expect_close(b.dbeta, rb.dbeta, 2 * u, 1e-5, what + " dbeta");
        }
      }
    }
  }
}

TEST(Norm, TheResidualIsAddedRoundedAndReturned) {
  const Tensor x = normal_tensor({5, 48}, kBF16, 31);
  const Tensor residual = normal_tensor({5, 48}, kBF16, 32);
  const Tensor gamma = normal_tensor({48}, kBF16, 33);
  const auto fused = rmsnorm_add_forward(x, residual, gamma);
  auto sum = values_of(x);
  const auto r = values_of(residual);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += r[i];
  const Tensor expected = make_tensor(sum, {5, 48}, kBF16);
  EXPECT_TRUE(same_bits(fused.sum, expected));
  EXPECT_TRUE(same_bits(fused.z, rmsnorm_forward(expected, gamma).z));
  const auto ln = layernorm_add_forward(x, residual, gamma, gamma);
  EXPECT_TRUE(same_bits(ln.z, layernorm_forward(expected, gamma, gamma).z));
}

TEST(Norm, BackwardAddIsOneRoundingOfTheSum) {
  const Tensor x = normal_tensor({6, 40}, kF32, 41);
  const Tensor dz = normal_tensor({6, 40}, kF32, 42);
  const Tensor add = normal_tensor({6, 40}, kF32, 43);
  const Tensor gamma = normal_tensor({40}, kF32, 44);
  const auto f = layernorm_forward(x, gamma, gamma);
  const auto plain = layernorm_backward(dz, x, f.mean, f.rsigma, gamma);
  const auto fused =
      layernorm_backward_add(dz, x, add, f.mean, f.rsigma, gamma);
  const auto a = values_of(plain.dx), b = values_of(add),
             c = values_of(fused.dx);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(c[i], a[i] + b[i], 0x1p-23 * (1 + std::fabs(c[i])));
  EXPECT_TRUE(same_bits(plain.dgamma, fused.dgamma));
}

TEST(Norm, EveryInternalPrecisionIsCloseAndF64IsTheReference) {
  const Tensor x = normal_tensor({7, 300}, kF32, 51);
  const Tensor gamma = normal_tensor({300}, kF32, 52);
  const Tensor dz = normal_tensor({7, 300}, kF32, 53);
  const auto ref = [](const Tensor& t) { return on(Device::kReference, t); };
  const auto rf = layernorm_forward(ref(x), ref(gamma), ref(gamma));
  for (InternalPrecision p : kInternalPrecisions) {
    NormOptions options;
    options.precision = p;
    const auto f = layernorm_forward(x, gamma, gamma, options);
    const auto b = layernorm_backward(dz, x, f.mean, f.rsigma, gamma, options);
    const std::string name(precision_name(p));
    expect_close(f.z, rf.z, 1e-5, 1e-5, name);
    if (p == InternalPrecision::kF64) {
      EXPECT_TRUE(same_bits(f.z, on(Device::kCpu, rf.z)));
    }
    const auto rb =
        layernorm_backward(ref(dz), ref(x), rf.mean, rf.rsigma, ref(gamma));
    expect_close(b.dgamma, rb.dgamma, 1e-5, 1e-5, name);
    expect_close(b.dx, rb.dx, 1e-5, 1e-5, name);
  }
}

TEST(Norm, ThreadsDoNotChangeBits) {
  const Tensor x = normal_tensor({700, 130}, kBF16, 61);
  const Tensor gamma = normal_tensor({130}, kBF16, 62);
  expect_thread_invariance(
      [&] {
        const auto f = layernorm_forward(x, gamma, gamma);
        const auto b = layernorm_backward(x, x, f.mean, f.rsigma, gamma);
        return std::vector<Tensor>{f.z,  f.mean,   f.rsigma,
                                   b.dx, b.dgamma, b.dbeta};
      },
      "layernorm");
}

TEST(Norm, L2NormalisationDividesByTheRootOfTheSum) {
  const Tensor x = make_tensor({3, 4, 0, 0}, {2, 2});
  L2NormOptions options;
  options.eps = 0;
  const auto y = values_of(l2_normalization_forward(x, options).y);
  EXPECT_FLOAT_EQ(y[0], 0.6);
  EXPECT_FLOAT_EQ(y[1], 0.8);
  // eps keeps a zero row finite.
  EXPECT_EQ(values_of(l2_normalization_forward(x).y)[2], 0);
  const Tensor in = normal_tensor({3, 7}, kF32, 71, Device::kReference);
  const Tensor dy = normal_tensor({3, 7}, kF32, 72, Device::kReference);
  const auto f = l2_normalization_forward(in);
  const Tensor dx = l2_normalization_backward(dy, in, f.rsigma);
  expect_gradient(
      [](const Tensor& at) { return l2_normalization_forward(at).y; }, in, dy,
      dx, 1e-3, "l2");
  const auto cpu = [](const Tensor& t) { return on(Device::kCpu, t); };
  expect_close(l2_normalization_backward(cpu(dy), cpu(in), cpu(f.rsigma)), dx,
               1e-5, 1e-6, "l2 fast");
}

TEST(Norm, NonFiniteValuesStayInTheirRow) {
  Tensor x = normal_tensor({3, 40}, kF32, 81);
  x.mutable_data<float>()[45] = std::nanf("");
  const Tensor gamma = normal_tensor({40}, kF32, 82);
  const auto z = values_of(layernorm_forward(x, gamma, gamma).z);
  for (std::size_t i = 0; i < z.size(); ++i)
    EXPECT_EQ(std::isnan(z[i]), i >= 40 && i < 80) << i;
}

TEST(Norm, StridedInputsAndZeroRows) {
  const Tensor x = normal_tensor({9, 34}, kBF16, 91);
  const Tensor gamma = normal_tensor({34}, kBF16, 92);
  EXPECT_TRUE(same_bits(rmsnorm_forward(strided_like(x), gamma).z,
                        rmsnorm_forward(x, gamma).z));
  const Tensor none = Tensor::empty(kBF16, {0, 34});
  const auto f = layernorm_forward(none, gamma, gamma);
  EXPECT_EQ(f.z.shape(), (Shape{0, 34}));
  EXPECT_EQ(f.rsigma.shape(), (Shape{0}));
  const auto b = layernorm_backward(none, none, f.mean, f.rsigma, gamma);
  for (double v : values_of(b.dgamma)) EXPECT_EQ(v, 0);
  for (double v : values_of(b.dbeta)) EXPECT_EQ(v, 0);
}

TEST(Norm, EpsilonsOutsideTheirRangeAreRefused) {
  const Tensor x = normal_tensor({2, 8}, DType::kF32, 1);
  const Tensor g = normal_tensor({8}, DType::kF32, 2);
  EXPECT_EQ(error_of([&] { rmsnorm_forward(x, g, {.eps = -1}); }),
            "rmsnorm_forward: eps: -1, expected finite and at least 0");
  EXPECT_EQ(error_of([&] { layernorm_forward(x, g, g, {.eps = NAN}); }),
            "layernorm_forward: eps: nan, expected finite and at least 0");
  EXPECT_EQ(error_of([&] { l2_normalization_forward(x, {.eps = -1}); }),
            "l2_normalization_forward: eps: -1, expected finite and at least "
            "0");
  EXPECT_NO_THROW(rmsnorm_forward(x, g, {.eps = 0}));
}

TEST(Norm, ErrorsNameTheArgument) {
  const Tensor x = normal_tensor({2, 8}, kF32, 1);
  const Tensor gamma = normal_tensor({7}, kF32, 1);
  EXPECT_THAT(error_of([&] { rmsnorm_forward(x, gamma); }),
              HasSubstr("rmsnorm_forward: gamma: shape [7], expected [8]"));
  EXPECT_THAT(error_of([&] {
                rmsnorm_forward(Tensor::empty(kF32, {2, 0}), gamma);
              }),
              HasSubstr("a last dimension of at least 1"));
  EXPECT_THAT(error_of([&] {
                const Tensor ok = normal_tensor({8}, kF32, 1);
                rmsnorm_backward(normal_tensor({2, 8}, kBF16, 1), x, ok, ok);
              }),
              HasSubstr("dz: bfloat16, expected float32"));
  EXPECT_THAT(error_of([&] {
                const Tensor ok = normal_tensor({8}, kF32, 1);
                rmsnorm_backward(x, x, ok, ok);
              }),
              HasSubstr("rsigma: shape [8], expected [2]"));
  EXPECT_THAT(error_of([&] {
                rmsnorm_add_forward(x, gamma, normal_tensor({8}, kF32, 1));
              }),
              HasSubstr("residual: shape [7]"));
}

}  // namespace
}  // namespace assay::te
