// What two outcomes of a case come to, one rule after the other.
#include "assay/conform/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "assay/base/error.h"
#include "assay/conform/judge_tensor.h"
#include "assay/conform/merge.h"
#include "assay/conform/standards.h"

namespace assay::conform {
namespace {

using ::testing::HasSubstr;

template <typename T>
Tensor tensor(DType dtype, Shape shape, std::vector<T> values) {
  Tensor t = Tensor::empty(dtype, std::move(shape));
  EXPECT_EQ(t.view.bytes().size(), values.size() * sizeof(T));
  if (!values.empty())
    std::memcpy(t.mutable_data(), values.data(), values.size() * sizeof(T));
  return t;
}

Tensor floats(std::vector<float> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return tensor(DType::kF32, {size}, std::move(values));
}

Tensor codes(DType dtype, std::vector<std::uint8_t> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return tensor(dtype, {dtype == DType::kE2M1 ? 2 * size : size},
                std::move(values));
}

Outcome outcome(TensorMap outputs, Object contract = {}) {
  Outcome side;
  side.outputs.push_back(std::move(outputs));
  side.contract = std::move(contract);
  return side;
}

Outcome failure(const char* error,
                RunAnswer::Status status = RunAnswer::Status::kError) {
  Outcome side;
  side.status = status;
  side.error = error;
  side.message = "because";
  return side;
}

Spec spec_of(const std::string& outputs, const std::string& more = "") {
  return parse_spec(
      "module: m\nsummary: s\napi: [m]\nparameters:\n  n: [4]\ninputs:\n"
      "  x: {shape: [n], dtype: float32, values: normal}\noutputs:\n" +
          outputs + more,
      "specs/m.yaml");
}

Case case_of(const Spec& spec) { return make_cases(spec, Tier::kSmall).at(0); }

CaseResult judged(const Spec& spec, const Outcome& golden,
                  const Outcome& target, const Outcome* again = nullptr,
                  bool invalid = false) {
  CaseResult result;
  result.subject = case_of(spec);
  result.subject.invalid = invalid;
  judge_case(spec, golden, target, again, result);
  return result;
}

const Check& check_of(const CaseResult& result, const std::string& name,
                      int rank = 0) {
  for (const Check& check : result.checks)
    if (check.name == name && check.rank == rank) return check;
  ADD_FAILURE() << "no check of " << name;
  static const Check kNone;
  return kNone;
}

const Spec& simple() {
  static const Spec spec = spec_of("  y: {}\n");
  return spec;
}

TEST(Judge, EqualIsAMatchAndAnotherValueIsNone) {
  const Outcome golden = outcome({{"y", floats({1, 2, 3, 4})}});
  EXPECT_EQ(judged(simple(), golden, golden).verdict, Verdict::kMatch);
  const CaseResult result =
      judged(simple(), golden, outcome({{"y", floats({1, 2, 3, 5})}}));
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
  EXPECT_EQ(result.ending, Ending::kCompared);
  const Check& check = check_of(result, "y");
  EXPECT_EQ(check.standard, "assay");
  EXPECT_NE(check.criterion, "");
  EXPECT_DOUBLE_EQ(check.max_abs, 1);
  EXPECT_EQ(check.index, 3);
  EXPECT_THAT(result.message, HasSubstr("y: "));
}

TEST(Judge, OneSideAloneIsIncomplete) {
  const Outcome both = outcome({{"y", floats({1})}});
  const Outcome none = outcome({});
  for (const auto& [golden, target, text] :
       {std::tuple(&both, &none, "no counterpart in the target"),
        std::tuple(&none, &both, "no counterpart in the golden"),
        std::tuple(&none, &none, "neither side")}) {
    const CaseResult result = judged(simple(), *golden, *target);
    EXPECT_EQ(result.verdict, Verdict::kIncomplete);
    EXPECT_THAT(result.message, HasSubstr(text));
  }
}

TEST(Judge, WhatTheSpecDoesNotDeclareIsIncomplete) {
  const Outcome more = outcome({{"y", floats({1})}, {"z", floats({1})}});
  const CaseResult result = judged(simple(), more, more);
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_THAT(result.message, HasSubstr("specs/m.yaml does not declare it"));
}

TEST(Judge, ASpecWithoutOutputsToCompareIsIncomplete) {
  const Spec spec = spec_of("  y: {when: n > 4}\n");
  const CaseResult result = judged(spec, outcome({}), outcome({}));
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_EQ(result.message, "no output was compared");
}

TEST(Judge, ShapesAndDTypesAreExact) {
  const Outcome golden = outcome({{"y", floats({1, 2})}});
  const Outcome row =
      outcome({{"y", tensor<float>(DType::kF32, {1, 2}, {1, 2})}});
  EXPECT_EQ(check_of(judged(simple(), golden, row), "y").criterion, "shape");
  const Outcome wide =
      outcome({{"y", tensor<double>(DType::kF64, {2}, {1, 2})}});
  EXPECT_EQ(check_of(judged(simple(), golden, wide), "y").criterion, "dtype");
}

// Both sides may agree on what the spec does not say.
TEST(Judge, BothSidesKeepWhatTheSpecDeclares) {
  const Spec spec = spec_of("  y: {shape: [n], dtype: float32}\n");
  const Outcome short_y = outcome({{"y", floats({1, 2})}});
  CaseResult result = judged(spec, short_y, short_y);
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
  EXPECT_THAT(result.message, HasSubstr("golden: shape [2], the spec declares "
                                        "[4]"));
  const Outcome wide =
      outcome({{"y", tensor<double>(DType::kF64, {4}, {1, 2, 3, 4})}});
  result = judged(spec, wide, wide);
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
  EXPECT_THAT(result.message, HasSubstr("dtype float64, the spec declares"));
}

TEST(Judge, EmptyIsNoEvidence) {
  const Outcome empty = outcome({{"y", floats({})}}, {{"k", 1}});
  const Spec spec = spec_of("  y: {}\n", "contract: [k]\n");
  EXPECT_EQ(judged(spec, empty, empty).verdict, Verdict::kEmpty);
  const Outcome other = outcome({{"y", floats({})}}, {{"k", 2}});
  EXPECT_EQ(judged(spec, empty, other).verdict, Verdict::kMismatch);
}

TEST(Judge, NaNAlikeIsNoEvidenceAndUnlikeAMismatch) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Outcome golden = outcome({{"y", floats({nan, inf})}});
  EXPECT_EQ(judged(simple(), golden, golden).verdict, Verdict::kEmpty);
  for (const std::vector<float>& other :
       {std::vector<float>{nan, -inf}, {nan, 1}, {1, inf}, {nan, nan}})
    EXPECT_EQ(judged(simple(), golden, outcome({{"y", floats(other)}})).verdict,
              Verdict::kMismatch);
}

TEST(Judge, ExactBytesAreBytesWhateverTheDType) {
  const Spec spec = spec_of("  y: {exact: true}\n");
  const Outcome u8 = outcome({{"y", codes(DType::kU8, {0x00, 0x7e, 0xff})}});
  for (const DType dtype :
       {DType::kE4M3FN, DType::kE8M0, DType::kE5M2, DType::kI8, DType::kE2M1}) {
    const Outcome same = outcome({{"y", codes(dtype, {0x00, 0x7e, 0xff})}});
    EXPECT_EQ(judged(spec, u8, same).verdict, Verdict::kMatch)
        << traits(dtype).name;
    // 0x80 is zero too as FP8; not here.
    const Outcome other = outcome({{"y", codes(dtype, {0x80, 0x7e, 0xff})}});
    EXPECT_EQ(judged(spec, u8, other).verdict, Verdict::kMismatch)
        << traits(dtype).name;
  }
}

TEST(Judge, EveryStepIsCompared) {
  const Spec spec = spec_of("  y: {each_step: true}\n", "steps: 2\n");
  const Outcome golden =
      outcome({{"y.step1", floats({1})}, {"y.step2", floats({2})}});
  EXPECT_EQ(judged(spec, golden, golden).verdict, Verdict::kMatch);
  const Outcome target =
      outcome({{"y.step1", floats({1})}, {"y.step2", floats({3})}});
  EXPECT_EQ(check_of(judged(spec, golden, target), "y.step2").verdict,
            Verdict::kMismatch);
  EXPECT_EQ(judged(spec, golden, outcome({{"y.step1", floats({1})}})).verdict,
            Verdict::kIncomplete);
}

TEST(Judge, ContractFieldsAreNamedByTheirPath) {
  const Spec spec = spec_of("  y: {}\n", "contract: [defaults, enums]\n");
  const auto side = [](Value eps, Value mode) {
    return outcome({{"y", floats({1})}},
                   {{"defaults", Object{{"eps", eps}, {"bias", true}}},
                    {"enums", List{1, mode}}});
  };
  const Outcome golden = side(1e-5, "a");
  EXPECT_EQ(judged(spec, golden, golden).verdict, Verdict::kMatch);
  CaseResult result = judged(spec, golden, side(1e-6, "b"));
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
  EXPECT_EQ(check_of(result, "contract.defaults.eps").text,
            "golden 1e-05, target 1e-06");
  EXPECT_EQ(check_of(result, "contract.enums[1]").verdict, Verdict::kMismatch);
  // A number is no text, 1 is not 1.0, and a member more is a difference.
  EXPECT_EQ(judged(spec, side(1, "a"), side(1.0, "a")).verdict,
            Verdict::kMismatch);
  Outcome more = golden;
  more.contract["defaults"].object()["new"] = 1;
  EXPECT_EQ(check_of(judged(spec, golden, more), "contract.defaults.new").text,
            "golden nothing, target 1");
}

TEST(Judge, AContractFieldThatIsNotGivenIsIncomplete) {
  const Spec spec = spec_of("  y: {}\n", "contract: [k]\n");
  const Outcome with = outcome({{"y", floats({1})}}, {{"k", 1}});
  const Outcome without = outcome({{"y", floats({1})}});
  for (const auto& [golden, target] :
       {std::pair(&with, &without), std::pair(&without, &with),
        std::pair(&without, &without)}) {
    const CaseResult result = judged(spec, *golden, *target);
    EXPECT_EQ(result.verdict, Verdict::kIncomplete);
    EXPECT_EQ(check_of(result, "contract.k").criterion, "missing");
  }
}

TEST(Judge, Refusals) {
  const Outcome ok = outcome({{"y", floats({1})}});
  const Outcome no = failure("ValueError"), fault = failure("NameError");
  const Outcome lacks = failure("unsupported", RunAnswer::Status::kUnsupported);
  struct {
    const Outcome& golden;
    const Outcome& target;
    bool invalid;
    Ending ending;
    Verdict verdict;
  } const kRules[] = {
      {no, no, true, Ending::kCompared, Verdict::kMatch},
      {no, ok, true, Ending::kRefused, Verdict::kMismatch},
      {ok, no, true, Ending::kRefused, Verdict::kMismatch},
      {ok, ok, true, Ending::kRefused, Verdict::kMismatch},
      {no, fault, true, Ending::kFailed, Verdict::kMismatch},
      {no, lacks, true, Ending::kUnsupported, Verdict::kIncomplete},
      {no, no, false, Ending::kRefused, Verdict::kIncomplete},
      {ok, no, false, Ending::kRefused, Verdict::kMismatch},
      {no, ok, false, Ending::kRefused, Verdict::kMismatch},
      {ok, fault, false, Ending::kFailed, Verdict::kMismatch},
      {ok, lacks, false, Ending::kUnsupported, Verdict::kIncomplete},
      {lacks, ok, false, Ending::kUnsupported, Verdict::kIncomplete},
      {lacks, no, false, Ending::kUnsupported, Verdict::kIncomplete},
  };
  for (const auto& rule : kRules) {
    const CaseResult result =
        judged(simple(), rule.golden, rule.target, nullptr, rule.invalid);
    const std::string names = rule.golden.error + ", " + rule.target.error +
                              (rule.invalid ? ", invalid" : "");
    EXPECT_EQ(to_string(result.ending), to_string(rule.ending)) << names;
    EXPECT_EQ(result.verdict, rule.verdict) << names;
    EXPECT_NE(result.message, "") << names;
  }
}

// A worker that dies of something else in an invalid case has refused nothing.
TEST(Judge, OnlyKindsThatRefuseArgumentsAreRefusals) {
  const Outcome no = failure("ValueError");
  for (const char* kind : {"usage", "TypeError", "AssertionError",
                           "RuntimeError", "IndexError", "NotImplementedError"})
    EXPECT_EQ(judged(simple(), no, failure(kind), nullptr, true).verdict,
              Verdict::kMatch)
        << kind;
  for (const char* kind :
       {"", "SafetensorError", "AcceleratorError", "KeyError", "panic",
        "valueerror", "ZeroDivisionError"}) {
    const CaseResult result =
        judged(simple(), no, failure(kind), nullptr, true);
    EXPECT_EQ(result.verdict, Verdict::kMismatch) << kind;
    EXPECT_EQ(result.ending, Ending::kFailed) << kind;
  }
}

TEST(Judge, MessagesOfAWorkerAreOneLine) {
  Outcome no = failure("ValueError");
  no.message = "n: \"2\"\n\x1b[31m red \xc2\x9b\t\r end\n";
  const CaseResult result = judged(simple(), outcome({{"y", floats({1})}}), no);
  EXPECT_THAT(result.message, HasSubstr("ValueError: n: \"2\" [31m red end"));
}

TEST(Judge, TheSecondRunGivesTheSameBytes) {
  const Outcome first = outcome({{"y", floats({0.0F, 1})}});
  EXPECT_EQ(judged(simple(), first, first, &first).verdict, Verdict::kMatch);
  // Equal values, other bits.
  const Outcome second = outcome({{"y", floats({-0.0F, 1})}});
  const CaseResult result = judged(simple(), first, first, &second);
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
  EXPECT_EQ(check_of(result, "again.y").criterion, "deterministic");
  const Outcome none = outcome({});
  EXPECT_EQ(judged(simple(), first, first, &none).verdict, Verdict::kMismatch);
}

// One error, many yardsticks: 0.1 % off in float32.
TEST(Judge, TheStandardOfTheSpecDecides) {
  std::vector<float> values(64, 1.0F), off(64, 1.001F);
  const Outcome golden = outcome({{"y", floats(values)}});
  const Outcome target = outcome({{"y", floats(off)}});
  const auto verdict = [&](const std::string& standard) {
    const CaseResult result = judged(
        spec_of("  y: {}\n", "standard: " + standard + "\n"), golden, target);
    return result.verdict;
  };
  EXPECT_EQ(verdict("assay"), Verdict::kMismatch);
  EXPECT_EQ(verdict("exact"), Verdict::kMismatch);
  EXPECT_EQ(verdict("allclose"), Verdict::kMismatch);
  EXPECT_EQ(verdict("te-tests"), Verdict::kMismatch);
  EXPECT_EQ(verdict("mare"), Verdict::kMismatch);  // 2^-13 on average
  // 2^-10 of each value and 2^-16 on top: 9.9e-4 < 1e-3.
  EXPECT_EQ(verdict("mixed_tolerance"), Verdict::kMismatch);
  EXPECT_EQ(verdict("\n  kind: tolerance\n  name: loose\n  project: p\n"
                    "  document: d\n  section: s\n  date: 2026-11\n"
                    "  contract: {dtype: exact, requires_grad: note}\n"
                    "  combine: sum\n  share: 1\n"
                    "  dtypes: {f32: {rtol: 2e-3, atol: 0}}"),
            Verdict::kMatch);
}

TEST(Judge, TheFirstRuleThatHoldsAndTheOutputsOwnStandard) {
  const Spec spec = spec_of(
      "  y: {}\n  z: {standard: exact}\n",
      "standard:\n  - {when: n > 4, use: exact}\n  - {when: n == 4, use: "
      "mare}\n  - {use: assay}\n");
  const Outcome side = outcome({{"y", floats({1})}, {"z", floats({1})}});
  const CaseResult result = judged(spec, side, side);
  EXPECT_EQ(check_of(result, "y").standard, "ascend-mere-mare");
  EXPECT_EQ(check_of(result, "z").standard, "exact");
}

// By a standard of Ascend an error within 32 ulp passes though it is over the
// largest absolute error: 1e-2 in float32.
TEST(Judge, MixedToleranceHasItsUlpBackstop) {
  const Spec spec = spec_of("  y: {}\n", "standard: mixed_tolerance\n");
  std::vector<float> values(200, 1.0F), off = values;
  values[7] = off[7] = 1e6F;  // an ulp is 0.0625
  off[7] += 31 * 0.0625F;
  const auto verdict = [&] {
    return judged(spec, outcome({{"y", floats(values)}}),
                  outcome({{"y", floats(off)}}))
        .verdict;
  };
  EXPECT_EQ(verdict(), Verdict::kMatch);
  off[7] += 2 * 0.0625F;
  EXPECT_EQ(verdict(), Verdict::kMismatch);
}

TEST(Standards, RefusesPathsAndUnknownNames) {
  for (const char* bad : {"/etc/passwd", "../x.yaml", "alclose", "kind: no"})
    EXPECT_THROW(load_standard(bad, "specs/m.yaml"), Error) << bad;
}

TEST(Merge, PartsOfRanksPutTogether) {
  const Tensor a = tensor<float>(DType::kF32, {2, 1}, {1, 2});
  const Tensor b = tensor<float>(DType::kF32, {2, 2}, {3, 4, 5, 6});
  const Tensor joined =
      merged({Merge::Kind::kConcatenate, 1}, {&a, &b}).value();
  EXPECT_TRUE(same_bytes(
      joined, tensor<float>(DType::kF32, {2, 3}, {1, 3, 4, 2, 5, 6})));
  EXPECT_TRUE(same_bytes(
      joined, merged({Merge::Kind::kConcatenate, -1}, {&a, &b}).value()));
  const Tensor c = tensor<float>(DType::kF32, {1, 2}, {7, 8});
  EXPECT_TRUE(
      same_bytes(merged({Merge::Kind::kConcatenate, 0}, {&b, &c}).value(),
                 tensor<float>(DType::kF32, {3, 2}, {3, 4, 5, 6, 7, 8})));
  EXPECT_THROW(merged({Merge::Kind::kConcatenate, 0}, {&a, &b}), Error);
  EXPECT_THROW(merged({Merge::Kind::kConcatenate, 2}, {&a, &b}), Error);
  EXPECT_EQ(merged({Merge::Kind::kConcatenate, 1}, {&a, nullptr}),
            std::nullopt);
}

// 1 + 2^-24 + 2^-24 in fp32 is 1; the sum of the ranks is rounded once.
TEST(Merge, SumsAreRoundedOnce) {
  const Tensor one = floats({1}), small = floats({std::ldexp(1.0F, -24)});
  const Tensor sum =
      merged({Merge::Kind::kSum, 0}, {&one, &small, &small}).value();
  EXPECT_EQ(sum.data<float>()[0], 1 + std::ldexp(1.0F, -23));
  EXPECT_THROW(merged({Merge::Kind::kSum, 0}, {&one, &sum, nullptr}).value(),
               std::bad_optional_access);
  const Tensor other = floats({1, 2});
  EXPECT_THROW(merged({Merge::Kind::kSum, 0}, {&one, &other}), Error);
}

TEST(Judge, RanksThatMustBeTheSameAre) {
  const Spec spec = spec_of("  y: {merge: same}\n");
  const auto side = [](float first, float second) {
    Outcome two = outcome({{"y", floats({first, 5})}});
    two.outputs.push_back({{"y", floats({second, 5})}});
    return two;
  };
  const Outcome golden = side(1, 1);
  EXPECT_EQ(judged(spec, golden, golden).verdict, Verdict::kMatch);
  // Within the standard of each rank, but not the same.
  const Outcome target = side(1, std::nextafter(1.0F, 2.0F));
  const CaseResult result = judged(spec, golden, target);
  EXPECT_EQ(check_of(result, "y", 1).verdict, Verdict::kMatch);
  EXPECT_EQ(check_of(result, "y", -1).verdict, Verdict::kMismatch);
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
}

TEST(Judge, TheSameNothingOnEveryRankIsNoEvidence) {
  const Spec spec = spec_of("  y: {merge: same}\n");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& values : {std::vector<float>{}, {nan, nan}}) {
    Outcome side = outcome({{"y", floats(values)}});
    side.outputs.push_back({{"y", floats(values)}});
    const CaseResult result = judged(spec, side, side);
    EXPECT_EQ(check_of(result, "y", -1).verdict, Verdict::kEmpty);
    EXPECT_EQ(result.verdict, Verdict::kEmpty);
  }
}

}  // namespace
}  // namespace assay::conform
