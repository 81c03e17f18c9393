// The GEMM operators: layouts, scaling modes, epilogues, errors.
#include "assay/te/ops/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/numerics/element.h"
#include "assay/te/ops/grouped_gemm.h"
#include "assay/te/precision.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"

namespace assay::te {
namespace {

// Values that differ from place to place, about normal in size.
Tensor filled(DType dtype, Shape shape, double seed,
              Device device = Device::kCpu) {
  Tensor t = Tensor::empty(dtype, std::move(shape), device);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const double x = std::sin(seed + 12.9898 * static_cast<double>(i)) * 43.7;
    store_from_double(dtype, 2 * (x - std::floor(x)) - 1, t.mutable_data(), i);
  }
  return t;
}

double at(const Tensor& t, std::int64_t i) {
  return load_as_double(t.dtype(), t.view.data, i);
}

struct Sums {
  std::vector<double> value, magnitude;
};

// b_last: b is [M, K], else [K, M]; a likewise.
Sums product(const Tensor& a, bool a_last, const Tensor& b, bool b_last) {
  const std::int64_t a0 = a.shape()[0], a1 = a.shape()[1];
  const std::int64_t b0 = b.shape()[0], b1 = b.shape()[1];
  const std::int64_t n = a_last ? a0 : a1, k = a_last ? a1 : a0;
  const std::int64_t m = b_last ? b0 : b1;
  Sums s;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double value = 0, magnitude = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const double p = at(a, a_last ? j * k + l : l * n + j) *
                         at(b, b_last ? i * k + l : l * m + i);
        value += p;
        magnitude += std::fabs(p);
      }
      s.value.push_back(value);
      s.magnitude.push_back(magnitude);
    }
  }
  return s;
}

void expect_close(const Tensor& d, const Sums& s, double rounding = 0) {
  ASSERT_EQ(d.numel(), static_cast<std::int64_t>(s.value.size()));
  for (std::size_t i = 0; i < s.value.size(); ++i)
    ASSERT_NEAR(at(d, static_cast<std::int64_t>(i)), s.value[i],
                2e-6 * s.magnitude[i] + rounding * std::fabs(s.value[i]))
        << i;
}

template <typename Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const Device kDevices[] = {Device::kCpu, Device::kReference};
const DType kHigh[] = {DType::kF32, DType::kBF16, DType::kF16};

TEST(GemmOps, LayoutsAreNvtes) {
  for (Device device : kDevices) {
    for (DType dtype : kHigh) {
      for (GemmLayout layout : {GemmLayout::kTN, GemmLayout::kNN,
                                GemmLayout::kNT, GemmLayout::kTT}) {
        const bool a_last =
            layout == GemmLayout::kTN || layout == GemmLayout::kTT;
        const bool b_last =
            layout == GemmLayout::kTN || layout == GemmLayout::kNN;
        const Tensor a =
            filled(dtype, a_last ? Shape{7, 19} : Shape{19, 7}, 1, device);
        const Tensor b =
            filled(dtype, b_last ? Shape{5, 19} : Shape{19, 5}, 2, device);
        const Tensor d = gemm(a, b, layout).d;
        EXPECT_EQ(d.shape(), (Shape{5, 7}));
        EXPECT_EQ(d.dtype(), dtype);
        expect_close(d, product(a, a_last, b, b_last), unit_roundoff(dtype));
      }
    }
  }
}

TEST(GemmOps, LeadingDimensionsOfTheInputStay) {
  const Tensor x = filled(DType::kF32, {2, 3, 8}, 1);
  const Tensor w = filled(DType::kF32, {5, 8}, 2);
  const Tensor y = gemm_fprop(x, w).d;
  EXPECT_EQ(y.shape(), (Shape{2, 3, 5}));
  const Tensor dx = gemm_dgrad(y, w).d;
  EXPECT_EQ(dx.shape(), x.shape());
  EXPECT_EQ(gemm_wgrad(y, x).d.shape(), w.shape());
}

// d(sum of y c)/dw and /dx by differences of the fp64 reference.
TEST(GemmOps, GradientsAreThoseOfTheForwardProduct) {
  const Device device = Device::kReference;
  Tensor x = filled(DType::kF32, {3, 6}, 1, device);
  Tensor w = filled(DType::kF32, {4, 6}, 2, device);
  const Tensor dy = filled(DType::kF32, {3, 4}, 3, device);
  const auto loss = [&] {
    const Tensor y = gemm_fprop(x, w).d;
    double sum = 0;
    for (std::int64_t i = 0; i < 12; ++i) sum += at(y, i) * at(dy, i);
    return sum;
  };
  const auto check = [&](Tensor& parameter, const Tensor& gradient) {
    for (std::int64_t i = 0; i < parameter.numel(); ++i) {
      float& p = parameter.mutable_data<float>()[i];
      const float before = p;
      p = before + 0.125f;
      const double up = loss();
      p = before - 0.125f;
      const double down = loss();
      p = before;
      EXPECT_NEAR(at(gradient, i), (up - down) / 0.25, 1e-5);
    }
  };
  check(x, gemm_dgrad(dy, w).d);
  check(w, gemm_wgrad(dy, x).d);
}

