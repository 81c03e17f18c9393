#include "assay/formats/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "interchange_helpers.h"

namespace assay {
namespace {

using namespace interchange;
using ::testing::HasSubstr;

std::string format_as(const std::string& from, const std::string& name) {
  const Scratch scratch;
  const auto path = write_in(scratch, name, read_file(fixture(from)));
  return std::string(open_tensors(path)->format());
}

Refusal refusal(const std::string& name, std::string_view bytes,
                const ReadOptions& options = {}) {
  const Scratch scratch;
  const auto path = write_in(scratch, name, bytes);
  return refusal_of([&] { open_tensors(path, options); });
}

TEST(Registry, ContentDecidesWhateverTheExtension) {
  for (const char* name : {"x", "x.bin", "x.pt", "x.npy", "x.json", "x.pb"}) {
    EXPECT_EQ(format_as("safetensors/all_dtypes.safetensors", name),
              "safetensors");
    EXPECT_EQ(format_as("onnx/raw_float.pb", name), "onnx tensor") << name;
    EXPECT_EQ(format_as("onnx/scalar.pb", name), "onnx tensor") << name;
    EXPECT_EQ(format_as("polygraphy/outputs.json", name), "polygraphy");
    EXPECT_EQ(format_as("polygraphy/inputs.json", name), "polygraphy");
    EXPECT_EQ(format_as("polygraphy/bare.json", name), "polygraphy");
    EXPECT_EQ(format_as("polygraphy/legacy.json", name), "polygraphy");
  }
}

TEST(Registry, F78_SafetensorsThatLooksLikeZlib) {
  for (const char* name : {"x.safetensors", "x", "x.zz", "x.bin"}) {
    EXPECT_EQ(format_as("safetensors/zlib_lookalike.safetensors", name),
              "safetensors");
  }
  EXPECT_THAT(refusal("x", std::string("\x78\x20") + "not json").text,
              HasSubstr("no reader knows"));
}

TEST(Registry, ShardedIndexIsOpenedBesideItsShards) {
  const auto source =
      open_tensors(fixture("safetensors/sharded/model.safetensors.index.json"));
  EXPECT_EQ(source->format(), "safetensors index");
  EXPECT_EQ(source->tensors().size(), 4u);
}

TEST(Registry, RawNeedsOptionsAndAnUnclaimedName) {
  ReadOptions options;
  options.dtype = DType::kF32;
  options.shape = Shape{2};
  const Scratch scratch;
  const std::string bytes = "\x01\xff\xff\xff\x01\xff\xff\xff";
  EXPECT_EQ(open_tensors(write_in(scratch, "a.bin", bytes), options)->format(),
            "raw");
  EXPECT_EQ(open_tensors(write_in(scratch, "a", bytes), options)->format(),
            "raw");
  EXPECT_THAT(refusal("a.bin", bytes).text, HasSubstr("--dtype float32"));
  EXPECT_EQ(refusal("a.npy", bytes, options).code, Code::kRefused);
  options.shape = Shape{0};
  EXPECT_EQ(open_tensors(write_in(scratch, "e.bin", ""), options)
                ->load(0)
                .view.numel(),
            0);
}

TEST(Registry, AtbDumpsAreRecognised) {
  const Scratch scratch;
  const auto path = write_in(scratch, "intensor0.bin",
                             "$Version=1.0\ndtype=3\ndims=1\n$End=1\nabcd");
  const auto source = open_tensors(path);
  EXPECT_EQ(source->format(), "atb");
  EXPECT_EQ(source->tensors()[0].dtype, DType::kI32);
}

TEST(Registry, DamagedFilesGetTheirReadersExplanation) {
  EXPECT_THAT(refusal("x.npy", "garbage").text, HasSubstr("x.npy: "));
  EXPECT_EQ(refusal("x.npy", "garbage").code, Code::kRefused);
  EXPECT_EQ(refusal("x.pt", "garbage").code, Code::kRefused);
  EXPECT_EQ(refusal("x.npz", "garbage").code, Code::kRefused);
  EXPECT_EQ(refusal("x.pb", "garbage").code, Code::kRefused);
  EXPECT_EQ(refusal("x.safetensors", "garbage").code, Code::kRefused);
  const std::string file =
      read_file(fixture("safetensors/all_dtypes.safetensors"));
  EXPECT_THAT(refusal("x", file.substr(0, file.size() - 1)).text,
              HasSubstr("data bytes present"));
}

TEST(Registry, KnownForeignFilesGetAdvice) {
  const std::string hdf5 = "\x89HDF\r\n\x1a\n";
  const std::string pickle("\x80\x04\x95\x00\x00N.", 7);
  const std::pair<std::string, const char*> files[] = {
      {hdf5 + "rest", "HDF5"},
      {std::string(2048, '\0') + hdf5, "HDF5"},
      {"GGUF\x03", "GGUF"},
      {pickle, "never executed"},
      {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
      {"\x1f\x8b\x08", "unpack it first"},
      {"\x28\xb5\x2f\xfd", "unpack it first"},
      {"<!DOCTYPE html>", "HTML"},
      {read_file(fixture("onnx/model.onnx")), "an ONNX model"},
      {R"({"task":"tensor","level":"mix","data":{}})", "pass the directory"},
      {R"({"a":1})", "pass the directory"},
      {R"(["x",1])", "pass the directory"},
  };
  for (const auto& [bytes, text] : files) {
    for (const char* name : {"x", "x.bin"}) {
      const Refusal r = refusal(name, bytes);
      EXPECT_EQ(r.code, Code::kUnsupported) << text;
      EXPECT_THAT(r.text, HasSubstr(text)) << name;
    }
  }
}

// The sizes a hostile header claims: never multiplied unchecked, never
// allocated, in the format it was seen in (which we only name) and in ours.
TEST(Registry, F75_HostileSizesAreRefused) {
  const std::string huge(8, '\xff');
  const Refusal gguf =
      refusal("x.gguf", "GGUF\x03" + std::string(3, '\0') + huge + huge + huge);
  EXPECT_EQ(gguf.code, Code::kUnsupported);

  const std::string header =
      R"({"a":{"dtype":"F32","shape":[18446744073709551615,2],)"
      R"("data_offsets":[0,0]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  EXPECT_EQ(refusal("x.safetensors", file + header).code, Code::kRefused);

  for (const char* shape :
       {"(4611686018427387904, 4)", "(-1, 2)", "(4611686018427387904, 0)"}) {
    std::string dict = std::string(
                           "{'descr': '<f4', 'fortran_order': False, "
                           "'shape': ") +
                       shape + ", }\n";
    std::string npy("\x93NUMPY\x01\x00", 8);
    npy += static_cast<char>(dict.size());
    npy += '\0';
    EXPECT_EQ(refusal("x.npy", npy + dict).code, Code::kRefused) << shape;
  }
}

TEST(Registry, LegacyTorchIsRefusedWithAdvice) {
  const std::string legacy =
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  for (const char* name : {"x.pt", "x"}) {
    const Refusal r = refusal(name, legacy);
    EXPECT_EQ(r.code, Code::kRefused);
    EXPECT_THAT(r.text, HasSubstr("before 1.6"));
  }
}

TEST(Registry, EmptyAbsentAndUnknownFiles) {
  EXPECT_EQ(refusal("x.pt", "").code, Code::kUnreadable);
  EXPECT_THAT(refusal("x.pt", "").text, HasSubstr("empty"));
  EXPECT_EQ(refusal_of([] { open_tensors("/nonexistent/x.npy"); }).code,
            Code::kUnreadable);
  const Refusal r = refusal("x.xyz", "\xff\xfe plain");
  EXPECT_EQ(r.code, Code::kUnsupported);
  EXPECT_THAT(r.text, HasSubstr("npy, npz, torch, safetensors"));
}

TEST(Registry, ListsItsFormats) {
  const auto formats = supported_formats();
  EXPECT_EQ(formats.size(), 9u);
  for (const FormatInfo& format : formats) {
    EXPECT_TRUE(format.extensions.starts_with('.')) << format.name;
    EXPECT_FALSE(format.description.empty()) << format.name;
  }
}

}  // namespace
}  // namespace assay
