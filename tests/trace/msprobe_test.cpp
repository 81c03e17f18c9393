// msprobe directories: every leaf kind, both generations of side files.
#include <cmath>

#include "tests/trace/trace_test_util.h"

namespace assay {
namespace {

using testing::Test;

constexpr char kTensor[] =
    R"({"type":"torch.Tensor","dtype":"torch.bfloat16","shape":[2,3],)"
    R"("Max":1.5,"Min":-2,"Mean":null,"Norm":NaN,"requires_grad":true})";

std::string forward(const std::string& args, const std::string& kwargs = "{}") {
  return "\"Functional.f.0.forward\": {\"input_args\": [" + args +
         "], \"input_kwargs\": " + kwargs + ", \"output\": [" + kTensor + "]}";
}

TEST(Msprobe, NamesFollowThePathToTheLeaf) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir,
      forward(std::string(kTensor) + ", [[" + kTensor + ", null], []]",
              "{\"weight\": " + std::string(kTensor) +
                  ", \"opts\": {\"eps\": {\"type\":\"float\",\"value\":"
                  "1e-05}}, \"type\": {\"type\":\"str\",\"value\":\"x\"}}"));
  EXPECT_EQ(names(trace),
            (std::vector<std::string>{"Functional.f.0.forward.input.0",
                                      "Functional.f.0.forward.input.1.0.0",
                                      "Functional.f.0.forward.input.1.0.1",
                                      "Functional.f.0.forward.input.1.1",
                                      "Functional.f.0.forward.input.weight",
                                      "Functional.f.0.forward.input.opts.eps",
                                      "Functional.f.0.forward.input.type",
                                      "Functional.f.0.forward.output.0"}));
}

TEST(Msprobe, AnEmptyContainerIsAnArgument) {
  const TempDir dir;
  const Trace trace = read_dump(dir, forward("[], {}", "{\"dim\": []}"));
  ASSERT_EQ(trace.records.size(), 4u);
  EXPECT_EQ(trace.records[0].leaf, "input.0");
  EXPECT_EQ(trace.records[0].type, "list");
  EXPECT_EQ(trace.records[0].value, "[]");
  EXPECT_EQ(trace.records[1].type, "dict");
  EXPECT_EQ(trace.records[1].value, "{}");
  EXPECT_EQ(trace.records[2].leaf, "input.dim");
}

TEST(Msprobe, TensorLeavesKeepNullAndNonFiniteStatistics) {
  const TempDir dir;
  const Trace trace = read_dump(dir, forward(kTensor));
  const Record& record = trace.records[0];
  EXPECT_TRUE(record.is_tensor);
  EXPECT_EQ(record.facts.dtype, DType::kBF16);
  EXPECT_EQ(record.facts.dtype_text, "torch.bfloat16");
  EXPECT_EQ(record.facts.shape, (Shape{2, 3}));
  EXPECT_EQ(record.stats.max, 1.5);
  EXPECT_EQ(record.stats.min, -2.0);
  EXPECT_FALSE(record.stats.mean.has_value());
  EXPECT_TRUE(std::isnan(record.stats.norm.value()));
  EXPECT_EQ(record.facts.requires_grad, true);
  EXPECT_EQ(record.value, "");
}

struct ValueCase {
  const char* json;
  const char* type;
  const char* value;
};