// Quantised operands: the same sums as of the decoded ones, for the three
// products of a linear layer, on both devices.
class GemmModes : public testing::TestWithParam<ScalingMode> {
 public:
  std::unique_ptr<Quantizer> quantizer(bool weight) const {
    switch (GetParam()) {
      case ScalingMode::kTensor:
        return std::make_unique<CurrentScalingQuantizer>(
            CurrentScalingOptions{});
      case ScalingMode::kMXFP8:
        return std::make_unique<MXFP8Quantizer>(DType::kE4M3FN);
      case ScalingMode::kNVFP4:
        return std::make_unique<NVFP4Quantizer>();
      default:
        return std::make_unique<Block128Quantizer>(
            Block128Options{.block_dim = weight ? 2 : 1, .pow2 = false});
    }
  }
};

TEST_P(GemmModes, ThreeProductsAgreeWithTheDecodedOperands) {
  const std::int64_t m = 160, n = 32, k = 288;
  const Tensor x = filled(DType::kBF16, {m, k}, 1);
  const Tensor w = filled(DType::kBF16, {n, k}, 2);
  const Tensor dy = filled(DType::kBF16, {m, n}, 3);
  for (Device device : kDevices) {
    const auto quantized = [&](const Tensor& t, bool weight) {
      QuantizedTensor q = quantizer(weight)->quantize(t);
      q.device = device;
      return q;
    };
    const QuantizedTensor qx = quantized(x, false), qw = quantized(w, true),
                          qdy = quantized(dy, false);
    const auto decoded = [](const QuantizedTensor& q, bool rowwise) {
      return dequantize(rowwise ? *q.rowwise : *q.columnwise, q.shape,
                        DType::kF32);
    };
    GemmOptions o;
    o.out_dtype = DType::kF32;
    expect_close(gemm_fprop(qx, qw, o).d,
                 product(decoded(qw, true), true, decoded(qx, true), true),
                 3e-7);
    expect_close(gemm_dgrad(qdy, qw, o).d,
                 product(decoded(qw, false), false, decoded(qdy, true), true),
                 3e-7);
    expect_close(gemm_wgrad(qdy, qx, o).d,
                 product(decoded(qx, false), false, decoded(qdy, false), false),
                 3e-7);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GemmModes,
                         testing::Values(ScalingMode::kTensor,
                                         ScalingMode::kBlock1D,
                                         ScalingMode::kMXFP8,
                                         ScalingMode::kNVFP4));

QuantizedTensor per_tensor(const Tensor& codes, float scale_inv) {
  QuantizedTensor q;
  q.shape = codes.shape();
  QuantizedData data;
  data.format = codes.dtype();
  data.data = codes;
  data.scale_inv = Tensor::zeros(DType::kF32, {1});
  data.scale_inv.mutable_data<float>()[0] = scale_inv;
  q.rowwise = data;
  return q;
}

TEST(GemmOps, PerTensorOperandsServeBothDirections) {
  const Tensor a = filled(DType::kE4M3FN, {16, 48}, 1);
  const Tensor b = filled(DType::kE5M2, {32, 16}, 2);
  GemmOptions o;
  o.out_dtype = DType::kF32;
  Sums expected = product(a, false, b, true);
  for (double& v : expected.value) v *= 0.75;
  expect_close(
      gemm(per_tensor(a, 1.5f), per_tensor(b, 0.5f), GemmLayout::kNN, o).d,
      expected);
}

// Scales of 2^-129 each, subnormal: their product is not 0 (F01's trap).
TEST(GemmOps, F01_SubnormalScalesAreNotFlushed) {
  Tensor a = Tensor::zeros(DType::kE4M3FN, {1, 1});
  store_from_double(DType::kE4M3FN, 256, a.mutable_data(), 0);
  const QuantizedTensor tiny = per_tensor(a, 0x1p-129f);
  const QuantizedTensor large = per_tensor(a, 0x1p100f);
  GemmOptions o;
  o.out_dtype = DType::kF32;
  EXPECT_EQ(at(gemm_fprop(tiny, large, o).d, 0), 0x1p-13);
  o.alpha = 0x1p120f;
  EXPECT_EQ(at(gemm_fprop(tiny, tiny, o).d, 0), 0x1p-122);
}

QuantizedTensor nvfp4_ones(std::int64_t rows, std::int64_t columns,
                           std::vector<float> amax, float max = 448) {
  QuantizedTensor q;
  q.shape = {rows, columns};
  QuantizedData d;
  d.mode = ScalingMode::kNVFP4;
  d.format = DType::kE2M1;
  d.data = Tensor::zeros(DType::kE2M1, q.shape);
  d.scale_inv = Tensor::zeros(DType::kE4M3FN, {rows, columns / 16});
  for (std::int64_t i = 0; i < rows * columns; ++i)
    store_from_double(DType::kE2M1, 1, d.data.mutable_data(), i);
  for (std::int64_t i = 0; i < rows * columns / 16; ++i)
    store_from_double(DType::kE4M3FN, 1, d.scale_inv.mutable_data(), i);
  d.amax = Tensor::empty(DType::kF32, {static_cast<std::int64_t>(amax.size())});
  for (std::size_t i = 0; i < amax.size(); ++i)
    d.amax.mutable_data<float>()[i] = amax[i];
  d.nvfp4_scale_max = max;
  q.rowwise = d;
  return q;
}

TEST(GemmOps, Nvfp4AlphaIsTheProductOfTheGlobalScales) {
  GemmOptions o;
  o.out_dtype = DType::kF32;
  o.alpha = 2;
  const double unit = 1.0 / (36.0 * 448 * 448), unit256 = 1.0 / (36.0 * 65536);
  EXPECT_NEAR(
      at(gemm_fprop(nvfp4_ones(16, 16, {3}), nvfp4_ones(16, 16, {5}), o).d, 0),
      2 * 16 * 15 * unit, 1e-11);
  EXPECT_NEAR(at(gemm_fprop(nvfp4_ones(16, 16, {3}, 256),
                            nvfp4_ones(16, 16, {5}, 256), o)
                     .d,
                 0),
              2 * 16 * 15 * unit256, 1e-10);
  std::vector<float> rows;
  for (int i = 0; i < 16; ++i) rows.push_back(static_cast<float>(i));
  const Tensor y =
      gemm_fprop(nvfp4_ones(16, 16, rows), nvfp4_ones(16, 16, {5}), o).d;
  for (int i = 0; i < 16; ++i)
    EXPECT_NEAR(at(y, i * 16 + 3), 2 * 16 * 5 * i * unit, 1e-10);
}

TEST(GemmOps, AQuantisedPartnerOfAPlainTensorIsDecoded) {
  const Tensor x = filled(DType::kBF16, {4, 32}, 1);
  const Tensor codes = filled(DType::kE4M3FN, {6, 32}, 2);
  const QuantizedTensor w = per_tensor(codes, 0.3f);
  const Tensor decoded = dequantize(w, DType::kBF16);
  GemmOptions o;
  o.out_dtype = DType::kF32;
  expect_close(gemm_fprop(x, w, o).d, product(decoded, true, x, true));
  expect_close(gemm(x, w, GemmLayout::kTN, o).d,
               product(x, true, decoded, true));
  QuantizedTensor identity;
  identity.shape = x.shape();
  identity.rowwise = QuantizedData{.mode = ScalingMode::kIdentity, .data = x};
  expect_close(gemm_fprop(identity, w, o).d, product(decoded, true, x, true));
}

TEST(GemmOps, MainGradientsAccumulateInFp32) {
  const Tensor x = filled(DType::kBF16, {64, 24}, 1);
  const Tensor dy = filled(DType::kBF16, {64, 16}, 2);
  Tensor main_grad = filled(DType::kF32, {16, 24}, 3);
  Sums expected = product(x, false, dy, false);
  for (std::size_t i = 0; i < expected.value.size(); ++i)
    expected.value[i] += at(main_grad, static_cast<std::int64_t>(i));
  GemmOptions o;
  o.beta = 1;
  const GemmResult result = gemm_into(main_grad, x, dy, GemmLayout::kNT, o);
  EXPECT_EQ(result.d.numel(), 1);  // nothing but a 0-d default
  expect_close(main_grad, expected, 1e-7);
  // Without rows the gradient is left as it is, beta 0 clears it.
  const Tensor none_x = Tensor::empty(DType::kBF16, {0, 24});
  const Tensor none_dy = Tensor::empty(DType::kBF16, {0, 16});
  gemm_into(main_grad, none_x, none_dy, GemmLayout::kNT, o);
  expect_close(main_grad, expected, 1e-7);
  o.beta = 0;
  gemm_into(main_grad, none_x, none_dy, GemmLayout::kNT, o);
  for (std::int64_t i = 0; i < main_grad.numel(); ++i)
    ASSERT_EQ(at(main_grad, i), 0);
}

// beta 0 does not read c: what is there may be NaN.
TEST(GemmOps, BetaZeroDoesNotReadTheOldValue) {
  Tensor d = Tensor::empty(DType::kF32, {2, 2});
  for (int i = 0; i < 4; ++i) d.mutable_data<float>()[i] = NAN;
  const Tensor ones = filled(DType::kF32, {2, 3}, 1);
  gemm_into(d, ones, ones, GemmLayout::kTN, {});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isfinite(at(d, i)));
}

