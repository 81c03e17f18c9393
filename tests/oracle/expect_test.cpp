// The judge of the reference vectors must be able to fail: one case on each
// side of every wording.
#include "tests/oracle/expect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace assay::oracle {
namespace {

template <typename T>
Tensor tensor(DType dtype, std::vector<T> values) {
  Tensor t = Tensor::empty(dtype, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.mutable_data<T>());
  return t;
}

Tensor f32(std::vector<float> v) { return tensor(DType::kF32, std::move(v)); }
Tensor f64(std::vector<double> v) { return tensor(DType::kF64, std::move(v)); }
Tensor e4m3(std::vector<std::uint8_t> v) {
  return tensor(DType::kE4M3FN, std::move(v));
}
Tensor u8(std::vector<std::uint8_t> v) {
  return tensor(DType::kU8, std::move(v));
}
Tensor bf16(std::vector<std::uint16_t> v) {
  return tensor(DType::kBF16, std::move(v));
}

bool meets(const char* expect, const Tensor& ours, const Tensor& reference,
           const Tensor* other = nullptr) {
  const auto e = parse_expectation(expect, reference.dtype());
  return compare(e, ours, reference, other).empty();
}

TEST(Expect, BitExactFloats) {
  EXPECT_TRUE(meets("\"bit-exact\"", f32({1, NAN}), f32({1, NAN})));
  EXPECT_FALSE(meets("\"bit-exact\"", f32({1}), f32({1 + 0x1p-23f})));
  EXPECT_FALSE(meets("\"bit-exact\"", f32({NAN}), f32({1})));
  EXPECT_FALSE(meets("\"bit-exact\"", f32({1}), f32({1, 1})));
  EXPECT_FALSE(meets("\"bit-exact\"", f64({1}), f32({1})));
}

TEST(Expect, BitExactCodes) {
  EXPECT_TRUE(meets("\"bit-exact\"", e4m3({0x7f}), u8({0x7f})));
  EXPECT_FALSE(meets("\"bit-exact\"", e4m3({0xff}), u8({0x7f})));
  EXPECT_FALSE(meets("\"bit-exact\"", e4m3({0x80}), u8({0x00})));
  EXPECT_TRUE(meets("\"bit-exact (any NaN code where NaN)\"", e4m3({0xff}),
                    u8({0x7f})));
  EXPECT_FALSE(meets("\"bit-exact (any NaN code where NaN)\"", e4m3({0x7e}),
                     u8({0x7f})));
}

TEST(Expect, PackedCodesCompareByNibble) {
  Tensor ours = Tensor::empty(DType::kE2M1, {4});
  ours.mutable_data<std::uint8_t>()[0] = 0x21;
  ours.mutable_data<std::uint8_t>()[1] = 0x43;
  EXPECT_TRUE(meets("\"bit-exact\"", ours, u8({0x21, 0x43})));
  EXPECT_FALSE(meets("\"bit-exact\"", ours, u8({0x21, 0x53})));
  EXPECT_FALSE(meets("\"bit-exact\"", ours, u8({0x21})));
}

TEST(Expect, ClosenessIsOurRoundingAndNoMore) {
  const char* tight = "{\"rtol\": 0, \"atol\": 0}";
  EXPECT_TRUE(meets(tight, bf16({0x3f80}), f64({1.0 + 0x1p-9})));
  EXPECT_FALSE(meets(tight, bf16({0x3f80}), f64({1.0 + 0x1p-7})));
  EXPECT_FALSE(meets(tight, f64({1}), f64({1.0 + 0x1p-40})));
  EXPECT_FALSE(meets("{\"rtol\": 1, \"atol\": 1}", f64({NAN}), f64({1})));
  EXPECT_FALSE(meets("{\"rtol\": 1, \"atol\": 1}", f64({INFINITY}), f64({1})));
}

TEST(Expect, AbsDotScalesTheTolerance) {
  const Tensor absdot = f64({100});
  const char* e = "{\"abs tolerance\": \"2e-06 * absdot (elementwise)\"}";
  EXPECT_TRUE(meets(e, f32({0x1p-13f}), f64({0}), &absdot));
  EXPECT_FALSE(meets(e, f32({0x1p-12f}), f64({0}), &absdot));
  const Tensor endless = f64({INFINITY}), longer = f64({100, 100});
  EXPECT_FALSE(meets(e, f32({1}), f64({0}), &endless));
  EXPECT_FALSE(meets(e, f32({0}), f64({0}), &longer));
}

TEST(Expect, AdjacentCodes) {
  EXPECT_TRUE(meets("\"adjacent code allowed\"", e4m3({0x31}), u8({0x30})));
  EXPECT_TRUE(meets("\"adjacent code allowed\"", e4m3({0x80}), u8({0x01})));
  EXPECT_FALSE(meets("\"adjacent code allowed\"", e4m3({0x32}), u8({0x30})));
  const char* rare =
      "\"bit-exact up to the activation function: allow 1 adjacent code / "
      "scale "
      "+-1 on <0.1% of entries\"";
  EXPECT_FALSE(meets(rare, e4m3({0x31, 0x30}), u8({0x30, 0x30})));
}

TEST(Expect, RoundingOfAWiderArray) {
  const Tensor wide = f32({1 + 0x1p-8f + 0x1p-12f});
  const Tensor stored = tensor<std::uint16_t>(DType::kU16, {0x3f80});
  EXPECT_TRUE(meets("\"bf16 rounding of y\"", bf16({0x3f81}), stored, &wide));
  EXPECT_FALSE(meets("\"bf16 rounding of y\"", bf16({0x3f80}), stored, &wide));
}

TEST(Expect, RoundingNamesItsDtypeAndArray) {
  const auto e = parse_expectation("\"f16 rounding of y_1\"", DType::kU16);
  EXPECT_EQ(e.kind, Expectation::Kind::kRounding);
  EXPECT_EQ(e.dtype, DType::kF16);
  EXPECT_EQ(e.of, "y_1");
  const Tensor wide = f32({1});
  const Tensor stored = tensor<std::uint16_t>(DType::kU16, {0x3f80});
  EXPECT_FALSE(meets("\"f16 rounding of y\"", bf16({0x3f80}), stored, &wide));
}

TEST(Expect, OneToleranceAloneLeavesTheOtherAtZero) {
  EXPECT_TRUE(meets("{\"atol\": 0.5}", f32({1.5}), f32({1})));
  EXPECT_FALSE(meets("{\"atol\": 0.5}", f32({15}), f32({10})));
  EXPECT_TRUE(meets("{\"rtol\": 0.5}", f32({15}), f32({10})));
  EXPECT_FALSE(meets("{\"rtol\": 0.5}", f32({0.5}), f32({0})));
}

// Equal values: only the wording can fail.
TEST(Expect, UnknownWordingsFail) {
  for (const char* e :
       {"\"roughly\"", "\"no adjacent code allowed\"", "\"bit-exact, mostly\"",
        "\"e3m7 rounding of y\"", "null", "1", "{}", "[]", "{\"rtol\": -1}",
        "{\"rtol\": 1e999}", "{\"atol\": NaN}", "{\"atol\": \"0.1\"}",
        "{\"rtol\": 1, \"atoll\": 1}", "{\"abs tolerance\": \"nan * absdot\"}",
        "{\"abs tolerance\": \"-1 * absdot\"}",
        "{\"abs tolerance\": \"absdot\"}",
        "{\"abs tolerance\": \"2e-06 * absmax\"}",
        "{\"abs tolerance\": 2e-06}"}) {
    const auto failure =
        compare(parse_expectation(e, DType::kF32), f32({1}), f32({1}), nullptr);
    EXPECT_NE(failure.find("no known wording"), std::string::npos) << e;
  }
}

}  // namespace
}  // namespace assay::oracle
