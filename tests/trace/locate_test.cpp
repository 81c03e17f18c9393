// Finding dumps in every directory layout people have.
#include "assay/formats/npy_writer.h"
#include "tests/trace/trace_test_util.h"

namespace assay {
namespace {

struct Found {
  std::string path;
  std::int64_t step, rank;
  bool operator==(const Found&) const = default;
};

void PrintTo(const Found& found, std::ostream* out) {
  *out << found.path << " step " << found.step << " rank " << found.rank;
}

std::vector<Found> locate(const TempDir& dir, const std::string& below = "") {
  std::vector<Found> result;
  for (const TraceLocation& location : locate_traces(dir.path() / below)) {
    result.push_back({location.path.lexically_relative(dir.path()).string(),
                      location.step, location.rank});
  }
  return result;
}

TEST(Locate, StepsAndRanksInNaturalOrder) {
  const TempDir dir;
  for (const char* name : {"step10/rank0", "step2/rank10", "step2/rank2",
                           "step2/rank0", "step0/rank"}) {
    dir.write(std::string(name) + "/dump.json", dump_text(""));
  }
  EXPECT_EQ(locate(dir), (std::vector<Found>{{"step0/rank", 0, 0},
                                             {"step2/rank0", 2, 0},
                                             {"step2/rank2", 2, 2},
                                             {"step2/rank10", 2, 10},
                                             {"step10/rank0", 10, 0}}));
  EXPECT_EQ(locate(dir, "step2").size(), 3u);
  EXPECT_EQ(locate(dir, "step2/rank10"),
            (std::vector<Found>{{"step2/rank10", 0, 10}}));
  EXPECT_EQ(locate(dir, "step2/rank10/dump.json").size(), 1u);
}

TEST(Locate, ProcessesPairByPosition) {
  const TempDir dir;
  dir.write("step0/proc907/dump.json", dump_text(""));
  dir.write("step0/proc20160/dump.json", dump_text(""));
  EXPECT_EQ(locate(dir), (std::vector<Found>{{"step0/proc907", 0, 0},
                                             {"step0/proc20160", 0, 1}}));
}

TEST(Locate, RanksWithoutStepsAndParentsOfRuns) {
  const TempDir dir;
  dir.write("run/rank1/dump.json", dump_text(""));
  dir.write("run/rank0/debug.json", dump_text(""));
  EXPECT_EQ(locate(dir),
            (std::vector<Found>{{"run/rank0", 0, 0}, {"run/rank1", 0, 1}}));
}

TEST(Locate, MixedGraphAndPynativeRunsAreBothFound) {
  const TempDir dir;
  dir.write("graph/step0/rank0/dump.json", dump_text(""));
  dir.write("pynative/step0/rank0/dump.json", dump_text(""));
  EXPECT_EQ(locate(dir), (std::vector<Found>{{"graph/step0/rank0", 0, 0},
                                             {"pynative/step0/rank0", 0, 0}}));
}

TEST(Locate, PtdbgDirectories) {
  const TempDir dir;
  const std::string row = R"(["x", 1, [], "torch.float32", [1], [1, 1, 1]])";
  dir.write("ptdbg_dump_v5.0/step1/rank0/api_stack_dump.pkl", row);
  dir.write("old/3/myDump.pkl", row);
  EXPECT_EQ(locate(dir, "ptdbg_dump_v5.0"),
            (std::vector<Found>{
                {"ptdbg_dump_v5.0/step1/rank0/api_stack_dump.pkl", 1, 0}}));
  EXPECT_EQ(locate(dir, "old"),
            (std::vector<Found>{{"old/3/myDump.pkl", 0, 3}}));
}

// A rank that crashed before it wrote anything must not go unnoticed.
TEST(Locate, EmptyStepsAndRanksAreFindings) {
  const TempDir dir;
  dir.write("step0/rank0/dump.json", dump_text(""));
  std::filesystem::create_directories(dir / "step0/rank1");
  std::filesystem::create_directories(dir / "step1");
  const auto found = locate(dir);
  EXPECT_EQ(found, (std::vector<Found>{{"step0/rank0", 0, 0},
                                       {"step0/rank1", 0, 1},
                                       {"step1", 1, 0}}));
  error_of(Code::kUnreadable,
           [&] { read_trace(locate_traces(dir.path()).at(1)); });
}

TEST(Locate, LinksAreNotFollowed) {
  const TempDir elsewhere;
  elsewhere.write("dump.json", dump_text(""));
  const TempDir dir;
  dir.write("step0/rank0/dump.json", dump_text(""));
  std::filesystem::create_directory_symlink(elsewhere.path(),
                                            dir / "step0/rank1");
  const auto locations = locate_traces(dir.path());
  ASSERT_EQ(locations.size(), 2u);
  EXPECT_NE(error_of(Code::kRefused, [&] { read_trace(locations[1]); })
                .find("symbolic link"),
            std::string::npos);
}

TEST(Locate, AbsentPathsAreUnreadable) {
  const TempDir dir;
  EXPECT_NE(error_of(Code::kUnreadable,
                     [&] { locate_traces(dir.path() / "nothing"); })
                .find("no such file"),
            std::string::npos);
}

TEST(Locate, DirectoriesWithNothingToReadAreUnreadable) {
  const TempDir dir;
  dir.write("readme.txt", "x");
  const auto locations = locate_traces(dir.path());
  ASSERT_EQ(locations.size(), 1u);
  error_of(Code::kUnreadable, [&] { read_trace(locations[0]); });
}

void write_values(const std::filesystem::path& path,
                  const std::vector<float>& values) {
  std::filesystem::create_directories(path.parent_path());
  write_npy(path, f32_tensor({std::ssize(values)}, values).view);
}

// Files beside what was found are a trace of their own, and come last.
TEST(Locate, LooseFilesBesideDumpsAreTraces) {
  const TempDir dir;
  dir.write("step0/rank0/dump.json", dump_text(""));
  dir.write("README.md", "x");
  dir.write("step0/notes.txt", "x");
  write_values(dir / "loose.npy", {5});
  std::filesystem::create_directory_symlink("/usr", dir / "other");
  write_values(dir / "step0/more.npy", {1});
  write_values(dir / "extra/sub/a.npy", {7});
  dir.write("plots/a.png", "x");
  EXPECT_EQ(locate(dir), (std::vector<Found>{{"step0/rank0", 0, 0},
                                             {"step0", 0, 0},
                                             {"extra", 0, 0},
                                             {".", 0, 0}}));
  const auto locations = locate_traces(dir.path());
  EXPECT_TRUE(locations[3].numbered);
  const Trace loose = read_trace(locations[3]);
  EXPECT_EQ(names(loose), (std::vector<std::string>{"loose", "other"}));
  EXPECT_EQ(f32_values(loose.loader->load(loose.records[0])),
            std::vector<float>{5});
  EXPECT_NE(loose.records[1].unreadable.find("symbolic link"),
            std::string::npos);
  EXPECT_EQ(names(read_trace(locations[1])), std::vector<std::string>{"more"});
  EXPECT_EQ(names(read_trace(locations[2])), std::vector<std::string>{"sub/a"});
}

TEST(Locate, LooseFilesBesidePlainStepsAreTraces) {
  const TempDir dir;
  write_values(dir / "step0/rank0/w.npy", {1});
  write_values(dir / "loose.npy", {2});
  EXPECT_EQ(locate(dir),
            (std::vector<Found>{{"step0/rank0", 0, 0}, {".", 0, 0}}));
}

TEST(Locate, FilesBesideAShardedCheckpointAreATrace) {
  const TempDir dir;
  dir.write("model.safetensors.index.json",
            R"({"weight_map": {"w": "a.safetensors"}})");
  dir.write("a.safetensors", "x");
  EXPECT_EQ(locate(dir).size(), 1u);
  write_values(dir / "b.npy", {2});
  const auto locations = locate_traces(dir.path());
  ASSERT_EQ(locations.size(), 2u);
  EXPECT_EQ(names(read_trace(locations[1])), std::vector<std::string>{"b"});
}

TEST(Locate, PtdbgDumpsHaveNoLooseFiles) {
  const TempDir dir;
  dir.write("rank0/dump.pkl",
            R"(["x", 1, [], "torch.float32", [1], [1, 1, 1]])");
  write_values(dir / "rank0/dump/x.npy", {1});
  EXPECT_EQ(locate(dir).size(), 1u);
  dir.write("rank0/other.pkl", std::string_view("\x80\x02.", 3));
  const auto locations = locate_traces(dir.path());
  ASSERT_EQ(locations.size(), 2u);
  EXPECT_FALSE(read_trace(locations[1]).records.at(0).unreadable.empty());
}

// Only its own rows are incomplete.
TEST(Locate, DirectoriesThatCannotBeListedAreFindings) {
  const TempDir dir;
  dir.write("step0/rank0/dump.json", dump_text(""));
  dir.write("step0/rank1/dump.json", dump_text(""));
  const WithoutAccess closed(dir, "step0/rank1");
  const auto locations = locate_traces(dir.path());
  ASSERT_EQ(locations.size(), 2u);
  EXPECT_EQ(locations[1].rank, 1);
  EXPECT_TRUE(read_trace(locations[0]).records.empty());
  error_of(Code::kUnreadable, [&] { read_trace(locations[1]); });
}

TEST(Locate, UnnamedDirectoriesThatCannotBeListedAreFindings) {
  const TempDir dir;
  dir.write("step0/rank0/dump.json", dump_text(""));
  dir.write("extra/a.npy", "x");
  const WithoutAccess closed(dir, "extra");
  const auto locations = locate_traces(dir.path());
  ASSERT_EQ(locations.size(), 2u);
  error_of(Code::kUnreadable, [&] { read_trace(locations[1]); });
}

}  // namespace
}  // namespace assay
