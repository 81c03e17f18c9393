#include "assay/formats/safetensors_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "interchange_helpers.h"

namespace assay {
namespace {

using namespace interchange;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::string_view kFirst = "model-00001-of-00002.safetensors";
constexpr std::string_view kSecond = "model-00002-of-00002.safetensors";

std::unique_ptr<TensorSource> open_index(const fs::path& path) {
  return open_safetensors_index(FileBytes::of(MappedFile::open(path)));
}

// A copy of the fixture's shards with another weight_map.
class Sharded {
 public:
  explicit Sharded(std::string_view weight_map) {
    for (const std::string_view name : {kFirst, kSecond}) {
      fs::copy_file(fixture("safetensors/sharded") / name,
                    scratch_.path() / name);
    }
    path_ = write_in(scratch_, "model.safetensors.index.json",
                     "{\"weight_map\":" + std::string(weight_map) + "}");
  }
  Refusal refusal() const {
    return refusal_of([&] { open_index(path_); });
  }
  const Scratch& scratch() const { return scratch_; }
  const fs::path& path() const { return path_; }

 private:
  Scratch scratch_;
  fs::path path_;
};

TEST(SafetensorsIndex, ReadsAllShardsAsOne) {
  const auto source =
      open_index(fixture("safetensors/sharded/model.safetensors.index.json"));
  ASSERT_EQ(source->tensors().size(), 4u);
  EXPECT_EQ(source->tensors()[0].name, "layer.0.bias");
  EXPECT_EQ(source->tensors()[3].name, "layer.1.weight");
  EXPECT_EQ(source->tensors()[3].shape, (Shape{2, 2}));
  EXPECT_EQ(bytes_of(source->load(3)).substr(0, 3), "\x05\x2a\x4f");
}

TEST(SafetensorsIndex, ListedTensorsMustBeWhereTheIndexSays) {
  EXPECT_THAT(
      Sharded(R"({"gone":"model-00001-of-00002.safetensors"})").refusal().text,
      HasSubstr("\"gone\" is not in shard"));
  EXPECT_THAT(Sharded(R"({"layer.0.bias":"model-00001-of-00002.safetensors",)"
                      R"("layer.0.weight":"model-00002-of-00002.safetensors"})")
                  .refusal()
                  .text,
              HasSubstr("\"layer.0.weight\" is not in shard"));
}

TEST(SafetensorsIndex, TensorsTheIndexForgetsAreKept) {
  const Sharded sharded(
      R"({"layer.0.bias":"model-00001-of-00002.safetensors"})");
  const auto source = open_index(sharded.path());
  EXPECT_EQ(source->tensors().size(), 2u);
  ASSERT_EQ(source->notes().size(), 1u);
  EXPECT_THAT(source->notes()[0], HasSubstr("1 tensors"));
}

TEST(SafetensorsIndex, F76_ShardNamesThatLeaveTheFolderAreRefused) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "..", "a/b", "",
                           ".", "C:x", "a\\\\b"}) {
    const Refusal r =
        Sharded("{\"a\":\"" + std::string(name) + "\"}").refusal();
    EXPECT_EQ(r.code, Code::kRefused) << name;
    EXPECT_THAT(r.text, HasSubstr("plain file name")) << name;
  }
}

TEST(SafetensorsIndex, F76_LinkedShardsAreRefused) {
  const Sharded sharded(R"({"layer.0.bias":"link.safetensors"})");
  fs::create_symlink(sharded.scratch().path() / kFirst,
                     sharded.scratch().path() / "link.safetensors");
  EXPECT_THAT(sharded.refusal().text, HasSubstr("symbolic link"));
}

TEST(SafetensorsIndex, OneNameInTwoShardsIsRefused) {
  const Sharded sharded(R"({"layer.0.bias":"model-00001-of-00002.safetensors",)"
                        R"("layer.0.weight":"copy.safetensors"})");
  fs::copy_file(sharded.scratch().path() / kFirst,
                sharded.scratch().path() / "copy.safetensors");
  EXPECT_THAT(sharded.refusal().text, HasSubstr("in another shard too"));
}

TEST(SafetensorsIndex, AbsentShardAndMalformedIndex) {
  EXPECT_EQ(Sharded(R"({"a":"gone.safetensors"})").refusal().code,
            Code::kUnreadable);
  EXPECT_THAT(Sharded(R"({"a":"x","a":"x"})").refusal().text,
              HasSubstr("duplicate key"));
  EXPECT_THAT(Sharded(R"({"a":1})").refusal().text,
              HasSubstr("expected a string"));
  EXPECT_THAT(Sharded("{},\"weight_map\":{}").refusal().text,
              HasSubstr("duplicate key"));
}

}  // namespace
}  // namespace assay
