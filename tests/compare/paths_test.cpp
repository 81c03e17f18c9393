// compare_paths on files and directories.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "synthetic.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;

const std::string kResnet = ASSAY_TEST_DATA "/trace/resnet50_gpu/";

class Paths : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) /
            (std::string("assay_paths_") + test->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string path(const std::string& name) const { return root_ / name; }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
  }

  // Version 1.0 .npy of float32.
  void write_npy(const std::string& name,
                 const std::vector<float>& values) const {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                         std::to_string(values.size()) + ",), }";
    header.resize(117, ' ');
    header += '\n';
    std::string text("\x93NUMPY\x01\x00", 8);
    text += static_cast<char>(header.size());
    text += '\0';
    text += header;
    text.append(reinterpret_cast<const char*>(values.data()),
                4 * values.size());
    write(name, text);
  }

  static std::string dump(double norm) {
    return R"({"task":"statistics","level":"L1","framework":"pytorch",)"
           R"("dump_data_dir":null,"data":{"Torch.abs.0.forward":{)"
           R"("input_args":[],"input_kwargs":{},"output":[{"type":)"
           R"("torch.Tensor","dtype":"torch.float32","shape":[4],"Max":2.0,)"
           R"("Min":-1.0,"Mean":0.5,"Norm":)" +
           std::to_string(norm) + R"(,"requires_grad":false}]}}})";
  }

  fs::path root_;
};

TEST_F(Paths, TwoFilesOfOneTensorArePairedWhateverTheirNames) {
  write_npy("a.npy", {1, 2, 3});
  write_npy("b.npy", {1, 2, 3});
  const Comparison same = compare_paths(path("a.npy"), path("b.npy"), {});
  EXPECT_EQ(same.verdict, Verdict::kMatch);
  write_npy("b.npy", {1, 2, 4});
  const Comparison other = compare_paths(path("a.npy"), path("b.npy"), {});
  EXPECT_EQ(other.verdict, Verdict::kMismatch);
  EXPECT_EQ(other.first_divergence->kind, "tensor");
}

TEST_F(Paths, AnAbsentOrHostileFileEndsTheComparison) {
  write_npy("a.npy", {1});
  EXPECT_THROW(compare_paths(path("a.npy"), path("none.npy"), {}), Error);
  write("bad.npy", "\x93NUMPY\x01");
  EXPECT_THROW(compare_paths(path("a.npy"), path("bad.npy"), {}), Error);
}

TEST_F(Paths, ABadFileAmongManyIsARow) {
  for (const char* side : {"g/", "t/"}) {
    write_npy(std::string(side) + "a.npy", {1});
    write_npy(std::string(side) + "b.npy", {1});
  }
  write("t/b.npy", "\x93NUMPY");
  const Comparison result = compare_paths(path("g"), path("t"), {});
  EXPECT_EQ(result.counts.match, 1);
  EXPECT_EQ(result.counts.incomplete, 1);
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
}

TEST_F(Paths, F70EveryStepIsComparedInNumericOrder) {
  for (const char* step : {"step0", "step2", "step10"}) {
    write("g/" + std::string(step) + "/rank0/dump.json", dump(3));
    write("t/" + std::string(step) + "/rank0/dump.json",
          dump(step == std::string("step10") ? 4 : 3));
  }
  const Comparison result = compare_paths(path("g"), path("t"), {});
  ASSERT_EQ(result.groups.size(), 3u);
  EXPECT_EQ(result.groups[1].step, 2);
  EXPECT_EQ(result.groups[2].step, 10);
  EXPECT_EQ(result.counts.match, 2);
  EXPECT_EQ(result.counts.mismatch, 1);
  EXPECT_EQ(result.rows[result.first_divergence->row].group, 2u);
}

TEST_F(Paths, AStepThatOneSideLacksIsIncomplete) {
  write("g/step0/rank0/dump.json", dump(3));
  write("g/step1/rank0/dump.json", dump(3));
  write("t/step0/rank0/dump.json", dump(3));
  const Comparison result = compare_paths(path("g"), path("t"), {});
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_EQ(result.counts.match, 1);
  EXPECT_EQ(result.counts.incomplete, 1);
  EXPECT_TRUE(std::any_of(result.warnings.begin(), result.warnings.end(),
                          [](const std::string& warning) {
                            return warning.ends_with("no step 1 rank 0");
                          }));
}

TEST_F(Paths, ADumpThatCannotBeReadIsARowOfItsRank) {
  for (const char* side : {"g", "t"}) {
    for (const char* rank : {"/rank0", "/rank1"}) {
      write(std::string(side) + "/step0" + rank + "/dump.json", dump(3));
    }
  }
  write("t/step0/rank1/dump.json", "{\"data\": {");
  const Comparison result = compare_paths(path("g"), path("t"), {});
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_EQ(result.counts.match, 1);
  EXPECT_EQ(result.counts.incomplete, 2);
}

