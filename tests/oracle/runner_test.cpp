// What was not compared is not a match: every way in which a folder and its
// index can disagree with each other, or with what a handler knows, fails.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "assay/base/error.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const char* const kFile = "norm_rmsnorm_f32.npz";

// The entries of the project's index.
json vectors() {
  std::ifstream in(fs::path(ORACLE_VECTORS) / "INDEX.json");
  return json::parse(in).at("files");
}

json entry_of(const std::string& file) {
  for (const json& entry : vectors())
    if (entry["file"] == file) return entry;
  ADD_FAILURE() << file;
  return {};
}

json index_of(const json& entry) {
  return {{"files", json::array({entry})}, {"count", 1}};
}

// Vectors of the project's own folder with an index of the test's.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "oracle_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error(name);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void add(const std::string& file, const std::string& as) const {
    fs::copy_file(fs::path(ORACLE_VECTORS) / file, path_ / as);
  }
  std::vector<Outcome> run(const std::string& index,
                           std::string_view only = "*") const {
    std::ofstream(path_ / "INDEX.json") << index;
    return run_folder(path_, only);
  }
  // The failures of the only file.
  std::vector<std::string> failures(const json& entry) const {
    const auto outcomes =
        run(index_of(entry).dump(), entry["file"].get<std::string>());
    EXPECT_EQ(outcomes.size(), 1u);
    return outcomes.at(0).failures;
  }

 private:
  fs::path path_;
};

class Runner : public ::testing::Test {
 protected:
  Runner() { folder_.add(kFile, kFile); }

  // The one failure of the entry as `change` leaves it.
  template <typename Change>
  std::string failure(Change change) {
    json entry = entry_of(kFile);
    change(entry);
    const auto failures = folder_.failures(entry);
    EXPECT_LE(failures.size(), 1u) << json(failures);
    return failures.empty() ? "" : failures[0];
  }

  std::string refusal(const std::string& index) {
    try {
      folder_.run(index);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kRefused);
      const std::string line = error.what();
      EXPECT_EQ(line.find('\n'), std::string::npos);
      return line.substr(line.find("INDEX.json"));
    }
    return "accepted";
  }

  Folder folder_;
};

TEST_F(Runner, TheVectorItselfPasses) {
  EXPECT_EQ(failure([](json&) {}), "");
}

TEST_F(Runner, ArraysOfFileAndIndexAreTheSame) {
  EXPECT_EQ(failure([](json& e) { e["arrays"].erase("dx"); }),
            "array dx: in the file, not in the index");
  EXPECT_EQ(failure([](json& e) { e["arrays"]["dy"] = e["arrays"]["dx"]; }),
            "array dy: in the index, not in the file");
}

TEST_F(Runner, DtypeAndShapeOfTheIndexHold) {
  EXPECT_EQ(failure([](json& e) { e["arrays"]["x"]["dtype"] = "float64"; }),
            "array x: dtype float64 in the index, float32 in the file");
  EXPECT_EQ(failure([](json& e) { e["arrays"]["x"]["dtype"] = "real"; }),
            "array x: dtype real in the index, float32 in the file");
  EXPECT_EQ(failure([](json& e) {
              e["arrays"]["x"]["shape"] = {88, 12};
            }),
            "array x: shape [88, 12] in the index, [12, 88] in the file");
}

TEST_F(Runner, EveryArraySaysHowItIsMet) {
  EXPECT_EQ(failure([](json& e) { e["arrays"]["dx"].erase("expect"); }),
            "array dx: no \"expect\" in the index");
  EXPECT_EQ(failure([](json& e) { e["arrays"]["dx"]["expect"] = "close"; }),
            "array dx: \"expect\" is \"close\", which is no known wording");
  EXPECT_EQ(failure([](json& e) { e["arrays"]["dx"]["expect"] = "input"; }),
            "array dx: an input that the handler never read");
}

TEST_F(Runner, ParametersAreKnown) {
  EXPECT_EQ(failure([](json& e) { e["params"]["norm"] = "rmsnorm"; }),
            std::string(kFile) +
                ": parameter \"norm\" is \"rmsnorm\", expected one of "
                "\"LayerNorm\", \"RMSNorm\"");
  EXPECT_EQ(failure([](json& e) { e["params"]["espilon"] = 1; }),
            "parameter espilon: the handler does not know it");
  EXPECT_EQ(failure([](json& e) { e["params"]["H"] = 12; }),
            std::string(kFile) + ": parameter \"H\" is 12, expected 88.0");
  EXPECT_EQ(failure([](json& e) { e["params"]["input"] = "bf16 bits"; }),
            std::string(kFile) +
                ": array \"x\" is float32, parameter \"input\" is \"bf16 "
                "bits\"");
}

TEST_F(Runner, FilesWithoutAHandlerNameThePrefixes) {
  const auto outcomes =
      folder_.run(R"({"files": [{"file": "nrom_x.npz", "params": {},
                     "arrays": {}}]})",
                  "nrom_x");
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].failures[0].find(
                "no handler for this file; known prefixes: act_ act_fp8_ "),
            0u);
}

