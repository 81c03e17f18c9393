// Tensor files without a dump around them.
#include <sys/stat.h>

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

TEST(PlainFiles, CompanionsAreCounted) {
  const TempDir dir;
  write(dir / "a.npy", {1});
  dir.write("notes.txt", "x");
  dir.write("LICENSE", "Terms\n");
  dir.write("config.json", R"({"layers": 2})");
  dir.write(".gitignore", "x");
  const Trace trace = read_only(dir.path());
  EXPECT_EQ(names(trace), std::vector<std::string>{"a"});
  EXPECT_TRUE(warns(trace, "skipped: 3 that are no tensor files, 1 hidden"));
}

// What may hold tensors and is not read is a row that says why.
TEST(PlainFiles, UnreadEntriesAreUnreadableRecords) {
  const TempDir dir;
  write(dir / "a.npy", {1});
  dir.write(".hidden.npy", "x");
  dir.write(".cache/b.npy", "x");
  std::filesystem::create_symlink(dir / "a.npy", dir / "link.npy");
  std::filesystem::create_directory_symlink("/usr", dir / "linked");
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  const Trace trace = read_only(dir.path());
  ASSERT_EQ(trace.records.size(), 6u);
  EXPECT_TRUE(find(trace, "a").unreadable.empty());
  const auto why = [&](const char* name) {
    return find(trace, name).unreadable;
  };
  EXPECT_NE(why(".hidden.npy").find("hidden"), std::string::npos);
  EXPECT_NE(why(".cache").find("hidden"), std::string::npos);
  EXPECT_NE(why("link.npy").find("symbolic link"), std::string::npos);
  EXPECT_NE(why("linked").find("symbolic link"), std::string::npos);
  EXPECT_NE(why("pipe").find("FIFO"), std::string::npos);
}

TEST(PlainFiles, ForeignContainersAreUnreadableRecords) {
  for (const char* name :
       {"x.h5", "x.hdf5", "x.gguf", "x.npy.gz", "x.zst", "x.xz", "x.tar",
        "x.mat", "x.ckpt.index", "x.onnx", "x.dat", "x.tflite", "x.PKL"}) {
    const TempDir dir;
    write(dir / "a.npy", {1});
    dir.write(name, "text");
    const Trace trace = read_only(dir.path());
    ASSERT_EQ(trace.records.size(), 2u) << name;
    EXPECT_FALSE(trace.records[1].unreadable.empty()) << name;
  }
}

TEST(PlainFiles, NamesThatSayNothingAreJudgedByContent) {
  const TempDir dir;
  write(dir / "weights", {4});
  dir.write("state.part", std::string_view("\x00\x01", 2));
  const Trace trace = read_only(dir.path());
  ASSERT_EQ(trace.records.size(), 2u);
  EXPECT_FALSE(find(trace, "state").unreadable.empty());
  EXPECT_EQ(f32_values(trace.loader->load(find(trace, "weights"))),
            std::vector<float>{4});
}

TEST(PlainFiles, PolygraphyJsonIsRead) {
  const TempDir dir;
  dir.write("out.json", R"({"lst": []})");
  dir.write("other.json", "{}");
  const Trace trace = read_only(dir.path());
  ASSERT_EQ(trace.records.size(), 1u);
  EXPECT_FALSE(trace.records[0].unreadable.empty());
}

TEST(PlainFiles, DirectoriesNestedTooDeepAreRecords) {
  const TempDir dir;
  write(dir / "a.npy", {1});
  std::string deep;
  for (int i = 0; i < 33; ++i) deep += "d/";
  write(dir / (deep + "b.npy"), {1});
  const Trace trace = read_only(dir.path());
  ASSERT_EQ(trace.records.size(), 2u);
  EXPECT_NE(trace.records[1].unreadable.find("nested too deep"),
            std::string::npos);
}

TEST(PlainFiles, DirectoriesThatCannotBeListedAreRecords) {
  const TempDir dir;
  write(dir / "a.npy", {1});
  write(dir / "closed/b.npy", {1});
  const WithoutAccess closed(dir, "closed");
  const Trace trace = read_only(dir.path());
  ASSERT_EQ(trace.records.size(), 2u);
  EXPECT_NE(find(trace, "closed").unreadable.find("cannot list"),
            std::string::npos);
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
