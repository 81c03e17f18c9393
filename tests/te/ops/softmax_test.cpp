// Softmax: masks, extra terms, gradients, edges, the fused kernel's gate.
#include "assay/te/ops/softmax.h"

#include <gmock/gmock.h>

#include <limits>

#include "assay/te/precision.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

constexpr DType kF32 = DType::kF32;
constexpr DType kBF16 = DType::kBF16;
constexpr Device kDevices[] = {Device::kCpu, Device::kReference};

SoftmaxOptions with(SoftmaxMask mask, float scale = 1.0f) {
  SoftmaxOptions options;
  options.mask = mask;
  options.scale = scale;
  return options;
}

double sum(const std::vector<double>& v, std::size_t begin, std::size_t end) {
  double total = 0;
  for (std::size_t i = begin; i < end; ++i) total += v[i];
  return total;
}

TEST(Softmax, ValuesWorkedByHand) {
  const double e = std::exp(1.0);
  for (Device device : kDevices) {
    const Tensor x = make_tensor({0, 0.5}, {1, 2}, kF32, device);
    const auto y = values_of(softmax_forward(x, with(SoftmaxMask::kNone, 2)).y);
    EXPECT_NEAR(y[0], 1 / (1 + e), 1e-7);
    EXPECT_NEAR(y[1], e / (1 + e), 1e-7);
  }
}

// T11: zeros, not a uniform row, and gradients that are zero and finite.
TEST(Softmax, T11_AFullyMaskedRowIsZerosWithFiniteGradients) {
  for (Device device : kDevices) {
    for (DType dtype : {kF32, kBF16}) {
      const Tensor x = normal_tensor({1, 2, 2, 40}, dtype, 1, device);
      Tensor mask = Tensor::zeros(DType::kU8, {1, 1, 2, 40}, device);
      std::fill_n(mask.mutable_data<std::uint8_t>(), 40, std::uint8_t{1});
      const auto f = softmax_forward(x, with(SoftmaxMask::kPadding), &mask);
      const auto y = values_of(f.y);
      const Tensor dy = normal_tensor({1, 2, 2, 40}, dtype, 2, device);
      const auto dx =
          values_of(softmax_backward(dy, f.y, with(SoftmaxMask::kPadding)).dx);
      for (std::size_t i = 0; i < 160; ++i) {
        if (i / 40 % 2 == 0) {
          EXPECT_EQ(y[i], 0);
          EXPECT_EQ(dx[i], 0);
        }
        EXPECT_TRUE(std::isfinite(dx[i]));
      }
      EXPECT_NEAR(sum(y, 40, 80), 1, 0.01);
    }
  }
}

// A masked column's NaN never reaches the result; an open one's fills its row.
TEST(Softmax, F37_ANanInAMaskedColumnDoesNotLeak) {
  const double nan = std::nan("");
  for (Device device : kDevices) {
    const Tensor x =
        make_tensor({1, nan, 2, 3, 1, 2}, {1, 1, 2, 3}, kF32, device);
    Tensor mask = Tensor::zeros(DType::kU8, {1, 1, 2, 3}, device);
    mask.mutable_data<std::uint8_t>()[1] = 1;
    const auto y =
        values_of(softmax_forward(x, with(SoftmaxMask::kPadding), &mask).y);
    EXPECT_EQ(y[1], 0);
    EXPECT_NEAR(y[0] + y[2], 1, 1e-6);
    const auto open = values_of(softmax_forward(x).y);
    for (int j = 0; j < 3; ++j) EXPECT_TRUE(std::isnan(open[j]));
    EXPECT_NEAR(sum(open, 3, 6), 1, 1e-6);
    // Causal: the excluded column is not even read.
    const Tensor square =
        make_tensor({1, nan, nan, 1, 2, nan, 1, 2, 3}, {3, 3}, kF32, device);
    const auto causal = values_of(
        softmax_forward(square, with(SoftmaxMask::kUpperTriangular)).y);
    EXPECT_EQ(causal[0], 1);
    for (double v : causal) EXPECT_TRUE(std::isfinite(v));
  }
}

// -3.4e38 plus a score of -1e32 is -inf in the additive form; the fill is not.
TEST(Softmax, F38_HugeNegativeScoresUnderAMaskStayFinite) {
  for (Device device : kDevices) {
    const Tensor x =
        make_tensor({-1e32, -1e32, -1e32, 5}, {1, 1, 2, 2}, kF32, device);
    Tensor mask = Tensor::zeros(DType::kU8, {1, 1, 2, 2}, device);
    mask.mutable_data<std::uint8_t>()[0] = 1;
    mask.mutable_data<std::uint8_t>()[1] = 1;
    mask.mutable_data<std::uint8_t>()[2] = 1;
    for (double v :
         values_of(softmax_forward(x, with(SoftmaxMask::kPadding), &mask).y))
      EXPECT_TRUE(std::isfinite(v));
  }
}

