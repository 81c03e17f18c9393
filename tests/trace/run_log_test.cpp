#include "assay/trace/run_log.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "assay/base/error.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// As examples/train_gpt writes it.
constexpr char kTrainGpt[] =
    R"({"step":1,"loss":5.6102,"grad_norm":2.5,"lr":3e-05,"tokens":2048,)"
    R"("seconds":0.5,"tokens_per_second":4096,"peak_rss_bytes":123456789,)"
    R"("saved_bytes":7,"quantized":{"input":{"elements":1,"saturated":0}}})"
    "\n";

std::string refusal(std::string_view text) {
  try {
    parse_run_log(text, "run.jsonl");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kRefused) << error.what();
    return error.what();
  }
  return "not refused";
}

std::vector<std::int64_t> steps_of(const RunLog& log) {
  std::vector<std::int64_t> steps;
  for (const RunStep& s : log.steps) steps.push_back(s.step);
  return steps;
}

TEST(RunLog, ReadsALineOfTrainGpt) {
  const RunLog log = parse_run_log(kTrainGpt, "run.jsonl");
  ASSERT_THAT(steps_of(log), ElementsAre(1));
  const RunStep& s = log.steps[0];
  EXPECT_EQ(s.at(Figure::kLoss), 5.6102);
  EXPECT_EQ(s.at(Figure::kGradNorm), 2.5);
  EXPECT_EQ(s.at(Figure::kLearningRate), 3e-5);
  EXPECT_EQ(s.at(Figure::kTokensPerSecond), 4096);
  EXPECT_EQ(s.at(Figure::kPeakRss), 123456789);
  EXPECT_FALSE(s.has(Figure::kParamNorm));
  EXPECT_TRUE(log.warnings.empty());
}

TEST(RunLog, KeepsTheFactsOfAHeadingAndSkipsFurtherOnes) {
  const RunLog log = parse_run_log(
      R"({"format":"assay-watch","version":1,"device":"cuda","world":8,)"
      R"("parts":[1,2]})"
      "\n{\"step\":10,\"loss\":1}\n"
      R"({"format":"assay-watch","version":1,"device":"npu"})"
      "\n\n{\"loss\":2,\"step\":20}\r\n",
      "run.jsonl");
  EXPECT_THAT(log.facts,
              ElementsAre(Pair("format", "assay-watch"), Pair("version", "1"),
                          Pair("device", "cuda"), Pair("world", "8")));
  EXPECT_THAT(steps_of(log), ElementsAre(10, 20));
  EXPECT_EQ(log.steps[1].at(Figure::kLoss), 2);
}

TEST(RunLog, TakesWhatIsNotFiniteAndTellsItFromNothing) {
  const RunLog log =
      parse_run_log(R"({"step":1,"loss":NaN,"grad_norm":-Infinity,"lr":null})"
                    "\n"
                    R"({"step":2,"loss":"nan","grad_norm":"inf"})"
                    "\n",
                    "run.jsonl");
  EXPECT_TRUE(std::isnan(log.steps[0].at(Figure::kLoss)));
  EXPECT_EQ(log.steps[0].at(Figure::kGradNorm), -INFINITY);
  EXPECT_FALSE(log.steps[0].has(Figure::kLearningRate));
  EXPECT_TRUE(std::isnan(log.steps[1].at(Figure::kLoss)));
  EXPECT_EQ(log.steps[1].at(Figure::kGradNorm), INFINITY);
}

TEST(RunLog, ReadsCsvWithNamesAsPeopleWriteThem) {
  const RunLog log = parse_run_log(
      "\"Step\",note,Loss,grad norm\r\n1,a,2.5,1e-3\r\n2,,nan,\r\n3,c,-inf,4",
      "run.csv");
  ASSERT_THAT(steps_of(log), ElementsAre(1, 2, 3));
  EXPECT_EQ(log.steps[0].at(Figure::kLoss), 2.5);
  EXPECT_EQ(log.steps[0].at(Figure::kGradNorm), 1e-3);
  EXPECT_TRUE(std::isnan(log.steps[1].at(Figure::kLoss)));
  EXPECT_FALSE(log.steps[1].has(Figure::kGradNorm));
  EXPECT_EQ(log.steps[2].at(Figure::kLoss), -INFINITY);
}

