// What convert writes reads back as the same trace.
#include "assay/trace/convert.h"

#include <cmath>
#include <cstring>

#include "assay/formats/npy_writer.h"
#include "assay/formats/safetensors_writer.h"
#include "tests/trace/trace_test_util.h"

namespace assay {
namespace {

void expect_same_record(const Record& a, const Record& b,
                        const std::string& name) {
  EXPECT_EQ(a.op, b.op) << name;
  EXPECT_EQ(a.role, b.role) << name;
  EXPECT_EQ(a.is_tensor, b.is_tensor) << name;
  EXPECT_EQ(a.leaf, b.leaf) << name;
  EXPECT_EQ(a.type, b.type) << name;
  EXPECT_EQ(a.value, b.value) << name;
  EXPECT_EQ(a.digest, b.digest) << name;
  EXPECT_EQ(a.facts.dtype_text, b.facts.dtype_text) << name;
  EXPECT_EQ(a.facts.shape, b.facts.shape) << name;
  EXPECT_EQ(a.facts.requires_grad, b.facts.requires_grad) << name;
  EXPECT_EQ(a.stats.max, b.stats.max) << name;
  EXPECT_EQ(a.stats.min, b.stats.min) << name;
  EXPECT_EQ(a.stats.mean, b.stats.mean) << name;
  EXPECT_EQ(a.stats.norm, b.stats.norm) << name;
}

void expect_same(const Trace& a, const Trace& b) {
  ASSERT_EQ(op_names(a), op_names(b));
  ASSERT_EQ(names(a), names(b));
  EXPECT_EQ(a.task, b.task);
  EXPECT_EQ(a.level, b.level);
  for (std::size_t i = 0; i < a.records.size(); ++i) {
    expect_same_record(a.records[i], b.records[i], a.name(a.records[i]));
  }
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    EXPECT_EQ(a.ops[i].parent, b.ops[i].parent) << a.ops[i].name;
    EXPECT_EQ(a.ops[i].stack, b.ops[i].stack) << a.ops[i].name;
    EXPECT_EQ(a.ops[i].recompute, b.ops[i].recompute) << a.ops[i].name;
    EXPECT_EQ(a.ops[i].collective != nullptr, b.ops[i].collective != nullptr);
  }
  EXPECT_EQ(a.stacks, b.stacks);
}

TEST(Convert, ARealDumpSurvivesTheRoundTrip) {
  const TempDir dir;
  const auto source =
      std::filesystem::path(ASSAY_TEST_DATA) / "trace/resnet50_gpu";
  convert_path(source, dir / "out");
  const auto before = locate_traces(source);
  const auto after = locate_traces(dir / "out");
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    expect_same(read_trace(before[i]), read_trace(after[i]));
  }
}

constexpr char kEveryLeaf[] = R"(
 "Distributed.all_reduce.0.forward": {"input_args": [
   {"type":"torch.Tensor","dtype":"torch.int64","shape":[1],
    "Max":1152921504606846977,"Min":3.0,"Mean":null,"Norm":null},
   null, [{"type":"int","value":-4}, []], {"type":"float","value":Infinity},
   {"type":"str","value":"a \"quoted\" \\ {text}\n"},
   {"type":"slice","value":[0,null,2]}, {"type":"bool","value":false},
   {"type":"torch.memory_format","format":"channels_last"},
   {"type":"torch.device","value":"npu:0"}],
  "input_kwargs": {"group": {"type":"torch.ProcessGroup","group_ranks":[0,1],
    "group_id":"ab12"}, "opts": {"x": {"type":"int","value":1}}},
  "is_recompute": false,
  "output": [{"type":"DTensor","dtype":"torch.float32","shape":[],"Max":NaN,
    "Min":0.5,"Mean":1e-300,"Norm":-Infinity,"requires_grad":true,
    "md5":"0123abcd","placements":[{"Shard":{"dim":0}}]}]},
 "Module.a.L.parameters_grad.0": {"sub.weight": [{"type":"torch.Tensor",
   "dtype":"torch.float8_e4m3fn","shape":[2],"Max":null,"Min":null,
   "Mean":null,"Norm":null}]},
 "Module.a.L.backward.0": {"input": [null], "output": []},
 "v.0.debug": {"a": [{"type":"int","value":3}]})";

TEST(Convert, EveryLeafKindSurvivesTheRoundTrip) {
  const TempDir dir;
  dir.write("in/stack.json",
            R"({"0": [["Distributed.all_reduce.0.forward"], ["File a.py"]]})");
  dir.write("in/construct.json",
            R"({"Distributed.all_reduce.0.forward": "Module.a.L.backward.0"})");
  dir.write("in/dump.json", dump_text(kEveryLeaf));
  convert_path(dir / "in", dir / "out");
  Trace before = read_only(dir / "in");
  Trace after = read_only(dir / "out");
  // NaN is not equal to itself: looked at here, then taken out.
  for (Trace* trace : {&before, &after}) {
    for (Record& record : trace->records) {
      if (record.type != "DTensor") continue;
      EXPECT_TRUE(record.stats.max != record.stats.max);
      record.stats.max.reset();
    }
  }
  expect_same(before, after);
  EXPECT_EQ(after.ops[0].collective->group_ranks,
            (std::vector<std::int64_t>{0, 1}));
}

