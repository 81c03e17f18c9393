// What `assay determinism` says of its findings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/report/determinism_json.h"
#include "assay/report/determinism_text.h"
#include "tests/report/files.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

DeterminismReport gelu_differs() {
  DeterminismReport report;
  report.verdict = Verdict::kMismatch;
  report.runs = 3;
  report.steps = {0, 1, 2};
  report.counts = {1190, 12, 1, 2};
  DeterminismFinding first;
  first.kind = Parting::kOperator;
  first.run = 3;
  first.step = 1;
  first.op = "Functional.embedding.0.backward";
  first.leaf = "output.1";
  first.dtype = "float32";
  first.shape = {50257, 768};
  first.first = "3f4751346949d1790dd1c07c0d190eb1";
  first.second = "daab984d466331e166c1770fbba07bb4";
  first.cause = "it adds into one element from many places";
  first.call_path = {"Module.GPT.backward.0", "Module.wte.backward.0"};
  first.stack = {"model.py:41 in forward", "train.py:9 in main"};
  report.first = first;
  report.warnings = {"target: a \x1b[31mred one"};
  return report;
}

DeterminismTextOptions shown() {
  DeterminismTextOptions options;
  options.program = "train.py";
  options.seconds = 12.5;
  return options;
}

TEST(DeterminismText, IsAsInTheGoldenFile) {
  DeterminismTextOptions options = shown();
  options.again = "assay compare runs/run1/steps runs/run3/steps";
  std::string text = render_determinism(gelu_differs(), options);
  DeterminismReport calls = gelu_differs();
  calls.runs = 2;
  calls.steps = {0};
  calls.warnings.clear();
  calls.first = DeterminismFinding();
  calls.first->kind = Parting::kCalls;
  calls.first->op = calls.first->first = "Torch.abs.3.forward";
  calls.first->stack = {"train.py:14 in main"};
  text += "\n" + render_determinism(calls, shown());
  DeterminismReport weights = calls;
  weights.first->kind = Parting::kWeights;
  weights.first->leaf = "parameters.weight";
  weights.first->dtype = "bfloat16";
  weights.first->shape = {4};
  weights.first->figures = "max abs 0.5, normalised L2 0.1";
  text += "\n" + render_determinism(weights, shown());
  DeterminismReport same = calls;
  same.first.reset();
  same.verdict = Verdict::kMatch;
  same.counts = {1205, 0, 0, 0};
  text += "\n" + render_determinism(same, shown());
  EXPECT_EQ(text, read_text(std::filesystem::path(ASSAY_TEST_DATA) / "report" /
                            "determinism.txt"));
}

TEST(DeterminismText, ShowsNoControlCharactersOfATrace) {
  EXPECT_THAT(render_determinism(gelu_differs(), shown()),
              Not(HasSubstr("\x1b")));
}

TEST(DeterminismText, TellsIncompleteFromDeterministic) {
  DeterminismReport report;
  report.runs = 2;
  report.steps = {0};
  report.counts = {5, 0, 1, 0};
  EXPECT_THAT(render_determinism(report, shown()),
              HasSubstr("incomplete   1 of 6 records could not be compared"));
  report.counts = {0, 0, 2, 0};
  EXPECT_THAT(render_determinism(report, shown()),
              HasSubstr("nothing was captured"));
}

TEST(DeterminismText, IsOneLineWhenQuiet) {
  DeterminismTextOptions options = shown();
  options.quiet = true;
  EXPECT_EQ(render_determinism(gelu_differs(), options),
            "not deterministic Functional.embedding.0.backward   same 1,190   "
            "differ 12   not compared 1   empty 2\n");
}

TEST(DeterminismJson, HasTheFinding) {
  const std::string json = determinism_json(gelu_differs(), "train.py");
  for (const char* part :
       {R"("schema_version":1,"verdict":"not deterministic")",
        R"("steps":[0,1,2],"first":{"kind":"operator","run":3)",
        R"("op":"Functional.embedding.0.backward","leaf":"output.1")",
        R"("shape":[50257,768])", R"("counts":{"same":1190,"differ":12,)",
        R"("stack":["model.py:41 in forward","train.py:9 in main"])"}) {
    EXPECT_THAT(json, HasSubstr(part));
  }
}

}  // namespace
}  // namespace assay