TEST_F(Paths, F67ADumpWithoutRecordsIsIncomplete) {
  const std::string empty = R"({"task":"statistics","level":"L1",)"
                            R"("dump_data_dir":null,"data":{}})";
  write("g/dump.json", empty);
  write("t/dump.json", empty);
  const Comparison result = compare_paths(path("g"), path("t"), {});
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_EQ(result.counts.incomplete, 1);
}

// The file shrinks between opening and reading: its pages read as zeros.
TEST_F(Paths, ATensorTruncatedUnderUsIsIncomplete) {
  constexpr std::int64_t kCount = 1 << 18;
  write("t.bin", std::string(4 * kCount, '\0'));
  const auto file = MappedFile::open(path("t.bin"));
  fs::resize_file(path("t.bin"), 4096);
  Tensor mapped{{DType::kF32, {kCount}, {}, file->bytes().data()}, file};
  TraceBuilder golden, target;
  golden.op("Torch.a.0.forward")
      .tensor(Role::kOutput, "output.0", Tensor::zeros(DType::kF32, {kCount}));
  target.op("Torch.a.0.forward").tensor(Role::kOutput, "output.0", mapped);
  const Comparison result = compare(golden.build(), target.build());
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  EXPECT_EQ(result.rows[0].stats, nullptr);
  EXPECT_NE(result.rows[0].reasons[0].text.find("truncated"),
            std::string::npos);
}

TEST_F(Paths, NoiseOfTheReferenceReachesTheStandard) {
  write_npy("g.npy", {1, 2, 3});
  write_npy("n.npy", {1, 2, 3.001f});
  write_npy("t.npy", {1, 2, 3.001f});
  CompareOptions options;
  EXPECT_EQ(compare_paths(path("g.npy"), path("t.npy"), options).verdict,
            Verdict::kMismatch);
  options.noise = {path("n.npy")};
  EXPECT_EQ(compare_paths(path("g.npy"), path("t.npy"), options).verdict,
            Verdict::kMatch);
}

TEST_F(Paths, TheBaselineIsTheYardstickOfARatioStandard) {
  write_npy("g.npy", {1, 2, 3, 4});
  write_npy("t.npy", {1, 2, 3, 4.000001f});
  write_npy("b.npy", {1, 2, 3, 4.000001f});
  CompareOptions options;
  options.standard = Standard::load("ascend-commercial-l1");
  const Comparison without =
      compare_paths(path("g.npy"), path("t.npy"), options);
  EXPECT_NE(without.verdict, Verdict::kMatch);
  options.baseline = path("b.npy");
  const Comparison with = compare_paths(path("g.npy"), path("t.npy"), options);
  EXPECT_EQ(with.verdict, Verdict::kMatch);
  ASSERT_NE(with.rows[0].baseline, nullptr);
}

TEST_F(Paths, AMapRuleOfNoUseIsAWarning) {
  write_npy("g.npy", {1});
  write("m.yaml", "nothing.like: this");
  CompareOptions options;
  options.map_file = path("m.yaml");
  const Comparison result =
      compare_paths(path("g.npy"), path("g.npy"), options);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find("m.yaml:1: rule 'nothing.like: this'"),
            std::string::npos);
}

TEST_F(Paths, AWarningOfEveryStepIsGivenOnce) {
  std::string twice = dump(3);
  const std::size_t begin = twice.find("\"Torch"), end = twice.size() - 2;
  twice.insert(begin, twice.substr(begin, end - begin) + ",");
  for (const char* run : {"g", "t"}) {
    for (const char* step : {"/step0", "/step1"})
      write(run + std::string(step) + "/rank0/dump.json", twice);
  }
  const Comparison result = compare_paths(path("g"), path("t"), {});
  for (const std::string side : {"golden", "target"}) {
    EXPECT_EQ(std::count_if(result.warnings.begin(), result.warnings.end(),
                            [&](const std::string& warning) {
                              return warning.starts_with(
                                  side + ": 1 name occurs more than once");
                            }),
              1)
        << side;
  }
}

TEST(Resnet, ARealDumpMatchesItself) {
  const Comparison result =
      compare_paths(kResnet + "step0", kResnet + "step0", {});
  EXPECT_EQ(result.counts.mismatch, 0);
  EXPECT_EQ(result.counts.incomplete, 0);
  EXPECT_EQ(result.verdict, Verdict::kMatch);
  EXPECT_EQ(result.groups[0].ops.size(), 760u);
  std::int64_t statistics = 0;
  for (const Row& row : result.rows) {
    if (row.evidence == Evidence::kStatistics) ++statistics;
  }
  EXPECT_EQ(statistics, 2071);  // its tensors
}

TEST(Resnet, AnotherStepOfTheSameRunDoesNotMatch) {
  const Comparison result =
      compare_paths(kResnet + "step0", kResnet + "step1", {});
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
  EXPECT_GT(result.counts.mismatch, 1000);
  ASSERT_TRUE(result.first_divergence.has_value());
  // The optimizer moved the first convolution's weight, and the batch is new.
  EXPECT_EQ(result.first_divergence->kind, "parameter");
  EXPECT_EQ(result.first_divergence->name, "Module.conv1.Conv2d.forward.0");
}

}  // namespace
}  // namespace assay::test