TEST(Msprobe, EveryOtherLeafKindHasATypeAndAValue) {
  const ValueCase cases[] = {
      {R"({"type":"int","value":-7})", "int", "-7"},
      {R"({"type":"int","value":18446744073709551617})", "int",
       "18446744073709551617"},
      {R"({"type":"float","value":1e-05})", "float", "1e-05"},
      {R"({"type":"float","value":0.00001})", "float", "1e-05"},
      {R"({"type":"float","value":-Infinity})", "float", "-inf"},
      {R"({"type":"float","value":NaN})", "float", "nan"},
      {R"({"type":"bool","value":true})", "bool", "True"},
      {R"({"type":"str","value":"mean"})", "str", "mean"},
      {R"(null)", "NoneType", "None"},
      {R"({"type":"slice","value":[0,null,2]})", "slice", "[0,null,2]"},
      {R"({"type":"ellipsis","value":"..."})", "ellipsis", "..."},
      {R"({"type":"torch.Size","value":[4,5]})", "torch.Size", "[4,5]"},
      {R"({"type":"torch.dtype","value":"torch.float16"})", "torch.dtype",
       "torch.float16"},
      {R"({"type":"torch.device","value":"npu:0"})", "torch.device", "npu:0"},
      {R"({"type":"torch.memory_format","format":"channels_last"})",
       "torch.memory_format", "channels_last"},
      {R"({"type":"torch.distributed.ReduceOp","value":"RedOpType.SUM"})",
       "torch.distributed.ReduceOp", "RedOpType.SUM"},
      {R"(3.5)", "float", "3.5"},
      {R"("raw")", "str", "raw"}};
  for (const ValueCase& c : cases) {
    const TempDir dir;
    const Trace trace = read_dump(dir, forward(c.json));
    ASSERT_EQ(trace.records.size(), 2u) << c.json;
    EXPECT_FALSE(trace.records[0].is_tensor) << c.json;
    EXPECT_EQ(trace.records[0].type, c.type) << c.json;
    EXPECT_EQ(trace.records[0].value, c.value) << c.json;
  }
}

TEST(Msprobe, KeysInAnyOrderGiveTheSameLeaf) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir,
      forward(
          R"({"Max":1.0,"Mean":null,"dtype":"torch.int8","shape":[4],)"
          R"("type":"torch.Tensor"}, {"value":[1,2],"type":"torch.Size"})"));
  ASSERT_EQ(trace.records.size(), 3u);
  EXPECT_TRUE(trace.records[0].is_tensor);
  EXPECT_EQ(trace.name(trace.records[0]), "Functional.f.0.forward.input.0");
  EXPECT_EQ(trace.records[0].facts.dtype, DType::kI8);
  EXPECT_EQ(trace.records[0].facts.shape, Shape{4});
  EXPECT_EQ(trace.records[0].stats.max, 1.0);
  EXPECT_EQ(trace.records[1].value, "[1,2]");
}

TEST(Msprobe, BigIntegerStatisticsStayExact) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir,
      forward(R"({"type":"torch.Tensor","dtype":"torch.int64","shape":[1],)"
              R"("Max":1152921504606846977,"Min":5})"));
  EXPECT_EQ(trace.records[0].stats.max, 0x1p60);
  EXPECT_EQ(trace.records[0].value, R"({"Max":1152921504606846977})");
}

TEST(Msprobe, BoolStatisticsAreZeroAndOne) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir, forward(R"({"type":"torch.Tensor","dtype":"torch.bool","shape":[2],)"
                   R"("Max":true,"Min":false,"Mean":null,"Norm":null})"));
  EXPECT_EQ(trace.records[0].stats.max, 1.0);
  EXPECT_EQ(trace.records[0].stats.min, 0.0);
  EXPECT_FALSE(trace.records[0].stats.norm.has_value());
}

TEST(Msprobe, DigestsXorWordsAndNanChecks) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir,
      forward(R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],)"
              R"("md5":"0a1b2c3d"},)"
              R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],)"
              R"("md5":"0x00000000deadbeef"},)"
              R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],)"
              R"("is_nan":1})"),
      "nan_check");
  EXPECT_EQ(trace.records[0].digest, "0a1b2c3d");
  EXPECT_EQ(trace.records[1].digest, "0x00000000deadbeef");
  EXPECT_EQ(trace.records[2].value, R"({"is_nan":1})");
  EXPECT_EQ(trace.task, "nan_check");
}

