// The golden store and its packs: what is read is what was written, or the
// object is named.
#include "assay/conform/store.h"

#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <thread>

#include "assay/base/error.h"
#include "assay/conform/pack.h"
#include "run_fixture.h"

namespace assay::conform {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream out(file, std::ios::binary);
  out << bytes;
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Code::kRefused ||
                error.code() == Code::kUnreadable)
        << error.what();
    return error.what();
  }
  return "not refused";
}

class StoreTest : public RunTest {
 protected:
  std::vector<Case> cases() const {
    return make_cases(options_.specs[0], Tier::kSmall);
  }
  Manifest manifest(const Case& c) const {
    return Goldens(path("goldens")).find(c).value();
  }
  std::filesystem::path object(const ObjectRef& ref) const {
    return path("goldens") / object_file(ref.hash);
  }
};

TEST_F(StoreTest, GivesBackWhatWasCollected) {
  ASSERT_EQ(collect_with().made, 3);
  const Goldens goldens(path("goldens"));
  for (const Case& c : cases()) {
    const Manifest m = manifest(c);
    EXPECT_EQ(m.subject.parameters, c.parameters);
    EXPECT_EQ(m.subject.seed, c.seed);
    EXPECT_EQ(m.implementation, "copy");
    EXPECT_EQ(m.spec, to_hex(options_.specs[0].hash));
    EXPECT_TRUE(m.repeats);
    // The copy is the same object as the input.
    EXPECT_EQ(m.outputs.at(0), m.inputs);
    const TensorMap inputs = make_inputs(options_.specs[0], c);
    const Outcome outcome = goldens.outcome(m);
    const Tensor& x = outcome.outputs.at(0).at("x");
    EXPECT_EQ(x.shape(), inputs.at("x").shape());
    EXPECT_TRUE(
        std::ranges::equal(x.view.bytes(), inputs.at("x").view.bytes()));
  }
}

TEST_F(StoreTest, NamesAnObjectThatWasChanged) {
  collect_with();
  const Case c = cases()[1];
  const ObjectRef ref = manifest(c).outputs.at(0);
  std::string bytes = read(object(ref));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write(object(ref), bytes);
  const std::string message =
      refusal([&] { Goldens(path("goldens")).outcome(manifest(c)); });
  EXPECT_THAT(message, AllOf(HasSubstr(ref.hash), HasSubstr("was changed")));
  // It costs its case, and collecting again repairs it.
  const RunResult broken = run_with();
  EXPECT_EQ(tally(broken).match, 2);
  EXPECT_EQ(tally(broken).incomplete, 1);
  options_.resume = true;
  const Collected again = collect_with();
  EXPECT_EQ(again.made, 1);
  EXPECT_EQ(again.kept, 2);
  options_.resume = false;
  EXPECT_EQ(run_with().verdict, Verdict::kMatch);
}

TEST_F(StoreTest, NamesAnObjectThatIsMissingOrCut) {
  collect_with();
  const Case c = cases()[0];
  const ObjectRef ref = manifest(c).outputs.at(0);
  const std::string bytes = read(object(ref));
  write(object(ref), bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(refusal([&] { Goldens(path("goldens")).outcome(manifest(c)); }),
              AllOf(HasSubstr(ref.hash), HasSubstr("its manifest says")));
  std::filesystem::remove(object(ref));
  EXPECT_THAT(refusal([&] { Goldens(path("goldens")).outcome(manifest(c)); }),
              HasSubstr(ref.hash));
}

// One byte at every place of a manifest: never another golden.
TEST_F(StoreTest, RefusesAManifestThatWasChanged) {
  collect_with();
  const Manifest m = manifest(cases()[0]);
  const std::string text = format_manifest(m);
  EXPECT_EQ(format_manifest(parse_manifest(text, "m")), text);
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    try {
      const std::string found = format_manifest(parse_manifest(changed, "m"));
      EXPECT_EQ(found, text) << "byte " << i;  // white space
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kRefused) << error.what();
    }
  }
  for (std::size_t i = 0; i + 1 < text.size(); ++i)
    EXPECT_THROW(parse_manifest(text.substr(0, i), "m"), Error);
}

TEST_F(StoreTest, RefusesFoldersThatAreNoStores) {
  EXPECT_THAT(refusal([&] { Goldens{path("none")}; }), HasSubstr("no golden"));
  std::filesystem::create_directories(path("thesis"));
  EXPECT_THAT(refusal([&] { Goldens{path("thesis")}; }),
              HasSubstr("store.json"));
  write(path("thesis") / "chapter1.tex", "x");
  EXPECT_THAT(refusal([&] { GoldenWriter{path("thesis")}; }),
              HasSubstr("chapter1.tex"));
}