// A run killed at any byte of its last line leaves the lines before it.
TEST(RunLog, LosesNothingButTheLineThatIsCutOff) {
  const std::string first = "{\"step\":1,\"loss\":1.5}\n";
  const std::string second = "{\"step\":2,\"loss\":2.5}";
  for (std::size_t n = 1; n < second.size(); ++n) {
    const RunLog log = parse_run_log(first + second.substr(0, n), "run.jsonl");
    EXPECT_THAT(steps_of(log), ElementsAre(1)) << n;
    ASSERT_EQ(log.warnings.size(), 1u) << n;
    EXPECT_EQ(log.warnings[0], "run.jsonl: line 2 is cut off after " +
                                   std::to_string(n) + " bytes: left out");
  }
  EXPECT_THAT(steps_of(parse_run_log(first + second, "x")), ElementsAre(1, 2));
}

TEST(RunLog, ReplacesWhatARunLoggedAgain) {
  const RunLog log = parse_run_log(
      "step,loss\n1,1\n2,2\n3,3\n4,4\n3,30\n4,40\n5,50\n", "run.csv");
  EXPECT_THAT(steps_of(log), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(log.steps[2].at(Figure::kLoss), 30);
  EXPECT_THAT(log.warnings,
              ElementsAre("run.csv: 2 steps from step 3 on are logged again: "
                          "the later ones count"));
}

TEST(RunLog, RefusesABrokenLineByNumberAndByte) {
  EXPECT_EQ(refusal("{\"step\":1}\n{\"step\":2,\"loss\":x}\n{\"step\":3}\n"),
            "run.jsonl: line 2: offset 17: found 'x', expected a value");
  EXPECT_EQ(refusal("{\"step\":1}\n{\"step\":2,\n{\"step\":3}\n"),
            "run.jsonl: line 2: offset 10: found the end of the line, expected "
            "the rest of its JSON object");
  EXPECT_EQ(refusal("step,loss\n1,1\n2,abc\n3,3\n"),
            "run.jsonl: line 3: offset 2: found 'abc', expected a number or "
            "nothing");
  EXPECT_THAT(refusal("step,loss\n1,1,1\n"), HasSubstr("found 3 cells"));
  EXPECT_THAT(refusal("{\"step\":1} {\"step\":2}\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("{\"step\":1.5}\n"), HasSubstr("expected a step"));
  EXPECT_THAT(refusal("{\"step\":-1}\n"), HasSubstr("expected a step"));
  EXPECT_THAT(refusal("{\"step\":1,\"step\":1}\n"), HasSubstr("twice"));
  EXPECT_THAT(refusal("{\"step\":1,\"loss\":1,\"loss\":1}\n"),
              HasSubstr("\"loss\" twice"));
  EXPECT_THAT(refusal("{\"step\":1,\"loss\":[1]}\n"),
              HasSubstr("expected a number"));
  EXPECT_THAT(refusal("{\"loss\":1}\n"), HasSubstr("\"step\""));
  EXPECT_THAT(refusal("{\"format\":\"assay-watch\",\"version\":2}\n"),
              HasSubstr("version '2'"));
  EXPECT_THAT(refusal("step,loss,loss\n1,1,1\n"), HasSubstr("once"));
  EXPECT_THAT(refusal("a,b\n1,2\n"), HasSubstr("column 'step'"));
}

TEST(RunLog, RefusesALogWithoutAStep) {
  EXPECT_EQ(refusal(""), "run.jsonl: holds no step");
  EXPECT_EQ(refusal("step,loss\n"), "run.jsonl: holds no step");
  EXPECT_EQ(refusal("{\"format\":\"assay-watch\",\"version\":1}\n"),
            "run.jsonl: holds no step");
}

TEST(RunLog, ReadsAFileAndNamesOneThatIsNotThere) {
  const std::string path = testing::TempDir() + "/run_log_test.jsonl";
  std::ofstream(path) << kTrainGpt;
  EXPECT_EQ(read_run_log(path).path, path);
  try {
    read_run_log(path + ".no");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnreadable);
    EXPECT_THAT(error.what(), HasSubstr("run_log_test.jsonl.no"));
  }
}

}  // namespace
}  // namespace assay
