// Planted faults, and the row that must be blamed for each.
#include "assay/compare/localise.h"

#include <gtest/gtest.h>

#include <atomic>

#include "synthetic.h"

namespace assay::test {
namespace {

using Values = std::vector<float>;

const Values kX = {1, 2, -3};
const Values kLinear = {0.5f, -2, 4};
const Values kGelu = {0.3457f, -0.0455f, 3.9999f};
const Values kWrongGelu = {0.3457f, -0.0754f, 3.9999f};
const Values kSum = {1.3457f, 1.9545f, 0.9999f};
const Values kWrongSum = {1.3457f, 1.9246f, 0.9999f};
const Values kWeight = {0.25f, 0.125f, 8};

struct Step {
  Values x = kX, linear = kLinear, weight = kWeight, gelu = kGelu, sum = kSum;
};

// linear -> gelu -> add, inside a block; children before their parents.
Trace forward(const Step& v) {
  const std::string block = "Module.h.Block.forward.0";
  const std::string fc = "Module.h.fc.Linear.forward.0";
  TraceBuilder b;
  b.op("Functional.linear.0.forward", fc).in(v.x);
  b.tensor(Role::kInput, "input.1", f32({3}, v.weight)).out(v.linear);
  b.op(fc, block).in(v.x).out(v.linear).parameter(v.weight);
  b.op("Functional.gelu.0.forward", block).in(v.linear).out(v.gelu);
  b.op("Tensor.add.0.forward", block).in(v.gelu).out(v.sum);
  b.op(block).in(v.x).out(v.sum);
  return b.build();
}

Origin origin(const Comparison& result, const std::string& name) {
  return row(result, name).origin;
}

TEST(Localise, BlamesTheOperatorInTheMiddle) {
  Step wrong;
  wrong.gelu = kWrongGelu;
  wrong.sum = kWrongSum;
  const Comparison result = compare(forward({}), forward(wrong));
  ASSERT_TRUE(result.first_divergence.has_value());
  const Divergence& first = *result.first_divergence;
  EXPECT_EQ(first.name, "Functional.gelu.0.forward");
  EXPECT_EQ(first.kind, "born");
  EXPECT_EQ(first.input_note, "its input agrees (bitwise equal)");
  EXPECT_EQ(first.call_path,
            std::vector<std::string>{"Module.h.Block.forward.0"});
  EXPECT_EQ(first.again,
            "assay compare golden target --only Functional.gelu.0.forward");
  EXPECT_NE(first.reason, "");
  EXPECT_EQ(origin(result, "Functional.gelu.0.forward.output.0"),
            Origin::kBorn);
  EXPECT_EQ(origin(result, "Tensor.add.0.forward.input.0"), Origin::kInherited);
  EXPECT_EQ(origin(result, "Tensor.add.0.forward.output.0"),
            Origin::kInherited);
  EXPECT_EQ(result.counts.born, 1);
  EXPECT_EQ(result.counts.inherited, 3);
}

TEST(Localise, AModuleWhoseInnerOperatorDiffersInherits) {
  Step wrong;
  wrong.gelu = kWrongGelu;
  wrong.sum = kWrongSum;
  const Comparison result = compare(forward({}), forward(wrong));
  EXPECT_EQ(origin(result, "Module.h.Block.forward.0.output.0"),
            Origin::kInherited);
}

// Our captures list a module when it begins: what it puts out is still later
// than what its operators take in.
TEST(Localise, AModuleListedBeforeItsOperatorsEndsAfterThem) {
  const auto step = [](const Values& mask, const Values& sum) {
    TraceBuilder b;
    b.op("Module.h.Block.forward.0").in(kX).out(sum);
    b.op("Module.h.fc.Linear.forward.0", "Module.h.Block.forward.0")
        .in(kX)
        .out(kLinear);
    b.op("Tensor.add.0.forward", "Module.h.fc.Linear.forward.0").in(kLinear);
    b.tensor(Role::kInput, "input.1", f32({3}, mask)).out(sum);
    return b.build();
  };
  const Comparison result =
      compare(step(kGelu, kSum), step(kWrongGelu, kWrongSum));
  EXPECT_EQ(origin(result, "Tensor.add.0.forward.input.1"),
            Origin::kInputDiffers);
  EXPECT_EQ(origin(result, "Module.h.Block.forward.0.output.0"),
            Origin::kInherited);
  EXPECT_EQ(result.first_divergence->name, "Tensor.add.0.forward");
}

TEST(Localise, AModuleIsBlamedForWhatHappensBetweenItsOperators) {
  TraceBuilder golden, target;
  for (TraceBuilder* side : {&golden, &target}) {
    side->op("Functional.gelu.0.forward", "Module.h.Block.forward.0")
        .in(kX)
        .out(kGelu);
    side->op("Module.h.Block.forward.0")
        .in(kX)
        .out(side == &golden ? kSum : kWrongSum);
  }
  const Comparison result = compare(golden.build(), target.build());
  EXPECT_EQ(result.first_divergence->name, "Module.h.Block.forward.0");
  EXPECT_EQ(result.first_divergence->kind, "born");
}

TEST(Localise, AmplificationIsOutputErrorOverInputError) {
  TraceBuilder golden, target;
  golden.op("Torch.matmul.0.forward").in({1, 0, 0, 0}).out({1, 0, 0, 0});
  target.op("Torch.matmul.0.forward").in({1, 0.5, 0, 0}).out({1, 5, 0, 0});
  const Comparison result = compare(golden.build(), target.build());
  EXPECT_NEAR(row(result, "Torch.matmul.0.forward.output.0").amplification, 10,
              1e-12);
}

TEST(Localise, AnInputNobodyProducedIsBlamedAtItsFirstUse) {
  Step wrong;
  wrong.x = {1, 2, -3.5f};
  wrong.linear = {0.5f, -2, 4.5f};
  wrong.gelu = {0.3457f, -0.0455f, 4.4999f};
  wrong.sum = {1.3457f, 1.9545f, 0.9999f};
  const Comparison result = compare(forward({}), forward(wrong));
  EXPECT_EQ(result.first_divergence->name, "Functional.linear.0.forward");
  EXPECT_EQ(result.first_divergence->kind, "input");
  EXPECT_EQ(result.first_divergence->input_note,
            "no operator compared before produced it");
  EXPECT_EQ(result.counts.input_differs, 1);
  EXPECT_EQ(result.counts.born, 0);
  EXPECT_EQ(origin(result, "Module.h.Block.forward.0.input.0"),
            Origin::kInherited);
}

TEST(Localise, ADifferingParameterIsBlamedBeforeTheOperatorThatUsesIt) {
  Step wrong;
  wrong.weight = {0.25f, 0.25f, 8};
  wrong.linear = {0.5f, -4, 4};
  wrong.gelu = {0.3457f, -0.0001f, 3.9999f};
  wrong.sum = {1.3457f, 1.9999f, 0.9999f};
  const Comparison result = compare(forward({}), forward(wrong));
  EXPECT_EQ(result.first_divergence->name, "Module.h.fc.Linear.forward.0");
  EXPECT_EQ(result.first_divergence->kind, "parameter");
  EXPECT_EQ(result.counts.parameter_differs, 1);
  EXPECT_EQ(result.counts.born, 0);
  EXPECT_EQ(origin(result, "Functional.linear.0.forward.input.1"),
            Origin::kInherited);
}

TEST(Localise, ADifferingArgumentIsBlamed) {
  TraceBuilder golden, target;
  for (TraceBuilder* side : {&golden, &target}) {
    side->op("Functional.layer_norm.0.forward")
        .in(kX)
        .value("input.4", "float", side == &golden ? "1e-05" : "1e-06")
        .out(side == &golden ? kSum : kWrongSum);
  }
  const Comparison result = compare(golden.build(), target.build());
  EXPECT_EQ(result.first_divergence->kind, "input");
  EXPECT_EQ(result.first_divergence->reason, "golden 1e-05, target 1e-06");
  EXPECT_EQ(origin(result, "Functional.layer_norm.0.forward.output.0"),
            Origin::kInherited);
}

TEST(Localise, AValueThatChangedOnTheWayIsNotItsProducersFault) {
  TraceBuilder golden, target;
  for (TraceBuilder* side : {&golden, &target}) {
    side->op("Functional.gelu.0.forward").in(kX).out(kGelu);
    side->op("Functional.relu.0.forward")
        .in(side == &golden ? kGelu : kWrongGelu)
        .out(kLinear);
  }
  const Comparison result = compare(golden.build(), target.build());
  EXPECT_EQ(result.first_divergence->kind, "input");
  EXPECT_TRUE(has_reason(row(result, "Functional.relu.0.forward.input.0"),
                         "provenance"));
}

TEST(Localise, InputsThatWereNotComparedForbidToSayBorn) {
  TraceBuilder golden, target;
  for (TraceBuilder* side : {&golden, &target}) {
    side->op("Functional.gelu.0.forward").in(kX);
    if (side == &target) side->last().unreadable = "lost";
    side->out(side == &golden ? kGelu : kWrongGelu);
  }
  const Comparison result = compare(golden.build(), target.build());
  EXPECT_EQ(result.first_divergence->kind, "undetermined");
  EXPECT_EQ(result.first_divergence->input_note, "its input was not compared");
  EXPECT_EQ(result.counts.undetermined, 1);
}

// One element of four off by 2e-5: within the default bound of an unknown
// float32 operator (normalised L2 1e-5 of 1.5e-5). Off by 6e-5: beyond it.
TEST(Localise, ErrorsThatOnlyAddUpAreNotBorn) {
  TraceBuilder golden, target;
  golden.op("Torch.matmul.0.forward").in({1, -1, 1, -1}).out({1, -1, 1, -1});
  target.op("Torch.matmul.0.forward")
      .in({1.00002f, -1, 1, -1})
      .out({1.00006f, -1, 1, -1});
  const Comparison grown = compare(golden.build(), target.build());
  EXPECT_EQ(grown.rows[0].verdict, Verdict::kMatch);
  const Row& output = row(grown, "Torch.matmul.0.forward.output.0");
  EXPECT_EQ(output.verdict, Verdict::kMismatch);
  EXPECT_EQ(output.origin, Origin::kInherited);
  EXPECT_NEAR(output.amplification, 3, 0.01);
  EXPECT_TRUE(has_reason(output, "accumulated"));
}

TEST(Localise, AnErrorFarBeyondItsInputsIsBorn) {
  TraceBuilder third, fourth;
  third.op("Torch.matmul.0.forward").in({1, 1, 1, 1}).out({1, 1, 1, 1});
  fourth.op("Torch.matmul.0.forward")
      .in({1.0000002f, 1, 1, 1})
      .out({1.5f, 1, 1, 1});
  const Comparison jump = compare(third.build(), fourth.build());
  EXPECT_EQ(jump.first_divergence->kind, "born");
  EXPECT_GT(row(jump, "Torch.matmul.0.forward.output.0").amplification, 1e5);
  EXPECT_NE(jump.first_divergence->input_note.find("ulp"), std::string::npos);
}

TEST(Localise, ABackwardInheritsWhatItsForwardGotWrong) {
  TraceBuilder golden, target;
  for (TraceBuilder* side : {&golden, &target}) {
    const bool ok = side == &golden;
    side->op("Functional.gelu.0.forward").in(kX).out(ok ? kGelu : kWrongGelu);
    side->op("Functional.gelu.0.backward").in(kX).out(ok ? kSum : kWrongSum);
  }
  const Comparison result = compare(golden.build(), target.build());
  EXPECT_EQ(origin(result, "Functional.gelu.0.forward.output.0"),
            Origin::kBorn);
  EXPECT_EQ(origin(result, "Functional.gelu.0.backward.output.0"),
            Origin::kInherited);
}

TEST(Localise, ABackwardMayBeWrongAlone) {
  TraceBuilder golden, target;
  for (TraceBuilder* side : {&golden, &target}) {
    const bool ok = side == &golden;
    side->op("Functional.gelu.0.forward").in(kX).out(kGelu);
    side->op("Functional.gelu.0.backward")
        .in(kLinear)
        .out(ok ? kSum : kWrongSum);
  }
  EXPECT_EQ(compare(golden.build(), target.build()).first_divergence->name,
            "Functional.gelu.0.backward");
}

// The dump lists a module's parameter gradients before its backward.
TEST(Localise, ParameterGradientsBelongToTheBackwardOfTheirModule) {
  for (const bool differing_gradient : {false, true}) {
    TraceBuilder golden, target;
    for (TraceBuilder* side : {&golden, &target}) {
      const bool ok = side == &golden;
      side->op("Module.fc.Linear.forward.0").in(kX).out(kLinear);
      side->op("Module.fc.Linear.parameters_grad.0")
          .tensor(Role::kGradient, "weight", f32({3}, ok ? kSum : kWrongSum));
      side->op("Module.fc.Linear.backward.0")
          .in(ok || !differing_gradient ? kGelu : kWrongGelu)
          .out(kX);
    }
    const Comparison result = compare(golden.build(), target.build());
    EXPECT_EQ(origin(result, "Module.fc.Linear.parameters_grad.0.weight"),
              differing_gradient ? Origin::kInherited : Origin::kBorn);
  }
}

TEST(Localise, RecomputedForwardsAreWalkedLikeAnyOther) {
  TraceBuilder golden, target;
  for (TraceBuilder* side : {&golden, &target}) {
    const bool ok = side == &golden;
    side->op("Functional.gelu.0.forward").in(kX).out(kGelu);
    side->op("Functional.gelu.1.forward").in(kX).out(ok ? kGelu : kWrongGelu);
    side->last_op().recompute = true;
    side->op("Functional.gelu.0.backward").in(kLinear).out(kSum);
  }
  EXPECT_EQ(compare(golden.build(), target.build()).first_divergence->name,
            "Functional.gelu.1.forward");
}

TEST(Localise, WorksOnStatisticsAlone) {
  TraceBuilder golden, target;
  for (TraceBuilder* side : {&golden, &target}) {
    const bool ok = side == &golden;
    side->op("Functional.gelu.0.forward")
        .statistics(Role::kInput, "input.0", {64}, 3, -3, 0.1, 9)
        .statistics(Role::kOutput, "output.0", {64}, ok ? 3 : 4, -0.17, 0.3,
                    ok ? 5 : 7);
    side->op("Tensor.add.0.forward")
        .statistics(Role::kInput, "input.0", {64}, ok ? 3 : 4, -0.17, 0.3,
                    ok ? 5 : 7)
        .statistics(Role::kOutput, "output.0", {64}, ok ? 6 : 8, -1, 0.6,
                    ok ? 10 : 14);
  }
  const Comparison result = compare(golden.build(), target.build());
  EXPECT_EQ(result.first_divergence->name, "Functional.gelu.0.forward");
  EXPECT_EQ(result.first_divergence->kind, "born");
  EXPECT_EQ(result.first_divergence->input_note,
            "its input agrees (as far as the dump tells)");
  EXPECT_EQ(origin(result, "Tensor.add.0.forward.output.0"),
            Origin::kInherited);
}

TEST(Localise, WorksOnChecksumsAlone) {
  TraceBuilder golden, target;
  for (TraceBuilder* side : {&golden, &target}) {
    const std::string out = side == &golden ? "00000002" : "0000000f";
    side->op("Functional.gelu.0.forward")
        .digest(Role::kInput, "input.0", DType::kF32, {3}, "00000001")
        .digest(Role::kOutput, "output.0", DType::kF32, {3}, out);
    side->op("Tensor.add.0.forward")
        .digest(Role::kInput, "input.0", DType::kF32, {3}, out)
        .digest(Role::kOutput, "output.0", DType::kF32, {3}, out + "");
  }
  const Comparison result = compare(golden.build(), target.build());
  EXPECT_EQ(result.first_divergence->name, "Functional.gelu.0.forward");
  EXPECT_EQ(result.first_divergence->kind, "born");
  EXPECT_EQ(origin(result, "Tensor.add.0.forward.input.0"), Origin::kInherited);
}

TEST(Localise, EntriesOfPlainFilesHaveNoOrigin) {
  TraceBuilder golden, target;
  golden.op("model").tensor(Role::kTensor, "w", f32({2}, {1, 2}));
  target.op("model").tensor(Role::kTensor, "w", f32({2}, {1, 3}));
  const Comparison result = compare(golden.build(), target.build());
  EXPECT_EQ(result.first_divergence->kind, "tensor");
  EXPECT_EQ(result.rows[0].origin, Origin::kNone);
}

TEST(Localise, ATreeThatIsACycleEnds) {
  Step wrong;
  wrong.gelu = kWrongGelu;
  Trace golden = forward({});
  golden.ops.back().parent = 0;
  const Comparison result = compare(std::move(golden), forward(wrong));
  EXPECT_EQ(result.first_divergence->name, "Functional.gelu.0.forward");
}

TEST(Engine, InterruptedRowsAreIncomplete) {
  Step wrong;
  wrong.gelu = kWrongGelu;
  std::atomic<bool> stop{true};
  RankSet run;
  run.options.stop = &stop;
  run.add(forward({}), forward(wrong));
  const Comparison result = run.compare();
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_EQ(result.counts.incomplete, result.counts.total());
  EXPECT_TRUE(has_reason(result.rows[0], "interrupted"));
}

TEST(Engine, OnlyNarrowsByRecordOrOperatorName) {
  for (const std::string only :
       {"Functional.gelu.0.forward", "*.gelu.0.forward.output.0"}) {
    RankSet run;
    run.options.only = {only};
    run.add(forward({}), forward({}));
    const Comparison result = run.compare();
    EXPECT_EQ(result.rows.size(), only[0] == '*' ? 1u : 2u);
    EXPECT_EQ(result.verdict, Verdict::kMatch);
  }
  RankSet none;
  none.options.only = {"nothing"};
  none.add(forward({}), forward({}));
  EXPECT_EQ(none.compare().verdict, Verdict::kIncomplete);
}

TEST(Engine, ProgressReachesTheCaller) {
  std::atomic<int> calls{0};
  RankSet run;
  run.options.progress = [&](std::int64_t done, std::int64_t total,
                             std::int64_t) {
    ++calls;
    EXPECT_LE(done, total);
  };
  run.add(forward({}), forward({}));
  run.compare();
  EXPECT_LE(calls, 3);
}

}  // namespace
}  // namespace assay::test