TEST(GemmOps, BiasGeluAndItsGradient) {
  for (Device device : kDevices) {
    const Tensor x = filled(DType::kF32, {9, 20}, 1, device);
    const Tensor w = filled(DType::kF32, {6, 20}, 2, device);
    const Tensor bias = filled(DType::kF32, {6}, 3, device);
    GemmOptions o;
    o.bias = &bias;
    o.gelu = true;
    const GemmResult y = gemm_fprop(x, w, o);
    const Sums s = product(w, true, x, true);
    const auto gelu = [](double v) {
      return 0.5 * v * (1 + std::tanh(v * (0.79788456 + 0.03567741 * v * v)));
    };
    for (std::int64_t i = 0; i < 54; ++i) {
      const double pre = s.value[static_cast<std::size_t>(i)] + at(bias, i % 6);
      EXPECT_NEAR(at(y.pre_gelu, i), pre, 1e-5);
      EXPECT_NEAR(at(y.d, i), gelu(pre), 1e-5);
    }
    // dx = gelu'(pre) * (dy w2), its sums over the rows the bias gradient.
    const Tensor dy = filled(DType::kF32, {9, 5}, 4, device);
    const Tensor w2 = filled(DType::kF32, {5, 6}, 5, device);
    GemmOptions back;
    back.dgelu_input = &y.pre_gelu;
    back.bias_grad = true;
    const GemmResult dx = gemm_dgrad(dy, w2, back);
    const Sums t = product(w2, false, dy, true);
    std::vector<double> sums(6, 0.0);
    for (std::int64_t i = 0; i < 54; ++i) {
      const double pre = at(y.pre_gelu, i), h = 1e-5;
      const double slope = (gelu(pre + h) - gelu(pre - h)) / (2 * h);
      const double expected = slope * t.value[static_cast<std::size_t>(i)];
      EXPECT_NEAR(at(dx.d, i), expected, 1e-5);
      sums[static_cast<std::size_t>(i % 6)] += expected;
    }
    for (std::int64_t j = 0; j < 6; ++j)
      EXPECT_NEAR(at(dx.bias_grad, j), sums[static_cast<std::size_t>(j)], 1e-4);
  }
}