TEST(Msprobe, DistributedTensorsKeepMeshAndPlacements) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir, forward(R"({"type":"DTensor","dtype":"torch.float32","shape":[4],)"
                   R"("Max":1,"Min":1,"Mean":1,"Norm":2,"device_mesh":{"mesh":)"
                   R"([0,1]},"placements":[{"Shard":{"dim":0}}]})"));
  EXPECT_TRUE(trace.records[0].is_tensor);
  EXPECT_EQ(
      trace.records[0].value,
      R"({"device_mesh":{"mesh":[0,1]},"placements":[{"Shard":{"dim":0}}]})");
}

TEST(Msprobe, CollectivesKnowTheirRanks) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir,
      R"("Distributed.all_reduce.0.forward": {"input_args": [], "input_kwargs":
         {"group": {"type":"torch.ProcessGroup","group_ranks":[0,1,3],
                    "group_id":"3b6e6a0c"}}, "output": []},
         "Distributed.batch_isend_irecv.0.forward": {"input_args": [[
           {"class_type":"torch.distributed.P2POp","op":"isend","tensor":
            {"type":"torch.Tensor","dtype":"torch.float16","shape":[8],"Max":1,
             "Min":0,"Mean":0.5,"Norm":2}, "peer":1,"tag":0,"group_id":"ab"}]],
           "input_kwargs": {}, "output": []})");
  ASSERT_EQ(trace.ops.size(), 2u);
  ASSERT_TRUE(trace.ops[0].collective);
  EXPECT_EQ(trace.ops[0].collective->group_ranks,
            (std::vector<std::int64_t>{0, 1, 3}));
  EXPECT_EQ(trace.ops[0].collective->group_id, "3b6e6a0c");
  ASSERT_TRUE(trace.ops[1].collective);
  EXPECT_EQ(trace.ops[1].collective->peer, 1);
  const Record& sent =
      find(trace, "Distributed.batch_isend_irecv.0.forward.input.0.0");
  EXPECT_TRUE(sent.is_tensor);
  EXPECT_EQ(sent.facts.dtype, DType::kF16);
  EXPECT_EQ(sent.stats.norm, 2.0);
}

TEST(Msprobe, LeafWithoutDtypeOrShapeIsUnreadable) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir, forward(R"({"type":"torch.Tensor","shape":[2]},)"
                   R"({"type":"torch.Tensor","dtype":"torch.float32"},)"
                   R"({"type":"torch.Tensor","dtype":"torch.float32","shape":)"
                   R"([2,-1]},)"
                   R"({"type":"torch.Tensor","dtype":"torch.float32","shape":)"
                   R"([2,"x",99999999999999999999]})"));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(trace.records[i].is_tensor) << i;
    EXPECT_NE(trace.records[i].unreadable, "") << i;
  }
}

TEST(Msprobe, BackwardAndParameterGradients) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir, "\"Module.a.Linear.backward.0\": {\"input\": [" +
               std::string(kTensor) +
               "], \"output\": [null]},\n"
               "\"Module.a.Linear.parameters_grad\": {\"weight\": [" +
               kTensor + "], \"sub.bias\": [" + kTensor +
               "]},"
               "\"Module.a.Linear.parameters_grad.1\": {\"weight\": [" +
               kTensor + "]}");
  EXPECT_EQ(names(trace), (std::vector<std::string>{
                              "Module.a.Linear.backward.0.input.0",
                              "Module.a.Linear.backward.0.output.0",
                              "Module.a.Linear.parameters_grad.weight",
                              "Module.a.Linear.parameters_grad.sub.bias",
                              "Module.a.Linear.parameters_grad.1.weight"}));
  EXPECT_EQ(trace.ops[2].call_index, 1);
}

TEST(Msprobe, DebugEntriesNest) {
  const TempDir dir;
  dir.write("debug.json",
            dump_text("\"v.0.debug\": " + std::string(kTensor) +
                          ", \"w.0.debug\": {\"a\": [" + kTensor + "]}",
                      "tensor", "debug"));
  const Trace trace = read_only(dir.path());
  EXPECT_EQ(trace.level, "debug");
  EXPECT_EQ(names(trace),
            (std::vector<std::string>{"v.0.debug", "w.0.debug.a.0"}));
}

