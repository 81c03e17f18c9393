// Names as dumps spell them, and the operator class behind them.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "assay/metrics/op_class_table.h"
#include "assay/metrics/standard.h"

namespace assay {
namespace {

TEST(OpClass, EverySpellingOfAName) {
  const std::map<std::string, OpClass> expected = {
      {"linear", OpClass::kGemm},
      {"Functional.linear.0.forward", OpClass::kGemm},
      {"Functional.linear.0.forward.input.0", OpClass::kGemm},
      {"Functional.linear.12.backward.output.1", OpClass::kGemm},
      {"Module.layers.3.mlp.fc.Linear.forward.0", OpClass::kGemm},
      {"Module.conv1.Conv2d.parameters_grad", OpClass::kGemm},
      {"Functional_conv2d_0_forward_output.0", OpClass::kGemm},
      {"Torch_matmul_3_backward", OpClass::kGemm},
      {"NPU.npu_fusion_attention.4.forward", OpClass::kGemm},
      {"torch.nn.functional.gelu", OpClass::kElementwise},
      {"Module.layers.3.mlp.GELU.forward.0", OpClass::kElementwise},
      {"Tensor.__add__.7.forward", OpClass::kElementwise},
      {"Tensor.__iadd__.7.forward", OpClass::kElementwise},
      {"Tensor.__radd__.7.forward", OpClass::kElementwise},
      {"Tensor.mul_.1.forward", OpClass::kElementwise},
      {"aten::add.Tensor", OpClass::kElementwise},
      {"aten.add.Tensor", OpClass::kElementwise},
      {"Tensor.__getitem__.2.forward", OpClass::kMovement},
      {"Torch.transpose.0.forward", OpClass::kMovement},
      {"Functional.relu_.0.forward", OpClass::kMovement},
      {"Functional.embedding.0.forward", OpClass::kMovement},
      {"Tensor.__rsub__.0.forward", OpClass::kElementwise},
      {"Tensor.__rshift__.0.forward", OpClass::kMovement},
      {"Functional.softmax.0.forward", OpClass::kReduction},
      {"VF._softmax.0.forward", OpClass::kReduction},
      {"Distributed.all_reduce.0.forward", OpClass::kReduction},
      {"Distributed._all_gather_base.0.forward", OpClass::kMovement},
      {"Module.ln.LayerNorm.backward.0", OpClass::kReduction},
      {"Functional.dropout.0.forward", OpClass::kRandom},
      {"Module.h.0.drop.Dropout.forward.0", OpClass::kRandom},
      {"GELU", OpClass::kElementwise},
      {"Linear", OpClass::kGemm},
      {"Module.h.0.Blk.forward.0", OpClass::kUnknown},
      {"Module.GPT.forward.0", OpClass::kUnknown},
      {"Module.x.Add.forward.0", OpClass::kUnknown},
      {"Functional.no_such_thing.0.forward", OpClass::kUnknown},
      {"", OpClass::kUnknown},
      {".", OpClass::kUnknown},
      {"forward", OpClass::kUnknown},
      {"::", OpClass::kUnknown},
      {"__", OpClass::kUnknown},
      {"Module", OpClass::kUnknown},
  };
  for (const auto& [name, op] : expected)
    EXPECT_EQ(op_class(name), op) << "'" << name << "'";
}

// Duplicate indices and broadcast dimensions add up in the gradient.
TEST(OpClass, BackwardOfSomeMovesAndSumsIsAReduction) {
  EXPECT_EQ(op_class("Functional.embedding.0.backward"), OpClass::kReduction);
  EXPECT_EQ(op_class("Module.wte.Embedding.parameters_grad.weight"),
            OpClass::kReduction);
  EXPECT_EQ(op_class("Tensor.__add__.0.backward"), OpClass::kReduction);
  for (const char* name :
       {"Torch.clamp", "Torch.clamp_min", "Torch.clamp_max", "Torch.clip",
        "Torch.masked_select", "Torch.copysign", "Torch.fmax", "Tensor.fill_",
        "Tensor.__setitem__", "Torch.atan2", "Torch.hypot", "Torch.logaddexp",
        "Torch.linalg.cross", "Torch.linalg.vander"})
    EXPECT_EQ(op_class(std::string(name) + ".0.backward"), OpClass::kReduction)
        << name;
  EXPECT_EQ(op_class("Functional.gelu.0.backward"), OpClass::kElementwise);
  EXPECT_EQ(op_class("Torch.transpose.0.backward"), OpClass::kMovement);
}

TEST(OpClass, TightClassesNeedEqualInputs) {
  EXPECT_EQ(class_given_inputs(OpClass::kMovement, true), OpClass::kMovement);
  EXPECT_EQ(class_given_inputs(OpClass::kMovement, false), OpClass::kUnknown);
  EXPECT_EQ(class_given_inputs(OpClass::kElementwise, false),
            OpClass::kUnknown);
  EXPECT_EQ(class_given_inputs(OpClass::kGemm, false), OpClass::kGemm);
  EXPECT_EQ(class_given_inputs(OpClass::kRandom, false), OpClass::kRandom);
}

void count(std::string_view list, std::map<std::string_view, int>& seen) {
  for (const std::string_view name : op_table::names(list)) ++seen[name];
}

TEST(OpClass, NoNameIsInTwoLists) {
  using namespace op_table;
  std::map<std::string_view, int> ops, modules;
  count(kMovementOps, ops);
  count(kElementwiseOps, ops);
  count(kReductionOps, ops);
  count(kGemmOps, ops);
  count(kRandomOps, ops);
  count(kMovementModules, modules);
  count(kElementwiseModules, modules);
  count(kReductionModules, modules);
  count(kGemmModules, modules);
  count(kRandomModules, modules);
  for (const auto& [name, times] : ops) EXPECT_EQ(times, 1) << name;
  for (const auto& [name, times] : modules) EXPECT_EQ(times, 1) << name;
  EXPECT_GT(ops.size(), 500u);
  for (const std::string_view name : names(kBackwardAccumulates))
    EXPECT_EQ(ops.count(name), 1u) << name;
  for (const std::string_view name : names(kModuleBackwardAccumulates))
    EXPECT_EQ(modules.count(name), 1u) << name;
}

}  // namespace
}  // namespace assay