// All the lengths at and beside tiles; whatever the mask, finite and of sum 1.
TEST(Softmax, F45_EveryLengthBesideATileIsFinite) {
  for (DType dtype : {kF32, kBF16, DType::kF16}) {
    for (std::int64_t sk : {1,  7,  8,  9,   15,  16,  17,  31,  32,  33,
                            63, 64, 65, 127, 128, 129, 255, 256, 257, 512}) {
      const Tensor x = normal_tensor({1, 1, 3, sk}, dtype, 7);
      Tensor mask = Tensor::zeros(DType::kU8, {1, 1, 3, sk});
      for (std::int64_t j = 0; j < 3 * sk; ++j)
        mask.mutable_data<std::uint8_t>()[j] = j % 5 == 1 ? 3 : 0;
      const auto ref = [](const Tensor& t) {
        return on(Device::kReference, t);
      };
      const Tensor dy = normal_tensor({1, 1, 3, sk}, dtype, 8);
      const double rtol = dtype == kF32 ? 3e-6 : 2 * unit_roundoff(dtype);
      const double atol = dtype == kF32 ? 1e-7 : 1e-4;
      for (SoftmaxMask kind : {SoftmaxMask::kNone, SoftmaxMask::kPadding,
                               SoftmaxMask::kAlignedCausal}) {
        const auto options = with(kind, 0.7f);
        const bool padding = kind == SoftmaxMask::kPadding;
        const Tensor rmask = ref(mask);
        const auto f = softmax_forward(x, options, padding ? &mask : nullptr);
        const auto r =
            softmax_forward(ref(x), options, padding ? &rmask : nullptr);
        const std::string what = "sk " + std::to_string(sk);
        expect_close(f.y, r.y, rtol, atol, what + " y");
        expect_close(softmax_backward(dy, f.y, options).dx,
                     softmax_backward(ref(dy), r.y, options).dx, 2 * rtol,
                     dtype == kF32 ? 1e-6 : 0.01, what + " dx");
      }
    }
  }
}

// 32 x 32 ramp: the sum of a row may be an ulp below 1; each exponential is
// within its own bound all the same, so that floor() of the sum is to blame.
TEST(Softmax, F47_ASumJustBelowOneIsWithinBudget) {
  std::vector<double> ramp;
  for (int i = 0; i < 1024; ++i) ramp.push_back(i / 32.0 - 16);
  const auto y = values_of(softmax_forward(make_tensor(ramp, {32, 32})).y);
  for (std::size_t r = 0; r < 32; ++r)
    EXPECT_NEAR(sum(y, 32 * r, 32 * r + 32), 1, 2e-7);
}

TEST(Softmax, AlignedCausalCountsFromTheBottomRight) {
  const Tensor x = Tensor::zeros(kF32, {1, 1, 2, 4});
  const auto y =
      values_of(softmax_forward(x, with(SoftmaxMask::kAlignedCausal)).y);
  const double third = static_cast<float>(1.0f / 3.0f);
  EXPECT_EQ(
      y, (std::vector<double>{third, third, third, 0, 0.25, 0.25, 0.25, 0.25}));
  // More queries than keys: the first ones see nothing.
  const Tensor tall = Tensor::zeros(kF32, {1, 1, 3, 1});
  EXPECT_EQ(
      values_of(softmax_forward(tall, with(SoftmaxMask::kAlignedCausal)).y),
      (std::vector<double>{0, 0, 1}));
}

TEST(Softmax, AMaskIsPerBatchOrShared) {
  const Tensor x = normal_tensor({2, 3, 4, 20}, kF32, 21);
  Tensor own = Tensor::zeros(DType::kU8, {2, 1, 4, 20});
  for (std::int64_t i = 0; i < own.numel(); ++i)
    own.mutable_data<std::uint8_t>()[i] = i % 7 == 0;
  const auto y =
      values_of(softmax_forward(x, with(SoftmaxMask::kPadding), &own).y);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t batch = i / 240, query = i / 20 % 4, key = i % 20;
    const bool masked = ((batch * 4 + query) * 20 + key) % 7 == 0;
    EXPECT_EQ(y[static_cast<std::size_t>(i)] == 0, masked) << i;
  }
  Tensor shared = Tensor::zeros(DType::kBool, {1, 1, 4, 20});
  shared.mutable_data<std::uint8_t>()[3] = 1;
  const auto z =
      values_of(softmax_forward(x, with(SoftmaxMask::kPadding), &shared).y);
  for (std::size_t head = 0; head < 6; ++head) {
    EXPECT_EQ(z[head * 80 + 3], 0);
    EXPECT_NE(z[head * 80 + 23], 0);
  }
}