TEST(GemmOps, BiasGradientBesideAWeightGradient) {
  const Tensor x = filled(DType::kBF16, {300, 8}, 1);
  const Tensor dy = filled(DType::kBF16, {300, 300}, 2);
  GemmOptions o;
  o.bias_grad = true;
  const Tensor sums = gemm_wgrad(dy, x, o).bias_grad;
  EXPECT_EQ(sums.dtype(), DType::kBF16);
  for (std::int64_t j = 0; j < 300; ++j) {
    double sum = 0;
    for (std::int64_t i = 0; i < 300; ++i) sum += at(dy, i * 300 + j);
    EXPECT_EQ(at(sums, j), round_to(DType::kBF16, sum));
  }
}

// Trap T16: 1 + 2^-10 is not a bf16.
TEST(GemmOps, AnFp32BiasIsRoundedWhereAskedFor) {
  const Tensor zero = Tensor::zeros(DType::kE4M3FN, {1, 16});
  const QuantizedTensor q = per_tensor(zero, 1);
  Tensor bias = Tensor::empty(DType::kF32, {1});
  bias.mutable_data<float>()[0] = 1 + 0x1p-10f;
  GemmOptions o;
  o.out_dtype = DType::kF32;
  o.bias = &bias;
  EXPECT_EQ(at(gemm_fprop(q, q, o).d, 0), 1 + 0x1p-10);
  o.round_bias_to_bf16 = true;
  EXPECT_EQ(at(gemm_fprop(q, q, o).d, 0), 1);
}

