// Inputs: every kind of values gives what it promises, in every dtype.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/base/parallel.h"
#include "assay/conform/cases.h"
#include "assay/conform/values_random.h"
#include "assay/numerics/element.h"
#include "assay/numerics/float_format.h"

namespace assay::conform {
namespace {

using ::testing::HasSubstr;

// The input x of a spec with one case.
Tensor drawn(const std::string& shape, const std::string& dtype,
             const std::string& values, const std::string& seed = "1") {
  const Spec spec =
      parse_spec("module: m\nseed: " + seed +
                     "\ninputs:\n  x: {shape: " + shape + ", dtype: " + dtype +
                     ", values: " + values + "}\noutputs:\n  y: {}\n",
                 "m.yaml");
  return make_inputs(spec, make_cases(spec, Tier::kSmall)[0]).at("x");
}

std::vector<double> numbers(const Tensor& t) {
  std::vector<double> all(static_cast<std::size_t>(t.numel()));
  load_as_doubles(t.dtype(), t.view.data, 0, t.numel(), all.data());
  return all;
}
std::vector<double> drawn_numbers(const std::string& shape,
                                  const std::string& dtype,
                                  const std::string& values) {
  return numbers(drawn(shape, dtype, values));
}

double mean(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}
double deviation(const std::vector<double>& x) {
  const double m = mean(x);
  double sum = 0;
  for (const double v : x) sum += (v - m) * (v - m);
  return std::sqrt(sum / static_cast<double>(x.size()));
}

TEST(Values, NormalHasTheMeanAndDeviationAskedFor) {
  const auto x = drawn_numbers("[200, 500]", "float32", "normal");
  EXPECT_NEAR(mean(x), 0, 0.013);  // 4 deviations of the mean of 1e5
  EXPECT_NEAR(deviation(x), 1, 0.01);
  const auto y = drawn_numbers("[200, 500]", "float64",
                               "{kind: normal, scale: 0.02, mean: 3}");
  EXPECT_NEAR(mean(y), 3, 0.0003);
  EXPECT_NEAR(deviation(y), 0.02, 0.0002);
  EXPECT_GT(*std::max_element(y.begin(), y.end()), 3.07) << "no tails";
}

TEST(Values, UniformStaysInItsInterval) {
  const auto x =
      drawn_numbers("[100000]", "float64", "{kind: uniform, low: 2, high: 5}");
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  EXPECT_GE(*least, 2);
  EXPECT_LT(*least, 2.001);
  EXPECT_LE(*most, 5);
  EXPECT_GT(*most, 4.999);
  EXPECT_NEAR(mean(x), 3.5, 0.012);
}

TEST(Values, NearZeroHasZerosSubnormalsAndSmallNormals) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16,
                            DType::kE4M3FN, DType::kE5M2}) {
    const auto x =
        drawn_numbers("[4096]", std::string(traits(dtype).name), "near_zero");
    const double normal = min_normal(dtype);
    int zero = 0, negative_zero = 0, subnormal = 0, ordinary = 0;
    for (const double v : x) {
      zero += v == 0;
      negative_zero += v == 0 && std::signbit(v);
      subnormal += v != 0 && std::fabs(v) < normal;
      ordinary += std::fabs(v) >= normal;
      EXPECT_LE(std::fabs(v), 8 * normal);
    }
    EXPECT_GT(zero, 100) << traits(dtype).name;
    EXPECT_GT(negative_zero, 50) << traits(dtype).name;
    EXPECT_GT(subnormal, 250) << traits(dtype).name;
    EXPECT_GT(ordinary, 100) << traits(dtype).name;
  }
}

TEST(Values, WideSpansItsBinadesEvenly) {
  const auto x = drawn_numbers("[24000]", "float32", "wide");
  std::map<int, int> binades;
  for (const double v : x) ++binades[std::ilogb(v)];
  EXPECT_EQ(binades.begin()->first, -12);
  EXPECT_EQ(binades.rbegin()->first, 11);
  for (int e = -12; e < 12; ++e) EXPECT_NEAR(binades[e], 1000, 150) << e;
  const auto y =
      drawn_numbers("[1000]", "bfloat16", "{kind: wide, low: 100, high: 120}");
  for (const double v : y) EXPECT_GE(std::fabs(v), 0x1p100);
}