TEST(Softmax, ExtraTermsEnterTheDenominator) {
  const double l2 = std::log(2.0);
  for (Device device : kDevices) {
    const Tensor x = make_tensor({0, l2, 0, 0}, {1, 2, 1, 2}, kF32, device);
    SoftmaxOptions options;
    options.type = SoftmaxType::kOffByOne;
    const auto one = softmax_forward(x, options);
    EXPECT_NEAR(values_of(one.y)[0], 0.25, 1e-7);  // 1 / (1 + 2 + 1)
    EXPECT_NEAR(values_of(one.y)[1], 0.5, 1e-7);
    EXPECT_NEAR(values_of(one.extra)[0], 0.25, 1e-7);
    options.type = SoftmaxType::kLearnable;
    const Tensor offset = make_tensor({std::log(5.0), -30}, {2}, kF32, device);
    const auto learnt = softmax_forward(x, options, nullptr, &offset);
    EXPECT_NEAR(values_of(learnt.y)[0], 1.0 / 8, 1e-7);
    EXPECT_NEAR(values_of(learnt.extra)[0], 5.0 / 8, 1e-7);
    EXPECT_NEAR(values_of(learnt.y)[2], 0.5, 1e-7);
  }
}

TEST(Softmax, GradientsAreTheSlopesOfTheForward) {
  constexpr Device kRef = Device::kReference;
  const Tensor x = normal_tensor({2, 2, 4, 4}, kF32, 31, kRef);
  const Tensor dy = normal_tensor({2, 2, 4, 4}, kF32, 32, kRef);
  const Tensor offset = normal_tensor({2}, kF32, 33, kRef);
  for (SoftmaxMask mask : {SoftmaxMask::kNone, SoftmaxMask::kUpperTriangular,
                           SoftmaxMask::kAlignedCausal}) {
    for (SoftmaxType type : {SoftmaxType::kVanilla, SoftmaxType::kOffByOne,
                             SoftmaxType::kLearnable}) {
      SoftmaxOptions options = with(mask, 0.6f);
      options.type = type;
      const bool learnable = type == SoftmaxType::kLearnable;
      const Tensor* extra_term = learnable ? &offset : nullptr;
      const auto f = softmax_forward(x, options, nullptr, extra_term);
      const auto b =
          softmax_backward(dy, f.y, options, learnable ? &f.extra : nullptr);
      expect_gradient(
          [&](const Tensor& at) {
            return softmax_forward(at, options, nullptr, extra_term).y;
          },
          x, dy, b.dx, 1e-3, "dx");
      const auto cpu = [](const Tensor& t) { return on(Device::kCpu, t); };
      const Tensor cpu_extra = learnable ? cpu(f.extra) : Tensor();
      const auto fast = softmax_backward(cpu(dy), cpu(f.y), options,
                                         learnable ? &cpu_extra : nullptr);
      expect_close(fast.dx, b.dx, 1e-5, 1e-6, "fast dx");
      if (!learnable) continue;
      expect_gradient(
          [&](const Tensor& at) {
            return softmax_forward(x, options, nullptr, &at).y;
          },
          offset, dy, b.doffset, 1e-3, "doffset");
      expect_close(fast.doffset, b.doffset, 1e-5, 1e-6, "fast doffset");
    }
  }
}

TEST(Softmax, EveryInternalPrecisionIsClose) {
  const Tensor x = normal_tensor({5, 700}, kF32, 41);
  const auto reference = softmax_forward(on(Device::kReference, x)).y;
  for (InternalPrecision p : kInternalPrecisions) {
    SoftmaxOptions options;
    options.precision = p;
    expect_close(softmax_forward(x, options).y, reference, 2e-6, 1e-9,
                 std::string(precision_name(p)));
  }
  // A bf16 running sum of ones stalls at 256: 1/256 instead of 1/700.
  PrecisionScope scope("softmax", InternalPrecision::kWorking);
  const auto stalled =
      values_of(softmax_forward(Tensor::zeros(kBF16, {1, 700})).y);
  EXPECT_EQ(stalled[0], 1.0 / 256);
}