TEST(Convert, RecomputedCallsSurviveTheRoundTrip) {
  const TempDir dir;
  const char entry[] = R"({"input_args": [{"type":"int","value":1}],
      "input_kwargs": {}, "output": [], "is_recompute": )";
  dir.write("in/dump.json",
            dump_text(std::string("\"Module.a.L.forward.0\": ") + entry +
                      "false}, \"Module.a.L.forward.1\": " + entry +
                      "true}, \"Module.a.L.backward.1\": {\"input\": [], "
                      "\"output\": []}"));
  dir.write("in/construct.json", "{}");
  convert_path(dir / "in", dir / "out");
  expect_same(read_only(dir / "in"), read_only(dir / "out"));
}

// bf16 1.0, -2.0, 0.1015625, +inf: the upper halves of their float32 codes.
void write_bf16(const std::filesystem::path& path) {
  Tensor tensor = Tensor::zeros(DType::kBF16, {2, 2});
  const std::uint16_t codes[] = {0x3F80, 0xC000, 0x3DD0, 0x7F80};
  std::memcpy(tensor.mutable_data(), codes, sizeof codes);
  SafetensorsWriter writer(path, {{"w", DType::kBF16, {2, 2}, ""}});
  writer.write(tensor.view);
  writer.commit();
}

TEST(Convert, BFloat16IsStoredExactlyAsFloat32) {
  const TempDir dir;
  write_bf16(dir / "m.safetensors");
  const ConvertSummary summary =
      convert_path(dir / "m.safetensors", dir / "out");
  EXPECT_EQ(summary.tensors, 1);
  EXPECT_EQ(summary.bytes, 8);
  const Trace trace = read_only(dir / "out");
  ASSERT_EQ(names(trace), std::vector<std::string>{"w.0.debug"});
  EXPECT_EQ(trace.records[0].facts.dtype, DType::kBF16);
  const Tensor loaded = trace.loader->load(trace.records[0]);
  EXPECT_EQ(loaded.view.shape, (Shape{2, 2}));
  EXPECT_EQ(f32_values(loaded),
            (std::vector<float>{1.0f, -2.0f, 0.1015625f, INFINITY}));
}

TEST(Convert, TensorsOfADumpGoIntoOneSafetensors) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "a");
  write_bf16(dir / "a/m.safetensors");
  write_npy(dir / "a/x.npy", f32_tensor({3}, {1, 2, 3}).view);
  const ConvertSummary summary = convert_path(dir / "a", dir / "o.safetensors");
  EXPECT_EQ(summary.tensors, 2);
  const Trace trace = read_only(dir / "o.safetensors");
  EXPECT_EQ(names(trace), (std::vector<std::string>{"m.w", "x"}));
  EXPECT_EQ(trace.records[0].facts.dtype, DType::kBF16);
  EXPECT_EQ(f32_values(trace.loader->load(trace.records[1])),
            (std::vector<float>{1, 2, 3}));
}

TEST(Convert, OneTensorGoesIntoOneNpy) {
  const TempDir dir;
  write_npy(dir / "x.npy", f32_tensor({2, 1}, {4, 5}).view);
  EXPECT_EQ(convert_path(dir / "x.npy", dir / "y.npy").tensors, 1);
  const Trace trace = read_only(dir / "y.npy");
  EXPECT_EQ(trace.records[0].facts.shape, (Shape{2, 1}));
  EXPECT_EQ(f32_values(trace.loader->load(trace.records[0])),
            (std::vector<float>{4, 5}));
}

TEST(Convert, SeveralDumpsDoNotFitOneFile) {
  const auto source =
      std::filesystem::path(ASSAY_TEST_DATA) / "trace/resnet50_gpu";
  const TempDir dir;
  error_of(Code::kUsage, [&] { convert_path(source, dir / "x.safetensors"); });
  EXPECT_FALSE(std::filesystem::exists(dir / "x.safetensors"));
}

TEST(Convert, NeverWritesOverADump) {
  const TempDir dir;
  write_npy(dir / "x.npy", f32_tensor({1}, {4}).view);
  convert_path(dir / "x.npy", dir / "out");
  error_of(Code::kUsage, [&] { convert_path(dir / "x.npy", dir / "out"); });
}

TEST(Convert, WhatCannotBeReadIsListed) {
  const TempDir dir;
  dir.write("in/dump.json",
            dump_text(R"("Functional.f.0.forward": {"input_args": [
              {"type":"torch.Tensor","dtype":"torch.float32","shape":[1],
               "data_name":"gone.npy"}], "output": []})",
                      "tensor"));
  const ConvertSummary summary = convert_path(dir / "in", dir / "out");
  EXPECT_EQ(summary.tensors, 0);
  ASSERT_EQ(summary.left_out.size(), 1u);
  EXPECT_NE(summary.left_out[0].find("data file absent: gone.npy"),
            std::string::npos);
  error_of(Code::kUnreadable,
           [&] { convert_path(dir / "in", dir / "o.safetensors"); });
}

}  // namespace
}  // namespace assay
