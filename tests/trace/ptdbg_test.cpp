// The text files of the old ptdbg_ascend tool.
#include "assay/formats/npy_writer.h"
#include "tests/trace/trace_test_util.h"

namespace assay {
namespace {

constexpr char kRows[] =
    R"j(["Functional_linear_0_forward_input.0", 1, [], "torch.float32", [3, 2], [1.948258399963379, -1.0052297115325928, -0.2003595232963562]]
["Functional_linear_0_forward_stack_info", [["file.py", "12", "forward", "y = F.linear(x)"], ["main.py", "3", "main", "f()"]]]
["Functional_linear_0_forward_input.1", 1, [], "<class 'int'>", "[]", [7, 7, 7]]
["Functional_linear_0_forward_output", 1, ["0a1b2c3d"], "torch.bfloat16", [3], [NaN, -Infinity, 0.5, 2.0]]

["Module_fc_Linear_forward_0_input.0", 1, "ffff0000", "torch.float32", [], [1, 1, 1]]
)j";

TEST(Ptdbg, RowsBecomeOpsAndLeaves) {
  const TempDir dir;
  const Trace trace = read_only(dir.write("api_stack_dump.pkl", kRows));
  EXPECT_EQ(op_names(trace),
            (std::vector<std::string>{"Functional.linear.0.forward",
                                      "Module.fc.Linear.forward.0"}));
  EXPECT_EQ(names(trace),
            (std::vector<std::string>{"Functional.linear.0.forward.input.0",
                                      "Functional.linear.0.forward.input.1",
                                      "Functional.linear.0.forward.output",
                                      "Module.fc.Linear.forward.0.input.0"}));
  const Record& input = trace.records[0];
  EXPECT_EQ(input.role, Role::kInput);
  EXPECT_EQ(input.facts.dtype, DType::kF32);
  EXPECT_EQ(input.facts.shape, (Shape{3, 2}));
  EXPECT_EQ(input.stats.max, 1.948258399963379);
  EXPECT_EQ(input.stats.min, -1.0052297115325928);
  EXPECT_EQ(input.stats.mean, -0.2003595232963562);
  EXPECT_FALSE(input.stats.norm.has_value());
  EXPECT_FALSE(trace.records[1].is_tensor);
  EXPECT_EQ(trace.records[1].type, "int");
  EXPECT_EQ(trace.records[1].value, "7");
  EXPECT_EQ(trace.records[2].digest, "0a1b2c3d");
  EXPECT_EQ(trace.records[2].stats.norm, 2.0);
  EXPECT_EQ(trace.records[3].digest, "ffff0000");
  EXPECT_EQ(trace.ops[0].stack, 0);
  EXPECT_EQ(trace.stacks[0][0],
            "File file.py, line 12, in forward, \n y = F.linear(x)");
}

TEST(Ptdbg, TensorsLieInTheDirectoryNamedLikeTheFile) {
  const TempDir dir;
  const auto pkl = dir.write("step0/rank0/myDump.pkl", kRows);
  std::filesystem::create_directories(dir / "step0/rank0/myDump");
  write_npy(dir / "step0/rank0/myDump/Functional_linear_0_forward_input.0.npy",
            f32_tensor({3, 2}, {1, 2, 3, 4, 5, 6}).view);
  const Trace trace = read_only(dir.path());
  EXPECT_EQ(f32_values(trace.loader->load(trace.records[0])),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_NE(trace.records[2].unreadable.find("data file absent"),
            std::string::npos);
  EXPECT_EQ(trace.records[1].unreadable, "") << "an int needs no file";
}

TEST(Ptdbg, AFileNoRowNamesIsAnUnreadableRecord) {
  const TempDir dir;
  const auto pkl = dir.write("myDump.pkl", kRows);
  std::filesystem::create_directories(dir / "myDump");
  const Tensor one = f32_tensor({1}, {1});
  write_npy(dir / "myDump/Functional_linear_0_forward_input.0.npy", one.view);
  write_npy(dir / "myDump/extra.npy", one.view);
  const Trace trace = read_only(pkl);
  ASSERT_EQ(trace.records.size(), 5u);
  EXPECT_NE(trace.records[4].unreadable.find("extra.npy"), std::string::npos);
}

TEST(Ptdbg, OldAndNewSpellingsGiveTheSameNames) {
  const TempDir dir;
  const Trace old_names = read_only(dir.write(
      "v5.pkl",
      R"(["Tensor_add__0_forward_input.0",1,[],"torch.float32",[1],[1,1,1]])"));
  const Trace new_names = read_only(dir.write(
      "v6.pkl",
      R"(["Tensor.add_.0.forward.input.0",1,[],"torch.float32",[1],[1,1,1]])"));
  EXPECT_EQ(names(old_names), names(new_names));
}

TEST(Ptdbg, RepeatedRowsBothStay) {
  const TempDir dir;
  const std::string row =
      R"(["Functional_f_0_forward_input.0",1,[],"torch.float32",[1],[1,1,1]])";
  const Trace trace = read_only(dir.write("a.pkl", row + "\n" + row + "\n"));
  EXPECT_EQ(names(trace),
            (std::vector<std::string>{"Functional.f.0.forward.input.0",
                                      "Functional.f.0.forward.input.0#2"}));
  EXPECT_TRUE(warns(trace, "1 name occurs more than once"));
}

TEST(Ptdbg, BinaryPicklesAreNeverLoaded) {
  const TempDir dir;
  const auto path =
      dir.write("evil.pkl", std::string_view("\x80\x02}q\x00.", 6));
  EXPECT_NE(error_of(Code::kRefused, [&] { read_only(path); })
                .find("a binary pickle is never loaded"),
            std::string::npos);
}

TEST(Ptdbg, EmptyFilesAreUnreadable) {
  const TempDir dir;
  error_of(Code::kUnreadable, [&] { read_only(dir.write("a.pkl", "\n \n")); });
}

TEST(Ptdbg, ACutOrForeignLineNamesItsNumber) {
  const TempDir dir;
  const std::string good(kRows);
  EXPECT_NE(
      error_of(Code::kUnreadable,
               [&] { read_only(dir.write("cut.pkl", good.substr(0, 200))); })
          .find("line 2"),
      std::string::npos);
  for (const char* line : {"[1]", "[]", "[\"x\"]", "[\"a\", 1, [], 5, [], []]",
                           "[\"a\", 1, [], \"torch.float32\"",
                           "[\"a_0_forward_stack_info\", 1]", "[\"a\"] x"}) {
    EXPECT_THROW(read_only(dir.write("bad.pkl", line)), Error) << line;
  }
}

}  // namespace
}  // namespace assay
