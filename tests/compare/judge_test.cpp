// The verdict of one row, by the evidence both sides kept.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "assay/compare/digest.h"
#include "synthetic.h"

namespace assay::test {
namespace {

Comparison compare_outputs(Tensor golden, Tensor target) {
  TraceBuilder a, b;
  a.op("Torch.a.0.forward").tensor(Role::kOutput, "output.0", golden);
  b.op("Torch.a.0.forward").tensor(Role::kOutput, "output.0", target);
  return compare(a.build(), b.build());
}

TEST(Judge, EqualTensorsMatchWithFigures) {
  const Comparison result =
      compare_outputs(f32({2}, {1, -3}), f32({2}, {1, -3}));
  EXPECT_EQ(result.verdict, Verdict::kMatch);
  EXPECT_EQ(result.rows[0].evidence, Evidence::kTensor);
  EXPECT_EQ(result.golden_bytes, 8);
  EXPECT_EQ(result.rows[0].target.stats.min, -3);  // measured
  EXPECT_FALSE(result.first_divergence.has_value());
}

TEST(Judge, F55AnEmptyTensorIsNoEvidence) {
  const Comparison result = compare_outputs(f32({0, 3}, {}), f32({0, 3}, {}));
  EXPECT_EQ(result.rows[0].verdict, Verdict::kEmpty);
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_EQ(result.counts.empty, 1);
}

TEST(Judge, F55EmptyTensorsOfOtherShapesDiffer) {
  EXPECT_EQ(compare_outputs(f32({}, {3}), f32({0}, {})).verdict,
            Verdict::kMismatch);
  EXPECT_EQ(compare_outputs(f32({0, 3}, {}), f32({3, 0}, {})).verdict,
            Verdict::kMismatch);
}

TEST(Judge, F56ShapesAreNeverBroadcastOrSqueezed) {
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{2}, {1}}, {{5}, {5, 1}}, {{}, {1}}, {{3, 1}, {1, 3}}};
  for (const auto& [a, b] : cases) {
    const std::vector<float> ones(5, 1);
    const Comparison result = compare_outputs(
        f32(a, {ones.begin(), ones.begin() + *checked_numel(a)}),
        f32(b, {ones.begin(), ones.begin() + *checked_numel(b)}));
    EXPECT_EQ(result.verdict, Verdict::kMismatch) << to_string(a);
    EXPECT_TRUE(has_reason(result.rows[0], "shape"));
  }
}

TEST(Judge, F62AScalarIsComparedLikeAnyTensor) {
  EXPECT_EQ(compare_outputs(f32({}, {1}), f32({}, {1})).verdict,
            Verdict::kMatch);
  EXPECT_EQ(compare_outputs(f32({}, {1}), f32({}, {2})).verdict,
            Verdict::kMismatch);
  EXPECT_EQ(compare_outputs(f32({}, {1}), f32({3}, {1, 1, 1})).verdict,
            Verdict::kMismatch);
}

// A float32 scale where the consumer expects packed E8M0 codes.
TEST(Judge, F80AScaleOfAnotherFormatBreaksTheContract) {
  const Tensor codes = Tensor::zeros(DType::kE8M0, {4});
  for (const Tensor& other :
       {f32({4}, {0x1p-127f, 0x1p-127f, 0x1p-127f, 0x1p-127f}),
        Tensor::zeros(DType::kU8, {4}), Tensor::zeros(DType::kE8M0, {1})}) {
    const Comparison result = compare_outputs(codes, other);
    EXPECT_EQ(result.verdict, Verdict::kMismatch);
    EXPECT_TRUE(has_reason(result.rows[0], "dtype") ||
                has_reason(result.rows[0], "shape"));
  }
}

TEST(Judge, F64NothingButEmptyInputsIsNoEvidence) {
  TraceBuilder a, b;
  for (TraceBuilder* side : {&a, &b}) {
    side->op("Torch.a.0.forward")
        .tensor(Role::kInput, "input.0", f32({0, 5, 0}, {}))
        .value("input.1", "int", "2")
        .tensor(Role::kOutput, "output.0", f32({0, 5, 0}, {}));
  }
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.counts.empty, 2);
  EXPECT_EQ(result.counts.match, 1);  // the plain argument
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
}

TEST(Judge, F69AnOutputMissingOnOneSideIsAFailure) {
  TraceBuilder a, b;
  a.op("Torch.a.0.forward").in({1}).out({1});
  b.op("Torch.a.0.forward").in({1});
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_EQ(row(result, "Torch.a.0.forward.output.0").reasons[0].text,
            "no counterpart in the target");
}