TEST_F(StoreTest, TwoCollectsAtOnceMakeOneStore) {
  std::vector<std::string> failures(2);
  {
    std::vector<std::jthread> threads;
    for (std::string& failure : failures)
      threads.emplace_back([&] {
        try {
          collect_with();
        } catch (const std::exception& error) {
          failure = error.what();
        }
      });
  }
  EXPECT_EQ(failures[0] + failures[1], "");
  const Goldens goldens(path("goldens"));
  for (const Case& c : cases())
    EXPECT_TRUE(goldens.complete(goldens.find(c).value()));
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(path("goldens"))) {
    const std::string name = entry.path().filename().string();
    EXPECT_FALSE(name.ends_with(".tmp")) << name;
    EXPECT_FALSE(name.starts_with("scratch-")) << name;
  }
}

TEST(StoreNames, NothingLeavesTheFolder) {
  const std::string hash(32, 'a');
  EXPECT_TRUE(is_store_name("store.json"));
  EXPECT_TRUE(is_store_name("cases/linear/small-3f09a1c2.json"));
  EXPECT_TRUE(is_store_name("objects/aa/" + hash + ".safetensors"));
  for (const std::string bad :
       {std::string("../store.json"), std::string("/etc/passwd"),
        std::string("cases/../x.json"), std::string("cases/a/b/c.json"),
        std::string("cases/a/.json"), std::string("cases/a/.x.json"),
        std::string("cases//x.json"), std::string("cases/a/x\0y.json", 16),
        "objects/ab/" + hash + ".safetensors", "objects/aa/" + hash,
        "objects/aa/../aa/" + hash + ".safetensors",
        "objects/AA/" + std::string(32, 'A') + ".safetensors",
        std::string("logs/x.log"), std::string("")})
    EXPECT_FALSE(is_store_name(bad)) << bad;
}

class PackTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    collect_with();
    pack(path("goldens"), path("pack"));
  }
};

TEST_F(PackTest, ComesBackByteForByte) {
  const PackSummary summary = unpack(path("pack"), path("unpacked"));
  EXPECT_EQ(summary.cases, 3);
  EXPECT_EQ(summary.objects, 3);
  const auto before = open_folder(path("goldens"));
  const auto after = open_folder(path("unpacked"));
  ASSERT_EQ(before->names(), after->names());
  for (const std::string& name : before->names())
    EXPECT_EQ(read(path("goldens") / name), read(path("unpacked") / name));
  pack(path("unpacked"), path("again"));
  EXPECT_EQ(read(path("pack")), read(path("again")));
}

TEST_F(PackTest, IsAStoreAsItIs) {
  const RunResult result =
      run(options_, worker(), {path("pack"), path("run"), ""});
  EXPECT_EQ(result.verdict, Verdict::kMatch);
  EXPECT_EQ(tally(result).match, 3);
}

// Reads everything that a pack holds; what a damaged one cannot do.
std::string damage(const std::string& bytes) {
  return refusal([&] {
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    const auto files = open_pack(FileBytes{{data, bytes.size()}, {}, "p", {}});
    for (const std::string& name : files->names()) files->read(name);
  });
}

TEST_F(PackTest, RefusesAChangeOfAnyByte) {
  const std::string whole = read(path("pack"));
  EXPECT_EQ(damage(whole), "not refused");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    EXPECT_NE(damage(changed), "not refused") << "byte " << i;
  }
}

TEST_F(PackTest, RefusesToBeCutOrLengthened) {
  const std::string whole = read(path("pack"));
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_NE(damage(whole.substr(0, i)), "not refused") << "byte " << i;
  EXPECT_THAT(damage(whole + '\0'), HasSubstr("the end"));
}

TEST_F(PackTest, NamesTheEntryThatWasChanged) {
  std::string bytes = read(path("pack"));
  const std::size_t at = bytes.find("\"subject\"");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] = 'S';
  EXPECT_THAT(damage(bytes),
              AllOf(HasSubstr("p: cases/copy/"), HasSubstr("was changed")));
  write(path("bad"), bytes);
  EXPECT_THAT(refusal([&] { unpack(path("bad"), path("out")); }),
              HasSubstr("cases/copy/"));
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(PackTest, IsNotWrittenOfABrokenStore) {
  const ObjectRef ref = manifest(cases()[2]).inputs;
  write(object(ref), "short");
  EXPECT_THAT(refusal([&] { pack(path("goldens"), path("other")); }),
              HasSubstr(ref.hash));
  EXPECT_FALSE(std::filesystem::exists(path("other")));
}

}  // namespace
}  // namespace assay::conform
