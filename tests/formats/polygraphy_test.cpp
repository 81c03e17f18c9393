#include "assay/formats/polygraphy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "assay/formats/base64.h"
#include "interchange_helpers.h"

namespace assay {
namespace {

using namespace interchange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<TensorSource> open(FileBytes file) {
  return open_polygraphy(std::move(file), {});
}

std::unique_ptr<TensorSource> open_fixture(const std::string& name) {
  return open(in_memory(read_file(fixture("polygraphy/" + name))));
}

Refusal refusal(const std::string& text) {
  return refusal_of([&] { open(in_memory(text)); });
}

template <typename T>
std::vector<T> values(const TensorSource& source, std::size_t index) {
  const std::string bytes = bytes_of(source.load(index));
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// Base64 of numpy.save(float32 array [0..5] of shape (2, 3)).
std::string bare_payload() {
  const std::string file = read_file(fixture("polygraphy/bare.json"));
  const std::size_t begin = file.find("\"array\": \"") + 10;
  return file.substr(begin, file.find('"', begin) - begin);
}

TEST(Polygraphy, RunResultsAreNamedByRunnerIterationAndOutput) {
  const auto source = open_fixture("outputs.json");
  ASSERT_EQ(source->tensors().size(), 5u);
  const std::string runner = "onnxrt-runner-N0-08/06/26-12:00:00";
  EXPECT_EQ(source->tensors()[0].name, runner + "/0/logits");
  EXPECT_EQ(source->tensors()[1].name, runner + "/0/ids");
  EXPECT_EQ(source->tensors()[3].name, runner + "/1/ids");
  EXPECT_EQ(source->tensors()[4].name, "trt-runner/0/logits");
  EXPECT_EQ(source->tensors()[0].shape, (Shape{1, 2}));
  EXPECT_THAT(values<float>(*source, 0), ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(values<float>(*source, 4), ElementsAre(1.5f, -2.25f));
}

TEST(Polygraphy, F69_IntegersKeepAll32Bits) {
  const auto source = open_fixture("outputs.json");
  EXPECT_EQ(source->tensors()[1].dtype, DType::kI32);
  EXPECT_THAT(values<std::int32_t>(*source, 1), ElementsAre(2147483647));
  EXPECT_THAT(values<std::int32_t>(*source, 3), ElementsAre(-1));
}

TEST(Polygraphy, InputListsAndBareArrays) {
  const auto inputs = open_fixture("inputs.json");
  ASSERT_EQ(inputs->tensors().size(), 4u);
  EXPECT_EQ(inputs->tensors()[0].name, "0/x");
  EXPECT_EQ(inputs->tensors()[3].name, "1/half");
  EXPECT_EQ(inputs->tensors()[1].shape, Shape{});
  EXPECT_EQ(inputs->tensors()[2].shape, (Shape{0, 3}));
  EXPECT_THAT(values<float>(*inputs, 0), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values<std::uint16_t>(*inputs, 3), ElementsAre(0x4100));
  const auto bare = open_fixture("bare.json");
  EXPECT_EQ(bare->tensors()[0].name, "");
  EXPECT_THAT(values<float>(*bare, 0), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Polygraphy, LegacyTextAndArchives) {
  const auto source = open_fixture("legacy.json");
  ASSERT_EQ(source->tensors().size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(source->tensors()[i].shape, (Shape{2, 3}));
    EXPECT_THAT(values<float>(*source, i), ElementsAre(0, 1, 2, 3, 4, 5));
  }
}

TEST(Polygraphy, TorchTensorsAreReadWithoutExecuting) {
  const auto source = open_fixture("torch.json");
  ASSERT_EQ(source->tensors().size(), 1u);
  EXPECT_EQ(source->tensors()[0].name, "0/t");
  EXPECT_EQ(source->tensors()[0].dtype, DType::kBF16);
  EXPECT_THAT(values<std::uint16_t>(*source, 0), ElementsAre(0x3f80, 0x4000));
}

TEST(Polygraphy, ValuesThatAreNoArraysAreRows) {
  const auto source =
      open(in_memory(R"([{"a":1,"b":{"shape":[1]},"c":{"array":")" +
                     bare_payload() + R"("},"d":null,"e":NaN}])"));
  ASSERT_EQ(source->tensors().size(), 5u);
  EXPECT_THAT(source->tensors()[0].unsupported, HasSubstr("no array"));
  EXPECT_THAT(source->tensors()[1].unsupported,
              HasSubstr("object without an array"));
  EXPECT_EQ(source->tensors()[2].unsupported, "");
  EXPECT_NE(source->tensors()[3].unsupported, "");
  EXPECT_EQ(refusal_of([&] { source->load(0); }).code, Code::kUnsupported);
}

TEST(Polygraphy, DuplicateNamesAreRefused) {
  const std::string array = "{\"array\":\"" + bare_payload() + "\"}";
  EXPECT_THAT(refusal("[{\"x\":" + array + ",\"x\":" + array + "}]").text,
              HasSubstr("duplicate key \"x\""));
  const std::string run =
      "[\"r\",[{\"outputs\":{\"x\":{\"values\":" + array + "}}}]]";
  EXPECT_EQ(refusal("{\"lst\":[" + run + "]}").text, "");
  EXPECT_THAT(refusal("{\"lst\":[" + run + "," + run + "]}").text,
              HasSubstr("a second array named \"r/0/x\""));
}

TEST(Polygraphy, MalformedFilesAreRefused) {
  const std::string array = "{\"array\":\"" + bare_payload() + "\"}";
  const std::pair<std::string, const char*> bad[] = {
      {R"([{"x":{"array":"AAA"}}])", "multiple of 4"},
      {R"([{"x":{"array":"A$AA"}}])", "no base64"},
      {R"([{"x":{"array":"AAAA"}}])", "memory: \"0/x\""},
      {R"([{"x":{"tensor":"AAAA"}}])", "memory: \"0/x\""},
      {"[{\"x\":{\"array\":\"AAAA\",\"tensor\":\"AAAA\"}}]", "one array"},
      {R"({"lst":[["r"]]})", "[runner, iterations]"},
      {R"({"lst":[["r",[{"runtime":1}]]]})", "\"outputs\""},
      {R"({"lst":[["r",[],3]]})", "']' after"},
      {"[{\"x\":" + array + "}] x", "nothing after"},
      {"[{\"x\":" + array + "},]", "a JSON value"},
      {"[1]", "'{'"},
  };
  for (const auto& [text, expected] : bad) {
    const Refusal r = refusal(text);
    EXPECT_EQ(r.code, Code::kRefused) << text;
    EXPECT_THAT(r.text, HasSubstr(expected)) << text;
  }
}

TEST(Polygraphy, DeepNestingIsCapped) {
  for (const std::string prefix :
       {"[{\"x\":", "{\"lst\":", "[{\"x\":{\"y\":"}) {
    EXPECT_EQ(refusal(prefix + std::string(100000, '[')).code, Code::kRefused);
  }
  EXPECT_THAT(refusal("[{\"x\":" + std::string(100000, '[')).text,
              HasSubstr("nested deeper"));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"values\":";
  EXPECT_THAT(refusal("[{\"x\":" + objects).text, HasSubstr("nested deeper"));
}

TEST(Polygraphy, PrefixesAndFlippedBits) {
  std::string file = read_file(fixture("polygraphy/bare.json"));
  file.resize(file.find_last_of('}') + 1);
  expect_prefixes_refused(file, open);
  EXPECT_GT(flip_every_bit(file, file.size(), open), 0);
}

TEST(Polygraphy, Base64AgainstRfc4648) {
  // The test vectors of RFC 4648, section 10.
  const std::pair<const char*, const char*> vectors[] = {
      {"", ""},
      {"Zg==", "f"},
      {"Zm8=", "fo"},
      {"Zm9v", "foo"},
      {"Zm9vYg==", "foob"},
      {"Zm9vYmE=", "fooba"},
      {"Zm9vYmFy", "foobar"}};
  for (const auto& [text, want] : vectors) {
    EXPECT_EQ(as_text(base64_decode(text, "f", 0)), want);
  }
  for (const char* bad : {"=", "====", "A===", "Zg=g", "Zm8=Zm8=", "Zm9-"}) {
    EXPECT_EQ(refusal_of([&] { base64_decode(bad, "f", 0); }).code,
              Code::kRefused)
        << bad;
  }
}

}  // namespace
}  // namespace assay