TEST(Softmax, ThreadsDoNotChangeBits) {
  const Tensor x = normal_tensor({1, 2, 300, 300}, kBF16, 51);
  const Tensor offset = normal_tensor({2}, kF32, 52);
  SoftmaxOptions options = with(SoftmaxMask::kUpperTriangular);
  options.type = SoftmaxType::kLearnable;
  expect_thread_invariance(
      [&] {
        const auto f = softmax_forward(x, options, nullptr, &offset);
        const auto b = softmax_backward(x, f.y, options, &f.extra);
        return std::vector<Tensor>{f.y, f.extra, b.dx, b.doffset};
      },
      "softmax");
}

TEST(Softmax, StridedInputsAndZeroRows) {
  const Tensor x = normal_tensor({9, 34}, kBF16, 61);
  EXPECT_TRUE(
      same_bits(softmax_forward(strided_like(x)).y, softmax_forward(x).y));
  const Tensor none = Tensor::empty(kBF16, {0, 2, 4, 8});
  const auto f = softmax_forward(none);
  EXPECT_EQ(f.y.shape(), none.shape());
  EXPECT_EQ(softmax_backward(none, f.y).dx.shape(), none.shape());
}

// Each condition of the gate, one broken at a time.
TEST(Softmax, TheFusedKernelsGate) {
  FusedSoftmaxQuery good;
  good.batch = 2;
  good.heads = 2;
  good.sq = 64;
  good.sk = 64;
  EXPECT_TRUE(fused_softmax_available(good));
  const auto broken = [&](auto change) {
    FusedSoftmaxQuery q = good;
    change(q);
    return !fused_softmax_available(q);
  };
  EXPECT_TRUE(broken([](auto& q) { q.dtype = kF32; }));
  EXPECT_TRUE(broken([](auto& q) { q.fusion_enabled = false; }));
  EXPECT_TRUE(broken([](auto& q) { q.sk = 16; }));
  EXPECT_TRUE(broken([](auto& q) { q.sk = 16384; }));
  EXPECT_FALSE(broken([](auto& q) { q.sk = 16376; }));
  EXPECT_TRUE(broken([](auto& q) { q.sk = 60; }));
  EXPECT_TRUE(broken([](auto& q) { q.sq = 1; }));
  EXPECT_TRUE(broken([](auto& q) { q.sq = 66; }));
  EXPECT_TRUE(broken([](auto& q) { q.heads = 3; }));
  // Eight rows to a block up to 128 columns, four beyond.
  EXPECT_TRUE(broken([](auto& q) { q.sq = 12; }));
  EXPECT_FALSE(broken([](auto& q) { q.sq = 12, q.sk = 256; }));
  EXPECT_TRUE(broken([](auto& q) {
    q.mask = SoftmaxMask::kUpperTriangular;
    q.sk = 128;
  }));
  EXPECT_TRUE(broken([](auto& q) { q.mask = SoftmaxMask::kPadding; }));
  EXPECT_FALSE(broken([](auto& q) {
    q.mask = SoftmaxMask::kPadding;
    q.mask_shape = {1, 1, 64, 64};
  }));
  EXPECT_TRUE(broken([](auto& q) {
    q.mask = SoftmaxMask::kPadding;
    q.mask_shape = {2, 1, 1, 64};
  }));
}

TEST(Softmax, ErrorsNameTheArgument) {
  const Tensor x = normal_tensor({1, 2, 4, 8}, kF32, 1);
  EXPECT_THAT(error_of([&] {
                softmax_forward(x, with(SoftmaxMask::kUpperTriangular));
              }),
              HasSubstr("sq == sk"));
  EXPECT_THAT(
      error_of([&] { softmax_forward(x, with(SoftmaxMask::kPadding)); }),
      HasSubstr("softmax_forward: mask: none"));
  EXPECT_THAT(error_of([&] {
                const Tensor mask = Tensor::zeros(DType::kU8, {1, 1, 4, 7});
                softmax_forward(x, with(SoftmaxMask::kPadding), &mask);
              }),
              HasSubstr("mask: shape [1, 1, 4, 7], expected [1, 1, 4, 8]"));
  EXPECT_THAT(error_of([&] {
                SoftmaxOptions options;
                options.type = SoftmaxType::kLearnable;
                const Tensor offset = Tensor::zeros(kF32, {3});
                softmax_forward(x, options, nullptr, &offset);
              }),
              HasSubstr("offset: shape [3], expected [2]"));
  EXPECT_THAT(
      error_of([&] { softmax_backward(normal_tensor({2}, kF32, 1), x); }),
      HasSubstr("dy: shape [2]"));
}

}  // namespace
}  // namespace assay::te
