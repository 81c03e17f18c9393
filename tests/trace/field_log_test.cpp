// Faults other tools were reported for, named by their number in the field
// log.
#include "assay/formats/npy_writer.h"
#include "tests/trace/trace_test_util.h"

namespace assay {
namespace {

std::string entry(const std::string& name, const std::string& data_name,
                  const std::string& dtype = "torch.float32") {
  return "\"" + name +
         "\": {\"input_args\": [], \"output\": [{\"type\":\"torch.Tensor\","
         "\"dtype\":\"" +
         dtype + "\",\"shape\":[1],\"data_name\":\"" + data_name + "\"}]}";
}

// Two calls wrote to one file: neither tensor can be trusted.
TEST(FieldLog, F67ReusedFileNamesAreUnreadable) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "dump_tensor_data");
  write_npy(dir / "dump_tensor_data/x.npy", f32_tensor({1}, {1}).view);
  write_npy(dir / "dump_tensor_data/y.npy", f32_tensor({1}, {1}).view);
  const Trace trace =
      read_dump(dir,
                entry("Functional.f.0.forward", "x.npy") + "," +
                    entry("Functional.f.1.forward", "x.npy") + "," +
                    entry("Functional.f.2.forward", "y.npy"),
                "tensor");
  EXPECT_NE(trace.records[0].unreadable, "");
  EXPECT_NE(trace.records[1].unreadable, "");
  EXPECT_EQ(trace.records[2].unreadable, "");
  EXPECT_TRUE(warns(trace, "named by more than one leaf"));
}

TEST(FieldLog, F67EmptyJsonIsUnreadableNotEqual) {
  const TempDir dir;
  dir.write("dump.json", "");
  error_of(Code::kUnreadable, [&] { read_trace({dir.path(), 0, 0, false}); });
}

// A tensor that one side did not keep stays a record that says so.
TEST(FieldLog, F69MissingFilesStayInTheTrace) {
  const TempDir dir;
  const Trace trace =
      read_dump(dir, entry("Functional.f.0.forward", "gone.pt"), "tensor");
  ASSERT_EQ(trace.records.size(), 1u);
  EXPECT_EQ(trace.records[0].file, "gone.pt");
  EXPECT_EQ(trace.records[0].unreadable, "data file absent: gone.pt");
}

TEST(FieldLog, F69FilesNoEntryNamesAreUnreadable) {
  const TempDir dir;
  dir.write("dump_tensor_data/orphan.npy", "x");
  const Trace trace = read_dump(dir, "\"Functional.f.0.forward\": {}");
  ASSERT_EQ(trace.records.size(), 1u);
  EXPECT_NE(trace.records[0].unreadable.find("not part of the dump"),
            std::string::npos);
}

TEST(FieldLog, F70EveryStepIsReadInNaturalOrder) {
  const TempDir dir;
  for (const int step : {0, 1, 2, 10}) {
    dir.write("step" + std::to_string(step) + "/rank0/dump.json",
              dump_text("\"Functional.s" + std::to_string(step) +
                        ".0.forward\": {}"));
  }
  std::vector<std::string> first_ops;
  for (const TraceLocation& location : locate_traces(dir.path())) {
    first_ops.push_back(read_trace(location).ops.at(0).name);
  }
  EXPECT_EQ(first_ops,
            (std::vector<std::string>{
                "Functional.s0.0.forward", "Functional.s1.0.forward",
                "Functional.s2.0.forward", "Functional.s10.0.forward"}));
}

// The payload says float32, the dump float16: both sides of that stay visible.
TEST(FieldLog, F79PayloadAndDumpKeepTheirOwnDtypes) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "dump_tensor_data");
  write_npy(dir / "dump_tensor_data/x.npy", f32_tensor({1}, {1}).view);
  const Trace trace = read_dump(
      dir, entry("Functional.f.0.forward", "x.npy", "torch.float16"), "tensor");
  EXPECT_EQ(trace.records[0].facts.dtype, DType::kF16);
  EXPECT_EQ(trace.loader->load(trace.records[0]).view.dtype, DType::kF32);
}

}  // namespace
}  // namespace assay
