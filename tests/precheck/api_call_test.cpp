#include "assay/precheck/api_call.h"

#include <gtest/gtest.h>

#include "assay/precheck/api_rules.h"

namespace assay::precheck {
namespace {

void add_op(Trace& trace, const std::string& name, const std::string& api,
            const std::string& prefix, Direction direction,
            const std::vector<std::string>& leaves) {
  Op op;
  op.name = name;
  op.api = api;
  op.prefix = prefix;
  op.direction = direction;
  op.first_record = static_cast<std::uint32_t>(trace.records.size());
  op.record_count = static_cast<std::uint32_t>(leaves.size());
  for (const std::string& leaf : leaves) {
    Record record;
    record.op = static_cast<std::uint32_t>(trace.ops.size());
    record.leaf = leaf;
    record.role = leaf.starts_with("input") ? Role::kInput : Role::kOutput;
    trace.records.push_back(record);
  }
  trace.ops.push_back(std::move(op));
}

TEST(ApiCall, PutsContainersTogetherAgain) {
  Trace trace;
  add_op(trace, "Torch.cat.3.forward", "cat", "Torch", Direction::kForward,
         {"input.0.0", "input.0.1", "input.dim", "output.0"});
  const std::vector<ApiCall> calls = read_calls(trace);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].name, "Torch.cat.3");
  EXPECT_EQ(calls[0].api, "Torch.cat");
  EXPECT_EQ(calls[0].backward, -1);
  ASSERT_EQ(calls[0].arguments.size(), 2u);
  const Argument& tensors = calls[0].arguments[0];
  EXPECT_TRUE(tensors.is_sequence());
  ASSERT_EQ(tensors.parts.size(), 2u);
  EXPECT_EQ(tensors.parts[1].record, 1);
  EXPECT_EQ(calls[0].arguments[1].key, "dim");
  EXPECT_EQ(calls[0].arguments[1].record, 2);
}

TEST(ApiCall, FindsTheBackwardPassAndLeavesModulesOut) {
  Trace trace;
  add_op(trace, "Module.fc.Linear.forward.0", "fc.Linear", "Module",
         Direction::kForward, {"input.0"});
  add_op(trace, "Functional.linear.0.forward", "linear", "Functional",
         Direction::kForward, {"input.0", "output.0"});
  add_op(trace, "Functional.linear.0.backward", "linear", "Functional",
         Direction::kBackward, {"input.0", "output.0"});
  const std::vector<ApiCall> calls = read_calls(trace);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].forward, 1u);
  EXPECT_EQ(calls[0].backward, 2);
}

TEST(ApiCall, LeavesRecomputedCallsOut) {
  Trace trace;
  add_op(trace, "Torch.exp.0.forward", "exp", "Torch", Direction::kForward,
         {"input.0"});
  trace.ops[0].recompute = true;
  EXPECT_TRUE(read_calls(trace).empty());
}

TEST(ApiCall, NumbersThatCopiesOfANameHaveAreKept) {
  Trace trace;
  for (const char* copy : {"", "#2", "#x"}) {
    add_op(trace, std::string("Torch.exp.0.forward") + copy, "exp", "Torch",
           Direction::kForward, {"input.0", "output.0"});
    add_op(trace, std::string("Torch.exp.0.backward") + copy, "exp", "Torch",
           Direction::kBackward, {"input.0", "output.0"});
  }
  const std::vector<ApiCall> calls = read_calls(trace);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].name, "Torch.exp.0");
  EXPECT_EQ(calls[0].backward, 1);
  EXPECT_EQ(calls[1].name, "Torch.exp.0#2");
  EXPECT_EQ(calls[1].backward, 3);
  const std::vector<LeftOut> left = left_out(trace);
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].op, 4u);
  EXPECT_EQ(left[1].op, 5u);
}

TEST(ApiCall, NoTraceMakesItNestWithoutEnd) {
  std::string deep = "input.0";
  for (int i = 0; i < 200'000; ++i) deep += ".0";
  std::vector<std::string> wide;
  for (int i = 0; i < 200'000; ++i)
    wide.push_back("input.0." + std::to_string(i));
  Trace trace;
  add_op(trace, "Torch.f.0.forward", "f", "Torch", Direction::kForward, {deep});
  add_op(trace, "Torch.f.1.forward", "f", "Torch", Direction::kForward, wide);
  for (const ApiCall& call : read_calls(trace)) {
    EXPECT_TRUE(call.arguments.empty());
    EXPECT_EQ(skip_rule(trace, call).skip, Skip::kLoss);
    EXPECT_FALSE(skip_rule(trace, call).why.empty());
  }
}

TEST(ApiCall, AMappingIsNoSequence) {
  Trace trace;
  add_op(trace, "Torch.f.0.forward", "f", "Torch", Direction::kForward,
         {"input.0.k", "input.1.1"});
  const std::vector<ApiCall> calls = read_calls(trace);
  ASSERT_EQ(calls[0].arguments.size(), 2u);
  EXPECT_FALSE(calls[0].arguments[0].is_sequence());
  EXPECT_FALSE(calls[0].arguments[1].is_sequence());
}

}  // namespace
}  // namespace assay::precheck
