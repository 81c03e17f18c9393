// find_overflow on dumps in files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "assay/base/error.h"
#include "assay/trace/capture_writer.h"
#include "overflow_util.h"
#include "tests/trace/temp_dir.h"

namespace assay::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string leaf(const std::string& max, const std::string& min) {
  return R"({"type":"torch.Tensor","dtype":"torch.float16","shape":[4],"Max":)" +
         max + R"(,"Min":)" + min + R"(,"Mean":)" + max + R"(,"Norm":)" + max +
         R"(,"requires_grad":false})";
}

std::string entry(const std::string& name, const std::string& in,
                  const std::string& out) {
  return "\"" + name + R"(":{"input_args":[)" + in +
         R"(],"input_kwargs":{},"output":[)" + out + "]}";
}

std::string dump(const std::string& entries) {
  return R"({"task":"statistics","level":"L1","framework":"pytorch",)"
         R"("dump_data_dir":null,"data":{)" +
         entries + "}}";
}

const std::string kGood =
    dump(entry("Torch.abs.0.forward", leaf("2.0", "-1.0"), leaf("2.0", "0.0")));
const std::string kBad = dump(
    entry("Torch.exp.0.forward", leaf("12.0", "-1.0"),
          leaf("Infinity", "0.37")) +
    "," +
    entry("Torch.sub.0.forward", leaf("Infinity", "0.37"), leaf("NaN", "NaN")));

OverflowReport look(const TempDir& dir, OverflowOptions options = {}) {
  return find_overflow(dir.path().string(), options);
}

TEST(OverflowPaths, ReadsPythonsNanAndInfinityInADump) {
  const TempDir dir;
  dir.write("step0/rank0/dump.json", kBad);
  const OverflowReport r = look(dir);
  EXPECT_EQ(r.verdict, Verdict::kMismatch);
  EXPECT_THAT(found(r), ElementsAre("born Torch.exp.0.forward output.0"));
  EXPECT_EQ(r.first->dtype_max, 65504);
  EXPECT_EQ(r.first->inputs.at(0).value.max, 12);
  EXPECT_EQ(r.counts.propagated, 1);
}

TEST(OverflowPaths, TheFirstStepThatHasOneCounts) {
  const TempDir dir;
  dir.write("step2/rank0/dump.json", kGood);
  dir.write("step10/rank0/dump.json", kBad);
  dir.write("step11/rank0/dump.json", kBad);
  OverflowReport r = look(dir);
  EXPECT_EQ(r.first->step, 10);
  EXPECT_EQ(r.counts.born, 2);
  EXPECT_THAT(r.steps, ElementsAre(2, 10, 11));
  OverflowOptions options;
  options.step = [](std::int64_t step) { return step < 10; };
  r = look(dir, options);
  EXPECT_EQ(r.verdict, Verdict::kMatch);
  EXPECT_THAT(r.steps, ElementsAre(2));
  options.step = [](std::int64_t step) { return step == 3; };
  EXPECT_THROW(look(dir, options), Error);
}

TEST(OverflowPaths, OnlyNamesNarrowIt) {
  const TempDir dir;
  dir.write("step0/rank0/dump.json", kBad);
  OverflowOptions options;
  options.only = {"Torch.sub.*"};
  const OverflowReport r = look(dir, options);
  EXPECT_THAT(found(r), ElementsAre("entered Torch.sub.0.forward input.0"));
  EXPECT_EQ(r.counts.records, 2);
  options.only = {"nothing"};
  const OverflowReport none = look(dir, options);
  EXPECT_EQ(none.verdict, Verdict::kIncomplete);
  EXPECT_THAT(none.warnings, Contains("no record or operator fits --only"));
}

TEST(OverflowPaths, AWarningOfEveryStepIsGivenOnce) {
  const TempDir dir;
  const std::string same =
      entry("Torch.abs.0.forward", leaf("2.0", "-1.0"), leaf("2.0", "0.0"));
  for (const char* step : {"step0", "step1"})
    dir.write(step + std::string("/rank0/dump.json"), dump(same + "," + same));
  EXPECT_THAT(look(dir).warnings,
              Contains(HasSubstr("more than once")).Times(1));
}

TEST(OverflowPaths, StatisticsThatAreNullAreNotLookedAt) {
  const TempDir dir;
  dir.write("step0/rank0/dump.json",
            dump(entry("Torch.abs.0.forward", leaf("2.0", "-1.0"),
                       leaf("null", "null"))));
  const OverflowReport r = look(dir);
  EXPECT_EQ(r.verdict, Verdict::kIncomplete);
  EXPECT_EQ(r.counts.unseen, 1);
  EXPECT_EQ(r.unseen.at(0).name, "Torch.abs.0.forward.output.0");
  EXPECT_THAT(r.unseen.at(0).why, HasSubstr("neither statistics"));
}

TEST(OverflowPaths, AnUnreadableRankAmongOthersIsNotLookedAt) {
  const TempDir dir;
  dir.write("step0/rank0/dump.json", kGood);
  dir.write("step0/rank1/dump.json", kGood.substr(0, 150));
  EXPECT_EQ(look(dir).verdict, Verdict::kIncomplete);
  dir.write("step0/rank0/dump.json", kBad);
  EXPECT_EQ(look(dir).verdict, Verdict::kMismatch);
  std::filesystem::remove_all(dir / "step0/rank0");
  EXPECT_THROW(look(dir), Error);
}

TEST(OverflowPaths, ReadsOurCapturesInEveryMode) {
  for (const CaptureMode mode :
       {CaptureMode::kTensor, CaptureMode::kStatistics, CaptureMode::kHash}) {
    const TempDir dir;
    {
      CaptureOptions options;
      options.mode = mode;
      CaptureWriter writer(dir / "step0/rank0", options);
      Op op;
      op.name = "Torch.exp.0.forward";
      op.api = "exp";
      op.direction = Direction::kForward;
      op.stack = writer.stack({"model.py:7 in forward"});
      const std::uint32_t exp = writer.op(op);
      writer.tensor({exp, Role::kInput, "input.0", "torch.Tensor"},
                    tensor_of(DType::kBF16, {1, 90}).view, false);
      writer.tensor({exp, Role::kOutput, "output.0", "torch.Tensor"},
                    tensor_of(DType::kBF16, {2.7, kInf}).view, false);
      writer.close();
    }
    const OverflowReport r = look(dir);
    if (mode == CaptureMode::kHash) {  // a checksum does not tell
      EXPECT_EQ(r.verdict, Verdict::kIncomplete);
      EXPECT_EQ(r.counts.unseen, 2);
      continue;
    }
    EXPECT_THAT(found(r), ElementsAre("born Torch.exp.0.forward output.0"));
    EXPECT_EQ(r.first->leaf.value.positive_inf, 1);
    EXPECT_THAT(r.first->stack, ElementsAre("model.py:7 in forward"));
    EXPECT_EQ(r.bytes, 0);  // statistics were enough
  }
}

}  // namespace
}  // namespace assay::test