TEST(Values, SpecialHasEveryOneExactlyOnce) {
  for (const char* dtype :
       {"float64", "float32", "float16", "bfloat16", "float8_e5m2"}) {
    const Tensor t = drawn("[10, 20]", dtype, "special");
    int nan = 0, plus = 0, minus = 0, negative_zero = 0, most = 0, least = 0;
    for (const double v : numbers(t)) {
      nan += std::isnan(v);
      plus += v == HUGE_VAL;
      minus += v == -HUGE_VAL;
      negative_zero += v == 0 && std::signbit(v);
      most += std::fabs(v) == max_finite(t.dtype());
      least += v == min_positive(t.dtype());
    }
    EXPECT_EQ(nan, 1) << dtype;
    EXPECT_EQ(plus, 1) << dtype;
    EXPECT_EQ(minus, 1) << dtype;
    EXPECT_GE(negative_zero, 1) << dtype;
    EXPECT_EQ(most, 2) << dtype;
    EXPECT_GE(least, 1) << dtype;
  }
  const auto e4m3 =
      drawn_numbers("[200]", "float8_e4m3fn", "{kind: special, each: 3}");
  EXPECT_EQ(std::count_if(e4m3.begin(), e4m3.end(),
                          [](double v) { return std::isnan(v); }),
            3);
  // No room for all: what there is room for, and every element is one.
  EXPECT_EQ(drawn("[1]", "float32", "special").numel(), 1);
  EXPECT_TRUE(std::isnan(drawn_numbers("[1]", "float32", "special")[0]));
}

TEST(Values, SimpleOnesAreWhatTheySay) {
  using ::testing::Each;
  EXPECT_THAT(drawn_numbers("[5]", "float16", "zeros"), Each(0));
  EXPECT_THAT(drawn_numbers("[5]", "int32", "ones"), Each(1));
  EXPECT_THAT(drawn_numbers("[5]", "float32", "{kind: constant, value: -2.5}"),
              Each(-2.5));
  EXPECT_THAT(
      drawn_numbers("[4]", "int64", "{kind: arange, start: 3, step: 2}"),
      ::testing::ElementsAre(3, 5, 7, 9));
  for (const double v : drawn_numbers("[999]", "float16", "positive"))
    EXPECT_GT(v, 0);
}

TEST(Values, IntegersReachBothEnds) {
  const auto x =
      drawn_numbers("[1000]", "int8", "{kind: integers, low: -3, high: 2}");
  const std::set<double> seen(x.begin(), x.end());
  EXPECT_EQ(seen, (std::set<double>{-3, -2, -1, 0, 1, 2}));
  EXPECT_THROW(drawn("[10]", "int8", "{kind: integers, low: 200, high: 210}"),
               Error);
  EXPECT_THROW(drawn("[10]", "uint8", "{kind: integers, low: -2, high: -1}"),
               Error);
}

TEST(Values, MaskHasItsShare) {
  const auto x = drawn_numbers("[10, 100]", "bool", "{kind: mask, share: 0.3}");
  EXPECT_EQ(std::count(x.begin(), x.end(), 1.0), 300);
  // Never all or none by rounding alone.
  const auto y = drawn_numbers("[4]", "bool", "{kind: mask, share: 0.01}");
  EXPECT_EQ(std::count(y.begin(), y.end(), 1.0), 1);
}

TEST(Values, PermutationHasEveryNumberInEachRow) {
  const auto x = drawn_numbers("[3, 50]", "int32", "permutation");
  bool moved = false;
  for (int row = 0; row < 3; ++row) {
    std::vector<double> part(x.begin() + row * 50, x.begin() + row * 50 + 50);
    moved |= !std::is_sorted(part.begin(), part.end());
    std::sort(part.begin(), part.end());
    for (int i = 0; i < 50; ++i)
      EXPECT_EQ(part[static_cast<std::size_t>(i)], i);
  }
  EXPECT_TRUE(moved);
}

TEST(Values, SortedAscendsInEachRow) {
  for (const char* values : {"sorted", "{kind: sorted, scale: 4}"}) {
    const auto x = drawn_numbers("[3, 50]", "float32", values);
    for (int row = 0; row < 3; ++row)
      EXPECT_TRUE(
          std::is_sorted(x.begin() + row * 50, x.begin() + row * 50 + 50));
    EXPECT_FALSE(std::is_sorted(x.begin(), x.end()));
  }
  const auto y =
      drawn_numbers("[40]", "int16", "{kind: sorted, low: 5, high: 9}");
  EXPECT_TRUE(std::is_sorted(y.begin(), y.end()));
}

double sum(const std::vector<double>& x) {
  return mean(x) * static_cast<double>(x.size());
}