TEST(Judge, F69ExtremeIntegersDiffer) {
  Tensor a = Tensor::zeros(DType::kI32, {1});
  Tensor b = Tensor::zeros(DType::kI32, {1});
  const std::int32_t low = -2147483647, high = 2147483647;
  std::memcpy(a.mutable_data(), &high, 4);
  std::memcpy(b.mutable_data(), &low, 4);
  const Comparison result = compare_outputs(a, b);
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
  EXPECT_EQ(result.rows[0].stats->max_abs_int, 4294967294u);
}

TEST(Judge, F70EqualMeansAreNoMatch) {
  EXPECT_EQ(compare_outputs(f32({2}, {1, -1}), f32({2}, {-1, 1})).verdict,
            Verdict::kMismatch);
}

TEST(Judge, AnUnreadableFileIsARowAndStopsNothing) {
  TraceBuilder a, b;
  a.op("Torch.a.0.forward").in({1}).out({2});
  b.op("Torch.a.0.forward").in({1}).out({2});
  b.loader().tensors.erase(b.last().file);
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.counts.match, 1);
  const Row& bad = row(result, "Torch.a.0.forward.output.0");
  EXPECT_EQ(bad.verdict, Verdict::kIncomplete);
  EXPECT_NE(bad.reasons[0].text.find("truncated at byte 7"), std::string::npos);
  EXPECT_EQ(bad.stats, nullptr);
}

TEST(Judge, AnUnreadableFileWhoseStatisticsDifferIsAMismatch) {
  TraceBuilder a, b;
  a.op("Torch.a.0.forward").out({2, 4});
  a.last().stats = {4, 2, 3, std::sqrt(20.0)};
  b.op("Torch.a.0.forward").out({2, 4});
  b.last().stats = {8, 4, 6, std::sqrt(80.0)};
  b.last().unreadable = "gone";
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
  EXPECT_EQ(result.rows[0].evidence, Evidence::kStatistics);
  EXPECT_TRUE(has_reason(result.rows[0], "unreadable"));
}

TEST(Judge, StatisticsDecideWhereOneSideKeptNoTensor) {
  TraceBuilder a, b;
  a.op("Torch.a.0.forward").out({2, 4});
  a.last().stats = {4, 2, 3, std::sqrt(20.0)};
  b.op("Torch.a.0.forward")
      .statistics(Role::kOutput, "output.0", {2}, 4, 2, 3, std::sqrt(20.0));
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.verdict, Verdict::kMatch);
  EXPECT_EQ(result.rows[0].evidence, Evidence::kStatistics);
  EXPECT_TRUE(has_reason(result.rows[0], "tensor_missing"));
}

TEST(Judge, NoEvidenceIsIncomplete) {
  TraceBuilder a, b;
  for (TraceBuilder* side : {&a, &b}) {
    side->op("Torch.a.0.forward")
        .digest(Role::kOutput, "output.0", DType::kE4M3FN, {2}, "");
  }
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_TRUE(has_reason(result.rows[0], "no_evidence"));
}

TEST(Judge, ValuesAreComparedAsText) {
  TraceBuilder a, b;
  a.op("Torch.a.0.forward")
      .value("input.0", "float", "1e-05")
      .value("input.1", "int", "2")
      .value("input.2", "torch.device", "cuda:0")
      .in({1});
  b.op("Torch.a.0.forward")
      .value("input.0", "float", "1e-06")
      .value("input.1", "float", "2")
      .value("input.2", "torch.device", "npu:0")
      .value("input.3", "int", "1");
  b.last().leaf = "input.0";  // an extra leaf of a taken name
  const Comparison result = compare(a.build(), b.build());
  EXPECT_TRUE(has_reason(result.rows[0], "value"));
  EXPECT_EQ(result.rows[0].verdict, Verdict::kMismatch);
  EXPECT_TRUE(has_reason(result.rows[1], "type"));
  EXPECT_EQ(result.rows[1].verdict, Verdict::kMismatch);
  EXPECT_EQ(result.rows[2].verdict, Verdict::kMatch);
  EXPECT_TRUE(result.rows[2].reasons[0].note);
}

TEST(Judge, ATensorAgainstAPlainValueDiffers) {
  TraceBuilder a, b;
  a.op("Torch.a.0.forward").in({1});
  b.op("Torch.a.0.forward").value("input.0", "float", "1.0");
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
  EXPECT_EQ(result.rows[0].reasons[0].text,
            "golden is a tensor, target is float 1.0");
}

