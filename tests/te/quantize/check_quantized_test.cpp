// Codes and scales that do not belong together are named, and strided ones are
// read as what they are.
#include "assay/te/quantize/check_quantized.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "assay/te/ops/gemm.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/grouped.h"
#include "assay/te/quantize/identity.h"
#include "assay/te/quantize/layout.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "tests/te/quantize/tensors.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

struct Case {
  std::string name;
  QuantizedData q;
  Shape shape;
};

// Both directions of every mode that has scales, 128 x 256.
std::vector<Case> all_cases() {
  const Tensor x = normal(DType::kBF16, {128, 256}, 5);
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const QuantizedTensor& q) {
    if (q.rowwise) cases.push_back({name + " rows", *q.rowwise, q.shape});
    if (q.columnwise)
      cases.push_back({name + " columns", *q.columnwise, q.shape});
  };
  add("mxfp8", MXFP8Quantizer(DType::kE4M3FN).quantize(x));
  add("nvfp4", NVFP4Quantizer().quantize(x));
  add("block", Block128Quantizer({}).quantize(x));
  add("current", CurrentScalingQuantizer({}).quantize(x));
  return cases;
}

// The same elements at twice the distance.
Tensor spread(const Tensor& t) {
  Shape wide = t.shape();
  wide.back() *= 2;
  Tensor out = Tensor::zeros(t.dtype(), wide, t.device);
  const std::int64_t size = traits(t.dtype()).bits / 8;
  for (std::int64_t i = 0; i < t.numel() * size; ++i)
    out.mutable_data()[i / size * 2 * size + i % size] = t.data<std::byte>()[i];
  out.view.shape = t.shape();
  out.view.strides = contiguous_strides(t.shape());
  for (auto& stride : out.view.strides) stride *= 2;
  return out;
}

TEST(CheckQuantized, EveryModeOfEveryDefectIsNamed) {
  struct Defect {
    std::string argument;
    std::function<void(QuantizedData&)> make;
  };
  const std::vector<Defect> defects = {
      {"scale_inv", [](QuantizedData& q) { q.scale_inv = Tensor(); }},
      {"scale_inv", [](QuantizedData& q) { q.scale_inv.view.data = nullptr; }},
      {"scale_inv",
       [](QuantizedData& q) {
         q.scale_inv = Tensor::zeros(q.scale_inv.dtype(), {1, 1});
       }},
      {"scale_inv",
       [](QuantizedData& q) {
         q.scale_inv = Tensor::zeros(DType::kI32, q.scale_inv.shape());
       }},
      {"data", [](QuantizedData& q) { q.data.view.data = nullptr; }},
      {"data",
       [](QuantizedData& q) {
         q.data = Tensor::zeros(q.format, {64, 256});
       }},
      {"data",
       [](QuantizedData& q) {
         q.data = Tensor::zeros(DType::kBF16, q.data.shape());
       }},
      {"format", [](QuantizedData& q) { q.format = DType::kF32; }},
      {"device",
       [](QuantizedData& q) { q.scale_inv.device = Device::kReference; }},
  };
  for (const Case& c : all_cases()) {
    EXPECT_EQ(error_of([&] { dequantize(c.q, c.shape, DType::kF32); }),
              "no error")
        << c.name;
    for (std::size_t d = 0; d < defects.size(); ++d) {
      QuantizedData q = c.q;
      defects[d].make(q);
      EXPECT_THAT(error_of([&] { dequantize(q, c.shape, DType::kF32); }),
                  HasSubstr("dequantize: " + defects[d].argument + ": "))
          << c.name << " defect " << d;
    }
  }
}

