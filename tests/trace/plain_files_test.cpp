// Tensor files without a dump around them.
#include "assay/formats/npy_writer.h"
#include "assay/formats/safetensors_writer.h"
#include "tests/trace/trace_test_util.h"

namespace assay {
namespace {

void write(const std::filesystem::path& path, const std::vector<float>& v) {
  std::filesystem::create_directories(path.parent_path());
  const Shape shape{static_cast<std::int64_t>(v.size())};
  write_npy(path, f32_tensor(shape, v).view);
}

void write_checkpoint(const std::filesystem::path& path) {
  SafetensorsWriter writer(
      path, {{"a.weight", DType::kF32, {2}, ""}, {"b", DType::kF32, {1}, ""}});
  writer.write(f32_tensor({2}, {1, 2}).view);
  writer.write(f32_tensor({1}, {3}).view);
  writer.commit();
}

TEST(PlainFiles, OneFileIsOneOp) {
  const TempDir dir;
  write(dir / "x.npy", {1, 2, 3});
  const Trace trace = read_only(dir / "x.npy");
  ASSERT_EQ(trace.records.size(), 1u);
  EXPECT_EQ(names(trace), std::vector<std::string>{"x"});
  EXPECT_EQ(trace.records[0].facts.shape, Shape{3});
  EXPECT_EQ(trace.records[0].facts.dtype, DType::kF32);
  EXPECT_EQ(f32_values(trace.loader->load(trace.records[0])),
            (std::vector<float>{1, 2, 3}));
}

TEST(PlainFiles, ACheckpointHasOneOpPerTensor) {
  const TempDir dir;
  write_checkpoint(dir / "model.safetensors");
  const Trace trace = read_only(dir / "model.safetensors");
  EXPECT_EQ(op_names(trace), (std::vector<std::string>{"a.weight", "b"}));
  EXPECT_EQ(f32_values(trace.loader->load(trace.records[1])),
            std::vector<float>{3});
}

TEST(PlainFiles, DirectoriesAreWalkedInNaturalOrder) {
  const TempDir dir;
  write(dir / "t10.npy", {10});
  write(dir / "t9.npy", {9});
  write(dir / "sub/a.npy", {1});
  write_checkpoint(dir / "two.safetensors");
  const Trace trace = read_only(dir.path());
  EXPECT_EQ(names(trace), (std::vector<std::string>{"sub/a", "t9", "t10",
                                                    "two.a.weight", "two.b"}));
  EXPECT_EQ(f32_values(trace.loader->load(trace.records[0])),
            std::vector<float>{1});
  EXPECT_EQ(f32_values(trace.loader->load(trace.records[4])),
            std::vector<float>{3});
}

TEST(PlainFiles, WhatIsSkippedIsCounted) {
  const TempDir dir;
  write(dir / "a.npy", {1});
  dir.write("notes.txt", "x");
  dir.write(".hidden.npy", "x");
  std::filesystem::create_symlink(dir / "a.npy", dir / "link.npy");
  EXPECT_TRUE(warns(read_only(dir.path()),
                    "skipped: 1 that are no tensor files, 1 hidden, "
                    "1 symbolic links"));
}

TEST(PlainFiles, ABadFileAmongGoodOnesIsARecord) {
  const TempDir dir;
  write(dir / "a.npy", {1});
  dir.write("b.npy", "\x93NUMPY");
  const Trace trace = read_only(dir.path());
  ASSERT_EQ(trace.records.size(), 2u);
  EXPECT_EQ(trace.records[0].unreadable, "");
  EXPECT_NE(trace.records[1].unreadable, "");
  EXPECT_THROW(trace.loader->load(trace.records[1]), Error);
}

TEST(PlainFiles, SharedStemsKeepTheirExtensions) {
  const TempDir dir;
  write(dir / "a.npy", {1});
  write_checkpoint(dir / "a.safetensors");
  EXPECT_EQ(op_names(read_only(dir.path())),
            (std::vector<std::string>{"a.npy", "a.safetensors"}));
}

TEST(PlainFiles, RawFilesTakeTheirFactsFromOptions) {
  const TempDir dir;
  const float values[] = {1.5f, -2.0f};
  const auto path = dir.write(
      "x.bin", std::string_view(reinterpret_cast<const char*>(values), 8));
  TraceReadOptions options;
  options.raw.dtype = DType::kF32;
  options.raw.shape = Shape{2};
  const Trace trace = read_trace(locate_traces(path).at(0), options);
  EXPECT_EQ(f32_values(trace.loader->load(trace.records[0])),
            (std::vector<float>{1.5f, -2.0f}));
}

TEST(PlainFiles, ALoadedTensorOutlivesItsTrace) {
  const TempDir dir;
  write_checkpoint(dir / "m.safetensors");
  Tensor tensor;
  {
    const Trace trace = read_only(dir / "m.safetensors");
    tensor = trace.loader->load(trace.records[0]);
  }
  EXPECT_EQ(f32_values(tensor), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace assay