TEST(GemmOps, Fp8OutputWithItsScaleAndAmax) {
  const QuantizedTensor a = per_tensor(filled(DType::kE4M3FN, {16, 32}, 1), 2);
  const QuantizedTensor b = per_tensor(filled(DType::kE4M3FN, {48, 32}, 2), 1);
  GemmOptions o;
  o.out_dtype = DType::kF32;
  const Tensor y = gemm(a, b, GemmLayout::kTN, o).d;
  for (DType format : {DType::kE4M3FN, DType::kE5M2}) {
    o.fp8_output = Fp8Output{format, 100};
    const GemmResult q = gemm(a, b, GemmLayout::kTN, o);
    float amax = 0;
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      const float v = y.data<float>()[i];
      amax = std::fmax(amax, std::fabs(v));
      EXPECT_EQ(load_code(format, q.fp8->rowwise->data.view.data, i),
                encode_float(format, double{v * 100}));
    }
    EXPECT_EQ(at(q.fp8->rowwise->amax, 0), double{amax});
    EXPECT_EQ(at(q.fp8->rowwise->scale_inv, 0), double{1.0f / 100});
  }
}

TEST(GemmOps, EmptyDimensions) {
  const Tensor x = Tensor::empty(DType::kBF16, {0, 32});
  const Tensor w = filled(DType::kBF16, {8, 32}, 1);
  EXPECT_EQ(gemm_fprop(x, w).d.shape(), (Shape{0, 8}));
  const Tensor dw = gemm_wgrad(Tensor::empty(DType::kBF16, {0, 8}), x).d;
  EXPECT_EQ(dw.shape(), (Shape{8, 32}));
  for (std::int64_t i = 0; i < dw.numel(); ++i) EXPECT_EQ(at(dw, i), 0);
  const Tensor bias = filled(DType::kBF16, {8}, 2);
  GemmOptions o;
  o.bias = &bias;
  const Tensor y = gemm_fprop(Tensor::empty(DType::kBF16, {3, 0}),
                              Tensor::empty(DType::kBF16, {8, 0}), o)
                       .d;
  for (std::int64_t i = 0; i < 24; ++i) EXPECT_EQ(at(y, i), at(bias, i % 8));
}

// A strided operand is read as its contiguous copy.
TEST(GemmOps, F39_StridedOperands) {
  const Tensor base = filled(DType::kF32, {6, 4}, 1);
  Tensor turned = base;
  turned.view.shape = {4, 6};
  turned.view.strides = {1, 4};
  const Tensor w = filled(DType::kF32, {3, 6}, 2);
  const Tensor ours = gemm_fprop(turned, w).d;
  const Tensor expected = gemm_fprop(contiguous(turned), w).d;
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(at(ours, i), at(expected, i));
}

TEST(GemmOps, PrecisionIsSwitchedByNameOrByCall) {
  const Tensor ones = [] {
    Tensor t = Tensor::empty(DType::kBF16, {1, 1024});
    for (int i = 0; i < 1024; ++i)
      store_from_double(DType::kBF16, 1, t.mutable_data(), i);
    return t;
  }();
  EXPECT_EQ(at(gemm_fprop(ones, ones).d, 0), 1024);
  {
    const PrecisionScope scope("gemm", InternalPrecision::kWorking);
    EXPECT_EQ(at(gemm_fprop(ones, ones).d, 0), 256);  // F48
  }
  GemmOptions o;
  for (InternalPrecision p : kInternalPrecisions) {
    o.precision = p;
    EXPECT_EQ(at(gemm_fprop(ones, ones, o).d, 0),
              p == InternalPrecision::kWorking ? 256 : 1024);
  }
}

QuantizedTensor block(std::int64_t rows, std::int64_t columns, bool square) {
  QuantizedTensor q;
  q.shape = {rows, columns};
  QuantizedData d;
  d.mode = square ? ScalingMode::kBlock2D : ScalingMode::kBlock1D;
  d.data = Tensor::zeros(DType::kE4M3FN, q.shape);
  d.scale_inv = Tensor::zeros(
      DType::kF32, {square ? (rows + 127) / 128 : rows, (columns + 127) / 128});
  q.rowwise = d;
  return q;
}

QuantizedTensor mx(std::int64_t rows, std::int64_t columns) {
  QuantizedTensor q;
  q.shape = {rows, columns};
  QuantizedData d;
  d.mode = ScalingMode::kMXFP8;
  d.data = Tensor::zeros(DType::kE4M3FN, q.shape);
  d.scale_inv = Tensor::zeros(DType::kE8M0, {rows, columns / 32});
  q.rowwise = d;
  return q;
}