TEST(CheckQuantized, Nvfp4NeedsItsAmax) {
  const Tensor x = normal(DType::kBF16, {128, 256}, 5);
  const QuantizedTensor made = NVFP4Quantizer().quantize(x);
  for (const Tensor& amax :
       {Tensor(), Tensor::zeros(DType::kF32, {3}),
        Tensor::zeros(DType::kF32, {0}), Tensor::zeros(DType::kI32, {1})}) {
    QuantizedData q = *made.rowwise;
    q.amax = amax;
    EXPECT_THAT(error_of([&] { dequantize(q, made.shape, DType::kF32); }),
                HasSubstr("dequantize: amax: "));
  }
}

TEST(CheckQuantized, StridedCodesAndScalesDecodeAlike) {
  for (const Case& c : all_cases()) {
    const Tensor expected = dequantize(c.q, c.shape, DType::kF32);
    QuantizedData q = c.q;
    q.scale_inv = spread(q.scale_inv);
    expect_same_bits(dequantize(q, c.shape, DType::kF32), expected, c.name);
    if (c.q.mode != ScalingMode::kTensor) {
      const QuantizedData padded =
          with_layout(q, c.shape, ScaleLayout::kGemmReady);
      expect_same_bits(dequantize(padded, c.shape, DType::kF32), expected,
                       c.name + " padded");
      QuantizedData wide = padded;
      wide.scale_inv = spread(padded.scale_inv);
      expect_same_bits(dequantize(wide, c.shape, DType::kF32), expected,
                       c.name + " padded, strided");
    }
    if (traits(q.format).bits < 8) continue;  // packed codes have no strides
    q.data = spread(q.data);
    expect_same_bits(dequantize(q, c.shape, DType::kF32), expected, c.name);
  }
}

TEST(CheckQuantized, IdentityMustHoldTheShape) {
  const Tensor x = normal(DType::kBF16, {4, 8}, 5);
  QuantizedData q;
  q.mode = ScalingMode::kIdentity;
  q.data = spread(x);
  expect_same_bits(dequantize(q, {4, 8}, DType::kBF16), x, "strided");
  EXPECT_THAT(error_of([&] {
                dequantize(q, {5, 8}, DType::kF32);
              }),
              HasSubstr("dequantize: data: shape [4, 8], expected [5, 8]"));
}

TEST(CheckQuantized, LayoutsRefuseScalesWithoutMemory) {
  for (const Case& c : all_cases()) {
    if (c.q.mode == ScalingMode::kTensor) continue;
    QuantizedData q = c.q;
    q.scale_inv.view.data = nullptr;
    EXPECT_THAT(
        error_of([&] { with_layout(q, c.shape, ScaleLayout::kGemmReady); }),
        HasSubstr("with_layout: scale_inv: "))
        << c.name;
  }
}

TEST(CheckQuantized, GemmOperandsToo) {
  const Tensor x = normal(DType::kBF16, {128, 256}, 5);
  const QuantizedTensor whole = MXFP8Quantizer(DType::kE4M3FN).quantize(x);
  QuantizedTensor q = whole;
  q.rowwise->scale_inv.view.data = nullptr;
  EXPECT_THAT(error_of([&] { gemm_fprop(q, whole); }),
              HasSubstr("gemm: b: scale_inv: absent"));
}

TEST(QuantizeSplit, SumsThatWrapAreErrors) {
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  const Tensor x = normal(DType::kBF16, {32, 32}, 5);
  const std::int64_t big = std::int64_t{1} << 62;
  const std::vector<std::int64_t> rows = {big, big, big, big, 32};
  EXPECT_THAT(error_of([&] { quantize_split(quantizer, x, rows); }),
              HasSubstr("quantize_split: rows: "));
}

TEST(Block128Partial, ScaleOnAnotherDeviceIsAnError) {
  const Tensor x = normal(DType::kBF16, {128}, 5);
  const Tensor scale = Tensor::zeros(DType::kF32, {1, 1}, Device::kReference);
  EXPECT_THAT(error_of([&] {
                block128_partial_cast(x, scale, 1, 128, 0, DType::kE4M3FN);
              }),
              HasSubstr("block128_partial_cast: device: "));
}

}  // namespace
}  // namespace assay::te