TEST(Msprobe, DumpAndDebugOfOneRankAreOneTrace) {
  const TempDir dir;
  dir.write("dump.json", dump_text(forward(kTensor)));
  dir.write("debug.json", dump_text("\"v.0.debug\": " + std::string(kTensor)));
  EXPECT_EQ(op_names(read_only(dir.path())),
            (std::vector<std::string>{"Functional.f.0.forward", "v.0.debug"}));
}

TEST(Msprobe, StructureTasksHaveNamesOnly) {
  const TempDir dir;
  const Trace trace =
      read_dump(dir,
                R"("Functional.f.0.forward": {}, "Module.a.B.forward.0": )"
                R"(null)",
                "structure");
  EXPECT_EQ(trace.ops.size(), 2u);
  EXPECT_EQ(trace.records.size(), 0u);
}

constexpr char kThreeOps[] =
    R"("Functional.f.0.forward": {}, "Module.a.B.forward.0": {},
       "Module.C.forward.0": {})";

TEST(Msprobe, DeduplicatedStacks) {
  const TempDir dir;
  dir.write("stack.json",
            R"j({"0": [["Functional.f.0.forward", "Module.a.B.forward.0"],
                       ["File x.py, line 10, in f, \n y = g(x)", "File z"]],
                 "1": [["Module.C.forward.0", "Tensor.gone.0.forward"], []]})j");
  const Trace trace = read_dump(dir, kThreeOps);
  ASSERT_EQ(trace.stacks.size(), 2u);
  EXPECT_EQ(trace.stacks[0][0], "File x.py, line 10, in f, \n y = g(x)");
  EXPECT_EQ(trace.ops[0].stack, 0);
  EXPECT_EQ(trace.ops[1].stack, 0);
  EXPECT_EQ(trace.ops[2].stack, 1);
}

// The dump's order is only the fast way: any other finds the same operators.
TEST(Msprobe, StacksThatNameOperatorsInAnotherOrder) {
  const TempDir dir;
  dir.write("stack.json",
            R"j({"0": [["Module.C.forward.0", "Functional.f.0.forward"], []],
                 "1": [["gone", "Module.a.B.forward.0"], []],
                 "2": [["Functional.f.0.forward"], []]})j");
  const Trace trace = read_dump(dir, kThreeOps);
  EXPECT_EQ(trace.ops[0].stack, 2);
  EXPECT_EQ(trace.ops[1].stack, 1);
  EXPECT_EQ(trace.ops[2].stack, 0);
}

TEST(Msprobe, StacksPerCall) {
  const TempDir dir;
  dir.write("stack.json", R"({"Functional.f.0.forward": ["File a.py"],
                              "Module.C.forward.0": ["File b.py", "File c"]})");
  const Trace trace = read_dump(dir, kThreeOps);
  EXPECT_EQ(trace.stacks[static_cast<std::size_t>(trace.ops[2].stack)],
            (std::vector<std::string>{"File b.py", "File c"}));
  EXPECT_EQ(trace.ops[1].stack, -1);
}

TEST(Msprobe, ParentsInEveryForm) {
  const TempDir dir;
  dir.write("construct.json",
            R"({"Functional.f.0.forward": "Module.a.B.forward.0",
                "Module.a.B.forward.0": ["Module.gone.forward.0", 3],
                "Module.gone.forward.0": "Module.C.forward.0",
                "Module.C.forward.0": "", "megatron_micro_step_number": 2})");
  const Trace trace = read_dump(dir, kThreeOps);
  EXPECT_EQ(trace.ops[0].parent, 1);
  EXPECT_EQ(trace.ops[1].parent, 2) << "the nearest ancestor that was dumped";
  EXPECT_EQ(trace.ops[2].parent, -1);
}