TEST(GemmOps, ErrorsNameThePair) {
  const Tensor f32 = filled(DType::kF32, {16, 32}, 1);
  const Tensor bf16 = filled(DType::kBF16, {16, 32}, 1);
  const QuantizedTensor e4m3 =
      per_tensor(filled(DType::kE4M3FN, {16, 32}, 1), 1);
  const QuantizedTensor e5m2 = per_tensor(filled(DType::kE5M2, {16, 32}, 1), 1);
  EXPECT_EQ(error_of([&] { gemm_fprop(f32, bf16); }),
            "gemm: a and b: identity bfloat16 and identity float32, expected "
            "two operands of the same dtype");
  EXPECT_EQ(error_of([&] { gemm_fprop(e5m2, e5m2); }),
            "gemm: a and b: tensor e5m2 and tensor e5m2, expected at least one "
            "operand in float8_e4m3fn");
  EXPECT_EQ(error_of([&] { gemm_fprop(mx(32, 32), e4m3); }),
            "gemm: a and b: tensor e4m3fn and mxfp8 e4m3fn, expected two "
            "operands of the same scaling mode");
  EXPECT_EQ(
      error_of([&] { gemm_fprop(block(16, 32, true), block(16, 32, true)); }),
      "gemm: a and b: block 128x128 e4m3fn and block 128x128 e4m3fn, "
      "expected at most one operand with 128x128 blocks");
  EXPECT_EQ(error_of([&] {
              gemm_fprop(f32, filled(DType::kF32, {16, 31}, 1));
            }),
            "gemm: a and b: shapes [16, 31] and [16, 32] with inner dimensions "
            "31 and 32, expected the same inner dimension");
  EXPECT_EQ(error_of([&] { gemm_dgrad(mx(32, 32), mx(32, 32)); }),
            "gemm: a: no columnwise data, expected columnwise data, which this "
            "layout reads");
}

TEST(GemmOps, ErrorsNameTheDimension) {
  const auto message = [](const QuantizedTensor& x, const QuantizedTensor& w) {
    return error_of([&] { gemm_fprop(x, w); });
  };
  EXPECT_EQ(message(block(8, 24, false), block(8, 24, false)),
            "gemm: k of block scaled operands: 24, expected a multiple of 16");
  EXPECT_EQ(message(block(8, 32, false), block(12, 32, false)),
            "gemm: a: block scaled outer dimension: 12, expected a multiple of "
            "8");
  EXPECT_EQ(message(block(12, 32, false), block(8, 32, true)),
            "gemm: b: block 1x128 outer dimension: 12, expected a multiple of "
            "8");
  EXPECT_EQ(message(block(12, 32, true), block(8, 32, false)), "no error");
  EXPECT_EQ(message(block(8, 0, false), block(8, 0, false)),
            "gemm: k: 0, expected a positive inner dimension for block "
            "scaling");
  EXPECT_EQ(message(mx(33, 32), mx(32, 32)),
            "gemm: b: mxfp8 outer dimension: 33, expected a multiple of 32");
  EXPECT_EQ(message(nvfp4_ones(16, 16, {1}), nvfp4_ones(8, 16, {1})),
            "gemm: a: nvfp4 outer dimension: 8, expected a multiple of 16");
  EXPECT_EQ(message(nvfp4_ones(16, 16, {1}, 256), nvfp4_ones(16, 16, {1})),
            "gemm: a and b: nvfp4 scales made for 448.000000 and 256.000000, "
            "expected the same for both");
}

// fp32 scales handed to a consumer of E8M0 codes, and too few of them.
TEST(GemmOps, F80_ScalesAreCheckedBeforeAnyNumber) {
  const auto message = [](const QuantizedTensor& x) {
    return error_of([&] { gemm_fprop(x, x); });
  };
  QuantizedTensor q = mx(32, 64);
  q.rowwise->scale_inv = Tensor::zeros(DType::kF32, {32, 2});
  EXPECT_EQ(message(q), "gemm: a: scale_inv: float32, expected float8_e8m0fnu");
  q.rowwise->scale_inv = Tensor::zeros(DType::kE8M0, {32, 1});
  EXPECT_EQ(message(q), "gemm: a: scale_inv: shape [32, 1], expected [32, 2]");
  q = block(16, 256, false);
  q.rowwise->scale_inv = Tensor::zeros(DType::kF32, {16, 1});
  EXPECT_EQ(message(q), "gemm: a: scale_inv: shape [16, 1], expected [16, 2]");
  q = mx(32, 32);
  q.rowwise->data = Tensor::zeros(DType::kU8, {32, 32});
  EXPECT_EQ(message(q),
            "gemm: a: uint8 data, expected float8_e4m3fn, the format of the "
            "codes");
}

