// Names of operators, read from the right.
#include "assay/trace/entry_name.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

void expect_name(std::string_view name, std::string_view prefix,
                 std::string_view api, std::int64_t index,
                 Direction direction) {
  const EntryName entry = parse_entry_name(name);
  EXPECT_EQ(entry.prefix, prefix) << name;
  EXPECT_EQ(entry.api, api) << name;
  EXPECT_EQ(entry.call_index, index) << name;
  EXPECT_EQ(entry.direction, direction) << name;
}

TEST(EntryName, ReadsEveryForm) {
  expect_name("Functional.linear.0.forward", "Functional", "linear", 0,
              Direction::kForward);
  expect_name("Tensor.__add__.12.backward", "Tensor", "__add__", 12,
              Direction::kBackward);
  expect_name("Module.layers.0.n.LayerNorm.forward.3", "Module",
              "layers.0.n.LayerNorm", 3, Direction::kForward);
  expect_name("Module.0.module.1.Blk.backward.0", "Module", "0.module.1.Blk", 0,
              Direction::kBackward);
  expect_name("Module.head.Linear.parameters_grad.0", "Module", "head.Linear",
              0, Direction::kParametersGrad);
  expect_name("Module.head.Linear.parameters_grad", "Module", "head.Linear", 0,
              Direction::kParametersGrad);
  expect_name("var_grad.1.debug", "", "var_grad", 1, Direction::kNone);
}

TEST(EntryName, AModuleMayBeNamedLikeADirection) {
  expect_name("Module.forward.0.Cls.forward.1", "Module", "forward.0.Cls", 1,
              Direction::kForward);
  expect_name("Module.parameters_grad.Cls.backward.2", "Module",
              "parameters_grad.Cls", 2, Direction::kBackward);
}

TEST(EntryName, UnknownFormsStayWhole) {
  for (const char* name : {"", ".", "weight", "a.b.c", "a.-1.forward", "7",
                           "x.99999999999999999999.forwards"}) {
    expect_name(name, "", name, 0, Direction::kNone);
  }
}

TEST(EntryName, IndexGoesWhereTheFormHasIt) {
  EXPECT_EQ(with_call_index(parse_entry_name("Functional.linear.4.forward"), 2),
            "Functional.linear.2.forward");
  EXPECT_EQ(with_call_index(parse_entry_name("Module.a.B.backward.4"), 2),
            "Module.a.B.backward.2");
}

void expect_ptdbg(std::string_view name, std::string_view entry,
                  std::string_view leaf) {
  const auto parts = parse_ptdbg_name(name);
  ASSERT_TRUE(parts) << name;
  EXPECT_EQ(parts->entry, entry);
  EXPECT_EQ(parts->leaf, leaf);
}

TEST(PtdbgName, UnderscoresBecomeDots) {
  expect_ptdbg("Functional_linear_0_forward_input.0",
               "Functional.linear.0.forward", "input.0");
  expect_ptdbg("Functional_layer_norm_3_backward_output.0.1",
               "Functional.layer_norm.3.backward", "output.0.1");
  expect_ptdbg("Tensor___add___1_forward_output", "Tensor.__add__.1.forward",
               "output");
  expect_ptdbg("Functional_linear_0_forward_stack_info",
               "Functional.linear.0.forward", "stack_info");
  expect_ptdbg("Module_layer1.0.conv1_Conv2d_forward_0_input.0",
               "Module.layer1.0.conv1.Conv2d.forward.0", "input.0");
}

TEST(PtdbgName, DottedNamesStay) {
  expect_ptdbg("Functional.linear.0.forward.input.0",
               "Functional.linear.0.forward", "input.0");
  expect_ptdbg("Functional.linear.0.forward.stack_info",
               "Functional.linear.0.forward", "stack_info");
}

TEST(PtdbgName, ApiNamesThatHoldTheWordInput) {
  expect_ptdbg("NPU_input_fold_0_forward_input.1", "NPU.input_fold.0.forward",
               "input.1");
}

TEST(PtdbgName, RefusesOtherNames) {
  EXPECT_FALSE(parse_ptdbg_name("weights"));
  EXPECT_FALSE(parse_ptdbg_name("input.0"));
  EXPECT_FALSE(parse_ptdbg_name("Functional_linear_forward_input.0"));
}

TEST(PlainFileName, StaysInItsDirectory) {
  EXPECT_TRUE(is_plain_file_name("Functional.linear.0.forward.input.0.pt"));
  EXPECT_TRUE(is_plain_file_name("..a"));
  for (std::string_view name :
       {std::string_view(""), std::string_view("."), std::string_view(".."),
        std::string_view("../x"), std::string_view("a/b"),
        std::string_view("a\\b"), std::string_view("a\0b", 3),
        std::string_view("/etc/passwd")}) {
    EXPECT_FALSE(is_plain_file_name(name)) << name;
  }
}

}  // namespace
}  // namespace assay