TEST(Msprobe, CallTreesNeverLoop) {
  const TempDir dir;
  dir.write("construct.json",
            R"({"Functional.f.0.forward": "Module.a.B.forward.0",
                "Module.a.B.forward.0": "Functional.f.0.forward",
                "Module.C.forward.0": "Module.C.forward.0"})");
  const Trace trace = read_dump(dir, kThreeOps);
  for (std::size_t start = 0; start < 3; ++start) {
    int hops = 0;
    for (auto at = static_cast<std::int32_t>(start); at >= 0 && hops < 9;
         ++hops) {
      at = trace.ops[static_cast<std::size_t>(at)].parent;
    }
    EXPECT_LT(hops, 9);
  }
}

TEST(Msprobe, MissingEmptyOrBrokenSideFilesAreWarnings) {
  const TempDir absent;
  EXPECT_TRUE(warns(read_dump(absent, kThreeOps), "construct.json: absent"));
  const TempDir empty;
  empty.write("stack.json", "");
  empty.write("construct.json", "{}");
  const Trace quiet = read_dump(empty, kThreeOps);
  EXPECT_TRUE(warns(quiet, "stack.json: empty"));
  EXPECT_EQ(quiet.warnings.size(), 1u);
  const TempDir broken;
  broken.write("stack.json", "{\"0\": [[");
  broken.write("construct.json", "{}");
  const Trace trace = read_dump(broken, kThreeOps);
  EXPECT_TRUE(warns(trace, "the file ends at offset 8"));
  EXPECT_EQ(trace.ops.size(), 3u);
}

TEST(Msprobe, DuplicateEntriesAndLeavesBothStay) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir, forward(kTensor) + "," +
               forward("null",
                       "{\"a\": null, \"a\": " + std::string(kTensor) + "}"));
  EXPECT_EQ(names(trace),
            (std::vector<std::string>{"Functional.f.0.forward.input.0",
                                      "Functional.f.0.forward.output.0",
                                      "Functional.f.0.forward#2.input.0",
                                      "Functional.f.0.forward#2.input.a",
                                      "Functional.f.0.forward#2.input.a#2",
                                      "Functional.f.0.forward#2.output.0"}));
  EXPECT_TRUE(warns(trace, "2 names occur more than once"));
}

constexpr std::string_view kOneTensor =
    R"("Functional.a.0.forward": {"output": [{"type": "torch.Tensor",
       "dtype": "torch.float32", "shape": [1], "data_name": "a.npy"}]})";

TEST(Msprobe, FilesThatNoEntryNamesAreUnreadableRecords) {
  const TempDir dir;
  dir.write("dump_tensor_data/a.npy", "x");
  dir.write("stack.json", "{}");
  dir.write("summary.json", "{}");
  dir.write("process.log", "x");
  EXPECT_EQ(read_dump(dir, kOneTensor, "tensor").records.size(), 1u);
  dir.write("dump_tensor_data/b.npy", "x");
  dir.write("loose.npy", "x");
  dir.write("more/c.npy", "x");
  const Trace trace = read_only(dir.path());
  ASSERT_EQ(trace.records.size(), 4u);
  for (const char* name :
       {"dump_tensor_data/b.npy", "loose.npy", "more/c.npy"}) {
    EXPECT_NE(find(trace, name).unreadable.find("not part of the dump"),
              std::string::npos);
  }
}

TEST(Msprobe, ManyFilesThatNoEntryNamesAreCounted) {
  const TempDir dir;
  for (int i = 0; i < 105; ++i) {
    dir.write("dump_tensor_data/x" + std::to_string(i) + ".npy", "x");
  }
  const Trace trace = read_dump(dir, "", "tensor");
  ASSERT_EQ(trace.records.size(), 101u);
  EXPECT_NE(trace.records.back().unreadable.find(": 5 further files"),
            std::string::npos);
}

TEST(Msprobe, EntriesThatAreNoObjectAreUnreadable) {
  for (const char* body : {"[1]", "[]", "null", "3", "\"x\""}) {
    const TempDir dir;
    const Trace trace =
        read_dump(dir, "\"Functional.b.0.forward\": " + std::string(body));
    ASSERT_EQ(trace.records.size(), 1u) << body;
    EXPECT_EQ(trace.records[0].unreadable, "entry is no object") << body;
  }
}

}  // namespace
}  // namespace assay