TEST(Values, SplitsSumToTheTotalWithAnEmptyOne) {
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    const auto x = numbers(
        drawn("[7]", "int64", "{kind: splits, total: 96, multiple: 16}", seed));
    EXPECT_EQ(sum(x), 96);
    EXPECT_GE(std::count(x.begin(), x.end(), 0.0), 1);
    for (const double v : x) EXPECT_EQ(std::fmod(v, 16), 0);
    const auto y = numbers(
        drawn("[7]", "int64",
              "{kind: splits, total: 20, parts: 7, empty: false}", seed));
    EXPECT_EQ(sum(y), 20);
    EXPECT_EQ(std::count(y.begin(), y.end(), 0.0), 0);
  }
  EXPECT_THAT(drawn_numbers("[1]", "int64", "{kind: splits, total: 5}"),
              ::testing::ElementsAre(5));
  EXPECT_THROW(drawn("[2]", "int64", "{kind: splits, total: 5, multiple: 2}"),
               Error);
  EXPECT_THROW(drawn("[2]", "int64", "{kind: splits, total: 5, parts: 3}"),
               Error);
  EXPECT_THROW(drawn("[2]", "int64", "splits"), Error);
}

TEST(Values, CuSeqlensAscendFromZeroToTheTotal) {
  const auto x =
      drawn_numbers("[5]", "int32", "{kind: cu_seqlens, total: 40, parts: 4}");
  EXPECT_EQ(x.front(), 0);
  EXPECT_EQ(x.back(), 40);
  for (std::size_t i = 1; i < x.size(); ++i) EXPECT_LT(x[i - 1], x[i]);
  const auto y = drawn_numbers("[5]", "int32",
                               "{kind: cu_seqlens, total: 40, empty: true}");
  bool empty = false;
  for (std::size_t i = 1; i < y.size(); ++i) empty |= y[i - 1] == y[i];
  EXPECT_TRUE(empty);
}

TEST(Values, LabelsHaveClassesAndIgnoredOnes) {
  const auto x = drawn_numbers(
      "[1000]", "int64",
      "{kind: labels, classes: 10, ignore_share: 0.25, ignore_index: -1}");
  EXPECT_EQ(std::count(x.begin(), x.end(), -1.0), 250);
  const std::set<double> seen(x.begin(), x.end());
  EXPECT_EQ(seen.size(), 11u);
  EXPECT_EQ(*seen.rbegin(), 9);
}

TEST(Values, RoutingPicksExactlyKOfEachRow) {
  const auto x =
      drawn_numbers("[64, 8]", "bool", "{kind: routing, experts: 8, topk: 3}");
  std::set<std::vector<double>> rows;
  for (int row = 0; row < 64; ++row) {
    const std::vector<double> part(x.begin() + row * 8,
                                   x.begin() + row * 8 + 8);
    EXPECT_EQ(std::count(part.begin(), part.end(), 1.0), 3);
    rows.insert(part);
  }
  EXPECT_GT(rows.size(), 20u);
  EXPECT_THROW(drawn("[64, 8]", "bool", "{kind: routing, topk: 9}"), Error);
}

TEST(Values, ProbabilitiesSumToOneAndOneHotHasOne) {
  const auto x = drawn_numbers("[16, 10]", "float64", "probabilities");
  const auto y = drawn_numbers("[16, 10]", "float32", "one_hot");
  for (int row = 0; row < 16; ++row) {
    const std::vector<double> p(x.begin() + row * 10,
                                x.begin() + row * 10 + 10);
    EXPECT_NEAR(sum(p), 1, 1e-15);
    EXPECT_GT(*std::min_element(p.begin(), p.end()), 0);
    EXPECT_EQ(std::count(y.begin() + row * 10, y.begin() + row * 10 + 10, 1.0),
              1);
  }
}

TEST(Values, CodesAreEveryByteAndFiniteOnesOnRequest) {
  const Tensor t = drawn("[8192]", "uint8", "codes");
  const std::set<std::uint8_t> seen(t.data<std::uint8_t>(),
                                    t.data<std::uint8_t>() + 8192);
  EXPECT_EQ(seen.size(), 256u);
  for (const auto& [dtype, finite] : std::map<std::string, std::size_t>{
           {"float8_e4m3fn", 254}, {"float8_e5m2", 248}}) {
    const Tensor f = drawn("[8192]", dtype, "{kind: codes, finite: true}");
    const std::set<std::uint8_t> codes(f.data<std::uint8_t>(),
                                       f.data<std::uint8_t>() + 8192);
    EXPECT_EQ(codes.size(), finite) << dtype;
    for (const double v : numbers(f)) EXPECT_TRUE(std::isfinite(v));
    const Tensor u = drawn("[8192]", "uint8",
                           "{kind: codes, finite: true, of: " + dtype + "}");
    EXPECT_EQ(std::set<std::uint8_t>(u.data<std::uint8_t>(),
                                     u.data<std::uint8_t>() + 8192)
                  .size(),
              finite);
  }
}