TEST_F(Runner, EveryPrefixIsDocumented) {
  std::ifstream in(ORACLE_DOCUMENT);
  std::ostringstream text;
  text << in.rdbuf();
  const auto outcomes = folder_.run(
      R"({"files": [{"file": "?", "params": {}, "arrays": {}}]})", "?");
  const std::string& line = outcomes.at(0).failures.at(0);
  std::istringstream prefixes(line.substr(line.find(':') + 1));
  int count = 0;
  for (std::string prefix; prefixes >> prefix; ++count)
    EXPECT_NE(text.str().find("`" + prefix + "`"), std::string::npos) << prefix;
  EXPECT_GE(count, 42);
}

TEST_F(Runner, FilesOutsideTheIndexFail) {
  folder_.add(kFile, "norm_mine.npz");
  const std::string index = index_of(entry_of(kFile)).dump();
  const auto outcomes = folder_.run(index);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_TRUE(outcomes[0].failures.empty());
  EXPECT_EQ(outcomes[1].file, "norm_mine.npz");
  EXPECT_EQ(outcomes[1].failures[0], "in the folder, not in the index");
  EXPECT_EQ(folder_.run(index, "norm_rms*").size(), 1u);
}

TEST_F(Runner, OnlyTakesNamesWithAndWithoutExtension) {
  const std::string index = index_of(entry_of(kFile)).dump();
  EXPECT_EQ(folder_.run(index, "norm_rmsnorm_f32").size(), 1u);
  EXPECT_EQ(folder_.run(index, kFile).size(), 1u);
  EXPECT_EQ(folder_.run(index, "norm_rmsnorm").size(), 0u);
}

TEST_F(Runner, FilesAreListedOnceAndCounted) {
  json index = index_of(entry_of(kFile));
  index["files"].push_back(index["files"][0]);
  const auto outcomes = folder_.run(index.dump());
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_TRUE(outcomes[0].failures.empty());
  EXPECT_EQ(outcomes[1].failures[0], "listed twice in the index");
  EXPECT_EQ(outcomes[2].file, "INDEX.json");
  EXPECT_EQ(outcomes[2].failures[0], "\"count\" is 1, its list has 2");
}

TEST_F(Runner, MalformedIndexesAreRefusedInOneLine) {
  EXPECT_EQ(refusal("{"), "INDEX.json: not JSON");
  EXPECT_EQ(refusal(R"({"files": [{"file": "a", "params": {"eps": 1, "eps": 2},
                     "arrays": {}}]})"),
            "INDEX.json: \"eps\" twice in one object");
  EXPECT_EQ(refusal("[]"),
            "INDEX.json: expected an object with a list \"files\"");
  EXPECT_EQ(refusal(R"({"files": [], "count": "0"})"),
            "INDEX.json: \"count\" is not a whole number");
  EXPECT_EQ(refusal(R"({"files": [1]})"),
            "INDEX.json: files[0]: not an object");
  EXPECT_EQ(refusal(R"({"files": [{}]})"), "INDEX.json: files[0]: no \"file\"");
  EXPECT_EQ(refusal(R"({"files": [{"file": 1}]})"),
            "INDEX.json: files[0]: \"file\" is not text");
  EXPECT_EQ(refusal(R"({"files": [{"file": "../a.npz"}]})"),
            "INDEX.json: files[0]: \"file\" is \"../a.npz\", expected a file "
            "of the folder, not a path");
  EXPECT_EQ(refusal(R"({"files": [{"file": "a.npz"}]})"),
            "INDEX.json: files[0] (a.npz): no \"params\"");
  EXPECT_EQ(refusal(R"({"files": [{"file": "a.npz", "params": {},
                     "arrays": []}]})"),
            "INDEX.json: files[0] (a.npz): \"arrays\" is not an object");
  EXPECT_EQ(refusal(R"({"files": [{"file": "a.npz", "params": {},
                     "arrays": {"x": {"shape": [-1]}}}]})"),
            "INDEX.json: files[0] (a.npz) array x: \"shape\" is not a list of "
            "dimensions");
}

// No parameter of any vector can be misspelt or say something else unnoticed,
// but those that are remarks.
TEST(Vectors, EveryParameterIsRead) {
  const std::set<std::string> remarks = {
      "current_ data", "gemm_block128_ exact_partials",
      "gemm_block128_ pow2_scales", "moe_permute_index_ experts"};
  const auto is_remark = [&](const std::string& file, const std::string& name) {
    for (const auto& remark : remarks) {
      const auto space = remark.find(' ');
      if (file.compare(0, space, remark, 0, space) == 0 &&
          remark.substr(space + 1) == name)
        return true;
    }
    return false;
  };
  const Folder folder;
  for (const json& entry : vectors()) {
    const auto file = entry["file"].get<std::string>();
    folder.add(file, file);
    json changed = entry;
    changed["params"]["?"] = 1;
    EXPECT_FALSE(folder.failures(changed).empty()) << file;
    for (const auto& [name, value] : entry["params"].items()) {
      changed = entry;
      changed["params"][name] = "?";
      EXPECT_EQ(folder.failures(changed).empty(), is_remark(file, name))
          << file << " " << name;
    }
  }
}

// Each array of each vector is needed: an index without it fails.
TEST(Vectors, EveryArrayIsListed) {
  const Folder folder;
  for (const json& entry : vectors()) {
    const auto file = entry["file"].get<std::string>();
    folder.add(file, file);
    for (const auto& [name, facts] : entry["arrays"].items()) {
      json changed = entry;
      changed["arrays"].erase(name);
      EXPECT_FALSE(folder.failures(changed).empty()) << file << " " << name;
    }
  }
}

}  // namespace
}  // namespace assay::oracle