TEST(GemmOps, ErrorsOfOutputsAndEpilogues) {
  const Tensor x = filled(DType::kBF16, {16, 32}, 1);
  const QuantizedTensor q = per_tensor(filled(DType::kE4M3FN, {16, 32}, 1), 1);
  const auto message = [](const GemmOperand& b, const GemmOperand& a,
                          GemmOptions o) {
    return error_of([&] { gemm_fprop(b, a, o); });
  };
  GemmOptions o;
  o.fp8_output = Fp8Output{};
  EXPECT_EQ(message(x, x, o),
            "gemm: fp8_output: of identity operands, expected per-tensor "
            "scaled operands");
  for (const float scale : {0.0f, -1.0f, NAN, HUGE_VALF}) {
    o.fp8_output->scale = scale;
    EXPECT_NE(message(q, q, o).find("gemm: fp8_output: scale: "),
              std::string::npos)
        << scale;
  }
  o.fp8_output = Fp8Output{};
  const Tensor c = filled(DType::kBF16, {16, 16}, 1);
  o.c = &c;
  o.beta = 1;
  EXPECT_EQ(message(q, q, o),
            "gemm: beta: 1.000000, expected 0: an FP8 output takes no sum");
  o = {};
  o.beta = 1;
  EXPECT_EQ(message(x, x, o), "gemm: beta: 1.000000 without c, expected 0");
  o = {};
  o.bias = &x;
  EXPECT_EQ(message(x, x, o), "gemm: bias: shape [16, 32], expected [16]");
  o = {};
  o.bias_grad = true;
  EXPECT_EQ(message(x, x, o),
            "gemm: bias_grad: without dgelu_input in another layout than NT, "
            "expected NT");
  o = {};
  o.out_dtype = DType::kF16;
  EXPECT_EQ(message(nvfp4_ones(16, 16, {1}), nvfp4_ones(16, 16, {1}), o),
            "gemm: out_dtype: float16 of nvfp4 operands, expected float32 or "
            "bfloat16");
  const Tensor there = filled(DType::kBF16, {16, 32}, 1, Device::kReference);
  EXPECT_EQ(message(x, there, {}),
            "gemm: device: tensors on reference and cpu, expected all on one "
            "device");
}

TEST(GroupedGemm, GroupsAreTheirOwnProductsAndMayBeEmpty) {
  const std::vector<std::int64_t> splits = {5, 0, 33, 2};
  const Tensor x = filled(DType::kBF16, {40, 24}, 1);
  const Tensor dy = filled(DType::kBF16, {40, 16}, 2);
  std::vector<Tensor> weights;
  std::vector<GemmOperand> w;
  for (int g = 0; g < 4; ++g)
    weights.push_back(filled(DType::kBF16, {16, 24}, 3 + g));
  for (const Tensor& t : weights) w.emplace_back(t);
  const std::vector<GemmOptions> options(1);
  const Tensor y = grouped_gemm_fprop(x, splits, w, options);
  const Tensor dx = grouped_gemm_dgrad(dy, splits, w, options);
  const std::vector<Tensor> dw = grouped_gemm_wgrad(dy, x, splits, options);
  EXPECT_EQ(y.shape(), (Shape{40, 16}));
  EXPECT_EQ(dx.shape(), (Shape{40, 24}));
  const std::vector<Tensor> xs = split_rows(x, splits),
                            dys = split_rows(dy, splits),
                            ys = split_rows(y, splits),
                            dxs = split_rows(dx, splits);
  const auto expect_same = [](const Tensor& a, const Tensor& b) {
    ASSERT_EQ(a.numel(), b.numel());
    for (std::int64_t i = 0; i < a.numel(); ++i) ASSERT_EQ(at(a, i), at(b, i));
  };
  for (std::size_t g = 0; g < 4; ++g) {
    expect_same(ys[g], gemm_fprop(xs[g], w[g]).d);
    expect_same(dxs[g], gemm_dgrad(dys[g], w[g]).d);
    expect_same(dw[g], gemm_wgrad(dys[g], xs[g]).d);
  }
  for (std::int64_t i = 0; i < dw[1].numel(); ++i) EXPECT_EQ(at(dw[1], i), 0);
}