TEST(Inputs, AreTheSameForAnyNumberOfThreadsAndDifferBySeedAndName) {
  const auto digest = [](const Tensor& t) {
    return to_hex(hash128(t.view.bytes()));
  };
  const std::string one = digest(drawn("[300, 300]", "float32", "normal"));
  set_thread_count(1);
  EXPECT_EQ(digest(drawn("[300, 300]", "float32", "normal")), one);
  set_thread_count(0);
  EXPECT_NE(digest(drawn("[300, 300]", "float32", "normal", "2")), one);
  // The bytes that every machine makes of this spec.
  EXPECT_EQ(one, "07a8bb86fcce215f858e9ea0d7444190");

  const Spec spec = parse_spec(
      "module: m\ninputs:\n"
      "  a: {shape: [8], dtype: float32, values: normal}\n"
      "  b: {shape: [8], dtype: float32, values: normal}\n"
      "outputs: {y: {}}\n",
      "m.yaml");
  const Spec other = parse_spec(
      "module: m\ninputs:\n"
      "  b: {shape: [8], dtype: float32, values: normal}\n"
      "outputs: {y: {}}\n",
      "m.yaml");
  const TensorMap both = make_inputs(spec, make_cases(spec, Tier::kSmall)[0]);
  const TensorMap alone =
      make_inputs(other, make_cases(other, Tier::kSmall)[0]);
  EXPECT_NE(digest(both.at("a")), digest(both.at("b")));
  EXPECT_EQ(digest(both.at("b")), digest(alone.at("b")));
}

TEST(Inputs, ArePresentAndStridedAsTheSpecSays) {
  const Spec spec = parse_spec(
      "module: m\nparameters:\n  bias: [true, false]\n  far: [true]\n"
      "inputs:\n"
      "  x: {shape: [2, 3], dtype: bf16, values: normal, strided: far}\n"
      "  b: {shape: [3], dtype: float32, values: normal, when: bias,"
      " strided: bias}\n"
      "outputs: {y: {}}\n",
      "m.yaml");
  for (const Case& c : make_cases(spec, Tier::kSmall)) {
    const bool bias = c.parameters.at("bias").boolean();
    const TensorMap inputs = make_inputs(spec, c);
    EXPECT_EQ(inputs.count("b"), bias ? 1u : 0u);
    EXPECT_EQ(inputs.at("x").dtype(), DType::kBF16);
    EXPECT_EQ(strided_inputs(spec, c),
              bias ? (std::vector<std::string>{"x", "b"})
                   : (std::vector<std::string>{"x"}));
  }
}

TEST(Inputs, AreRefusedWithSpecCaseAndName) {
  const auto refusal = [](const std::string& shape, const std::string& dtype,
                          const std::string& values) -> std::string {
    try {
      drawn(shape, dtype, values);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusal("[-1]", "float32", "normal"),
              testing::AllOf(HasSubstr("m.yaml: small-"),
                             HasSubstr("input x: dimension -1 is -1")));
  EXPECT_THAT(refusal("['1.5']", "float32", "normal"), HasSubstr("a size"));
  EXPECT_THAT(refusal("[1000000, 1000000]", "float32", "normal"),
              HasSubstr("is more than"));
  EXPECT_THAT(
      refusal("[4000000000, 4000000000, 4000000000]", "float32", "normal"),
      HasSubstr("is more than"));
  EXPECT_THAT(refusal("[2]", "int32", "normal"), HasSubstr("need a float dtype, found int32"));
  EXPECT_THAT(refusal("[2]", "float32", "{kind: normal, scale: true}"),
              HasSubstr("option 'scale': true, expected a number"));
  EXPECT_THAT(refusal("[2]", "'1'", "normal"), HasSubstr("dtype 1"));
}

TEST(Inputs, OfEveryKindAreDrawnForEveryDtypeOrRefused) {
  for (const ValueKind& kind : value_kinds())
    for (const DTypeTraits& dtype : kDTypes) {
      std::string values = "{kind: " + std::string(kind.name);
      for (const std::string_view option : kind.options) {
        if (option == "finite" || option == "empty") {
          values += ", " + std::string(option) + ": true";
        } else if (option != "of" && option != "parts" && option != "experts") {
          values += ", " + std::string(option) + ": 1";
        }
      }
      for (const char* shape : {"[]", "[0]", "[3]", "[0, 4]", "[2, 5]"}) {
        try {
          const Tensor t = drawn(shape, std::string(dtype.name), values + "}");
          EXPECT_EQ(t.dtype(), dtype.id);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::kUsage) << error.what();
        }
      }
    }
}

}  // namespace
}  // namespace assay::conform