Tensor bf16(const std::vector<float>& values) {
  Tensor tensor =
      Tensor::zeros(DType::kBF16, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, &values[i], 4);
    const auto high = static_cast<std::uint16_t>(bits >> 16);
    std::memcpy(tensor.mutable_data() + 2 * i, &high, 2);
  }
  return tensor;
}

TEST(Judge, F79AWidenedPayloadIsJudgedByTheDtypeThatRan) {
  TraceBuilder a, b;
  a.op("Torch.a.0.forward").out({1.0f, 2.0f, -0.5f, 4.0f});
  a.last().facts.dtype = DType::kBF16;
  b.op("Torch.a.0.forward")
      .tensor(Role::kOutput, "output.0", bf16({1.0f, 2.0f, -0.5f, 4.0f}));
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.verdict, Verdict::kMatch);
  EXPECT_EQ(result.rows[0].stats->judged_dtype, DType::kBF16);
  EXPECT_TRUE(result.rows[0].stats->bitwise_equal);
  EXPECT_TRUE(has_reason(result.rows[0], "sidecar_dtype"));
}

TEST(Judge, F79AnotherPayloadThanTheDumpSaysIsItsOwnFinding) {
  TraceBuilder a, b;
  a.op("Torch.a.0.forward").out({1, 1.0009765f});
  b.op("Torch.a.0.forward").out({1, 1.0009765f});
  for (TraceBuilder* side : {&a, &b}) side->last().facts.dtype = DType::kBF16;
  const Comparison dtype = compare(a.build(), b.build());
  EXPECT_EQ(dtype.verdict, Verdict::kIncomplete);
  EXPECT_TRUE(has_reason(dtype.rows[0], "sidecar_dtype"));

  TraceBuilder c, d;
  c.op("Torch.a.0.forward").out({1, 2});
  d.op("Torch.a.0.forward").out({1, 2});
  for (TraceBuilder* side : {&c, &d}) side->last().facts.shape = {2, 1};
  const Comparison shape = compare(c.build(), d.build());
  EXPECT_EQ(shape.verdict, Verdict::kIncomplete);
  EXPECT_TRUE(has_reason(shape.rows[0], "sidecar_shape"));
}

TEST(Judge, F67AStridedViewIsComparedByItsElements) {
  Tensor view = f32({2, 3}, {0, 1, 2, 3, 4, 5});
  view.view.shape = {3, 2};
  view.view.strides = {1, 3};
  EXPECT_EQ(compare_outputs(f32({3, 2}, {0, 3, 1, 4, 2, 5}), view).verdict,
            Verdict::kMatch);
}

TEST(Judge, UninitialisedMemoryIsNoEvidenceAndNoMismatch) {
  TraceBuilder a, b;
  a.op("Torch.empty.0.forward").out({7, 7});
  a.op("Distributed.recv.0.forward").in({1}).value("input.1", "int", "1");
  b.op("Torch.empty.0.forward").out({9, 9});
  b.op("Distributed.recv.0.forward").in({2}).value("input.1", "int", "1");
  a.op("Torch.abs.0.forward").tensor(Role::kInput, "input.out", f32({1}, {3}));
  b.op("Torch.abs.0.forward").tensor(Role::kInput, "input.out", f32({1}, {4}));
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.counts.empty, 3);
  EXPECT_EQ(result.counts.mismatch, 0);
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
}

Verdict digests(const std::string& a, const std::string& b) {
  return judge_digest(a, b, DType::kF32).verdict;
}

TEST(Digest, F65AnEqualXorProvesNothing) {
  EXPECT_EQ(digests("0x0000000000000000", "0x0000000000000000"),
            Verdict::kIncomplete);
  EXPECT_EQ(digests("0x0000000000000001", "0x0000000000000000"),
            Verdict::kMismatch);
}

TEST(Digest, EqualCrcMatchesWithANote) {
  const Judgement equal = judge_digest("0a1b2c3d", "0A1B2C3D", DType::kF32);
  EXPECT_EQ(equal.verdict, Verdict::kMatch);
  EXPECT_TRUE(equal.reasons[0].note);
  EXPECT_EQ(digests("0a1b2c3d", "0a1b2c3e"), Verdict::kMismatch);
  EXPECT_EQ(digests("0a1b2c3d", "0x0a1b2c3d"), Verdict::kIncomplete);
  EXPECT_EQ(digests("what?", "what?"), Verdict::kIncomplete);
}