TEST(GroupedGemm, QuantisedGroupsIntoOneTensor) {
  const QuantizedTensor w = MXFP8Quantizer(DType::kE4M3FN)
                                .quantize(filled(DType::kBF16, {32, 64}, 1));
  std::vector<QuantizedTensor> groups;
  for (std::int64_t rows : {32, 0, 64})
    groups.push_back(MXFP8Quantizer(DType::kE4M3FN)
                         .quantize(filled(DType::kBF16, {rows, 64}, 2)));
  const std::vector<GemmOperand> a(3, w), b(groups.begin(), groups.end());
  const std::vector<GemmOptions> options = {{.out_dtype = DType::kF32}};
  const Tensor d = grouped_gemm(a, b, GemmLayout::kTN, options);
  EXPECT_EQ(d.shape(), (Shape{96, 32}));
  EXPECT_EQ(d.dtype(), DType::kF32);
  const Tensor first = gemm_fprop(groups[0], w, options[0]).d;
  const Tensor last = gemm_fprop(groups[2], w, options[0]).d;
  for (std::int64_t i = 0; i < 96 * 32; ++i) {
    EXPECT_EQ(at(d, i), i < 1024 ? at(first, i) : at(last, i - 1024));
  }
  EXPECT_EQ(error_of([&] { grouped_gemm(a, b, GemmLayout::kNT, options); }),
            "grouped_gemm: layout: one that sums over rows, expected TN or NN");
}

TEST(GroupedGemm, MainGradientsOfEveryGroup) {
  const Tensor x = filled(DType::kBF16, {8, 16}, 1);
  const Tensor dy = filled(DType::kBF16, {8, 4}, 2);
  std::vector<Tensor> grads = {filled(DType::kF32, {4, 16}, 3),
                               filled(DType::kF32, {4, 16}, 4)};
  std::vector<Tensor> expected;
  for (const Tensor& g : grads) {
    Tensor copy = Tensor::empty(DType::kF32, g.shape());
    const Tensor dw = gemm_wgrad(dy, x, {.out_dtype = DType::kF32}).d;
    for (std::int64_t i = 0; i < g.numel(); ++i)
      copy.mutable_data<float>()[i] = static_cast<float>(at(g, i) + at(dw, i));
    expected.push_back(copy);
  }
  const std::vector<GemmOperand> a(2, x), b(2, dy);
  const std::vector<GemmOptions> options = {{.beta = 1}};
  multi_tensor_gemm_into(grads, a, b, GemmLayout::kNT, options);
  for (std::size_t g = 0; g < 2; ++g)
    for (std::int64_t i = 0; i < 64; ++i)
      EXPECT_NEAR(at(grads[g], i), at(expected[g], i), 1e-6);
}

TEST(GroupedGemm, F20_SizesAre64Bit) {
  const std::vector<std::int64_t> dims = {16384, 16384};
  EXPECT_EQ(grouped_tensor_offsets(dims, 131072),
            (std::vector<std::int64_t>{0, std::int64_t{1} << 31,
                                       std::int64_t{1} << 32}));
  const std::vector<std::int64_t> huge = {std::int64_t{1} << 62};
  EXPECT_NE(error_of([&] {
              grouped_tensor_offsets(huge, 4);
            }).find("a total below 2^63"),
            std::string::npos);
}

TEST(GroupedGemm, BiasPerGroupScaledPerRow) {
  for (DType dtype : kHigh) {
    Tensor out = filled(dtype, {5, 3}, 1);
    const Tensor before = filled(dtype, {5, 3}, 1);
    const Tensor bias = filled(dtype, {3, 3}, 2);
    const Tensor scale = filled(DType::kF32, {5}, 3);
    const std::vector<std::int64_t> splits = {2, 0, 3};
    grouped_bias_add(out, bias, splits, &scale);
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t c = 0; c < 3; ++c) {
        const float added = static_cast<float>(at(bias, (r < 2 ? 0 : 6) + c)) *
                            scale.data<float>()[r];
        EXPECT_EQ(
            at(out, r * 3 + c),
            round_to(dtype, double{static_cast<float>(at(before, r * 3 + c)) +
                                   added}));
      }
    }
  }
}

TEST(GroupedGemm, ErrorsNameTheSplits) {
  const Tensor x = filled(DType::kBF16, {4, 8}, 1);
  const std::vector<std::int64_t> splits = {1, 2};
  EXPECT_EQ(error_of([&] { split_rows(x, splits); }),
            "grouped_gemm: splits: a sum of 3, expected 4 rows");
  const std::vector<GemmOperand> w(2, x);
  const std::vector<GemmOptions> bias_grad = {{.bias_grad = true}};
  const std::vector<std::int64_t> two = {2, 2};
  EXPECT_EQ(error_of([&] { grouped_gemm_fprop(x, two, w, bias_grad); }),
            "grouped_gemm: options: bias_grad or fp8_output, expected "
            "multi_tensor_gemm() for these");
  const std::vector<std::int64_t> negative = {-1, 5};
  EXPECT_EQ(error_of([&] { split_rows(x, negative); }),
            "grouped_gemm: splits: -1, expected 0 or more");
}

}  // namespace
}  // namespace assay::te
