#include "assay/precheck/report_text.h"

#include "precheck_fixture.h"

namespace assay::precheck {
namespace {

TEST_F(PrecheckTest, TheTerminalSaysWhoFailedAndWhatWasNotChecked) {
  call("Torch.exp.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  call("Torch.exp.1", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  call("Torch.add.0", f32({2}, {1, 3}), f64({2}, {1, 2}), "float32", "[2]");
  call("Torch.cat.0", f32({2}, {1, 5}), f64({2}, {1, 2}), "float32", "[2]");
  op("Distributed.all_reduce.0.forward");
  tensor("input", "input.0", "float32", "[2]");
  op("Torch.empty.0.forward");
  tensor("output", "output.0", "float32", "[2]");
  RunResult result = run();
  result.comparison.seconds = 1.5;
  const std::string text = render_text(result, {.columns = 100});
  EXPECT_EQ(
      text,
      R"(scripted 1 on cpu judged by float64, scripted 1 on cpu, 1.5 s
mismatch   first: Torch.add.0.forward.output.0
  1 of 2 elements over the bound (8 ulp + 3.02e-06), worst 2.03e+05 times over at flat index 1 (golden 2, target 3)
  model.py:7 in forward
  again: assay precheck run trace --only Torch.add.0.forward
match 1   mismatch 2   incomplete 1   empty 1   of 5 signatures
6 calls of 5 APIs, 3 results compared; inputs or gradients of 3 signatures generated; 1 with nothing to check

verdict   API        failed  calls  worst                         rel. L2  reason
mismatch  Torch.cat     1/1      1  Torch.cat.0.forward.output.0    1.342  1 of 2 elements differ, …
mismatch  Torch.add     1/1      1  Torch.add.0.forward.output.0   0.4472  1 of 2 elements over the…

not checked
      1  not replayed: exchanges data with other ranks; `assay compare` of two runs judges it  (Distributed.all_reduce.0.forward)
)");
  TextOptions quiet;
  quiet.quiet = true;
  EXPECT_EQ(render_text(result, quiet),
            "mismatch   match 1   mismatch 2   incomplete 1   empty 1   of 5 "
            "signatures\n");
}

}  // namespace
}  // namespace assay::precheck