TEST(Digest, DecidesWhereADumpKeptNothingElse) {
  TraceBuilder a, b;
  for (const char* name : {"Torch.a.0.forward", "Torch.b.0.forward"}) {
    a.op(name).digest(Role::kOutput, "output.0", DType::kF32, {2}, "00000001");
  }
  b.op("Torch.a.0.forward")
      .digest(Role::kOutput, "output.0", DType::kF32, {2}, "00000001");
  b.op("Torch.b.0.forward")
      .digest(Role::kOutput, "output.0", DType::kF32, {2}, "00000002");
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.rows[0].verdict, Verdict::kMatch);
  EXPECT_EQ(result.rows[0].evidence, Evidence::kDigest);
  EXPECT_EQ(result.rows[1].verdict, Verdict::kMismatch);
}

TEST(Digest, AnEqualDigestOfAnotherShapeOrDtypeIsAMismatch) {
  TraceBuilder a, b;
  a.op("Torch.a.0.forward")
      .digest(Role::kOutput, "output.0", DType::kF32, {2}, "00000001");
  b.op("Torch.a.0.forward")
      .digest(Role::kOutput, "output.0", DType::kI32, {2}, "00000001");
  EXPECT_EQ(compare(a.build(), b.build()).verdict, Verdict::kMismatch);
}

TEST(Judge, BigIntegersOfAStatisticsDumpAreComparedAsText) {
  TraceBuilder a, b;
  for (TraceBuilder* side : {&a, &b}) {
    side->op("Torch.a.0.forward")
        .statistics(Role::kOutput, "output.0", {1}, 1152921504606846976.0, 0, 0,
                    0);
    side->last().facts.dtype = DType::kI64;
    side->last().value = R"({"Max":1152921504606846976})";
  }
  b.last().value = R"({"Max":1152921504606846977})";
  EXPECT_EQ(compare(a.build(), b.build()).verdict, Verdict::kMismatch);
}

// A dump that keeps both: statistics are blind to an inverted mask or to
// permuted ids, the checksum is not.
Comparison with_both(const std::string& op, DType dtype, const char* golden,
                     const char* target) {
  TraceBuilder a, b;
  for (auto [side, digest] : {std::pair(&a, golden), std::pair(&b, target)}) {
    side->op(op).statistics(Role::kOutput, "output.0", {4}, 1, 0, 0.5, 1.5);
    side->last().facts.dtype = dtype;
    side->last().digest = digest;
  }
  return compare(a.build(), b.build());
}

TEST(Judge, AChecksumDecidesWhereNoRoundingIsAllowed) {
  const char* one = "00000001";
  const char* two = "00000002";
  const std::string sum = "Torch.sum.0.forward";
  EXPECT_EQ(with_both(sum, DType::kBool, one, two).verdict, Verdict::kMismatch);
  EXPECT_EQ(with_both(sum, DType::kI64, one, two).verdict, Verdict::kMismatch);
  const Comparison close = with_both(sum, DType::kF32, one, two);
  EXPECT_EQ(close.verdict, Verdict::kMatch);
  EXPECT_TRUE(has_reason(close.rows[0], "digest"));
  const Comparison same = with_both(sum, DType::kI64, one, one);
  EXPECT_EQ(same.verdict, Verdict::kMatch);
  EXPECT_EQ(same.rows[0].evidence, Evidence::kDigest);
}

Verdict against_statistics(const char* task) {
  TraceBuilder a, b;
  a.op("Torch.sum.0.forward").out({1, 2});
  a.last().stats = {2, 1, 1.5, 2.236};
  b.op("Torch.sum.0.forward")
      .statistics(Role::kOutput, "output.0", {2}, 2, 1, 1.5, 2.236);
  Trace target = b.build();
  target.task = task;
  return compare(a.build(), std::move(target)).verdict;
}

TEST(Judge, ALostTensorOfATensorDumpIsIncomplete) {
  EXPECT_EQ(against_statistics("tensor"), Verdict::kIncomplete);
  EXPECT_EQ(against_statistics("statistics"), Verdict::kMatch);
}

TEST(Judge, AFileThatContradictsItsOwnStatisticsIsIncomplete) {
  TraceBuilder a, b;
  a.op("Torch.sum.0.forward").out({1, 2});
  b.op("Torch.sum.0.forward").out({1, 2});
  b.last().stats = {6, 3, 4.5, 6.708};
  const Comparison result = compare(a.build(), b.build());
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_TRUE(has_reason(result.rows[0], "sidecar_statistics"));
}

}  // namespace
}  // namespace assay::test
