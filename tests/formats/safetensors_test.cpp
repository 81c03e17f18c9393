#include "assay/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "assay/formats/safetensors_header.h"
#include "interchange_helpers.h"

namespace assay {
namespace {

using namespace interchange;
using ::testing::HasSubstr;

std::string little(std::uint64_t value) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string file_of(std::string_view header, std::size_t data_bytes) {
  return little(header.size()) + std::string(header) +
         std::string(data_bytes, '\x01');
}

std::string one(std::string_view fields) {
  return "{\"a\":{" + std::string(fields) + "}}";
}

Refusal refusal(const std::string& file) {
  return refusal_of([&] { open_safetensors(in_memory(file)); });
}

// Byte k of a fixture's tensor, as make_fixtures_interchange.py writes it.
std::string pattern(std::size_t size, bool is_bool) {
  std::string bytes(size, '\0');
  for (std::size_t k = 0; k < size; ++k) {
    bytes[k] = static_cast<char>(is_bool ? k % 2 : (37 * k + 5) % 256);
  }
  return bytes;
}

TEST(Safetensors, F72_EveryDtypeOfTheFormatReadsExactly) {
  const auto path = fixture("safetensors/all_dtypes.safetensors");
  const auto source = open_safetensors(FileBytes::of(MappedFile::open(path)));
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < source->tensors().size(); ++i) {
    index[source->tensors()[i].name] = i;
  }
  for (const DTypeTraits& t : kDTypes) {
    if (t.safetensors.empty()) continue;
    ASSERT_TRUE(index.contains(std::string(t.name))) << t.name;
    const std::size_t i = index[std::string(t.name)];
    const Tensor tensor = source->load(i);
    EXPECT_EQ(tensor.view.dtype, t.id) << t.name;
    // Sixteen 4-bit elements in the header's shape, eight bytes.
    const Shape shape = t.bits == 4 ? Shape{2, 8} : Shape{2, 3};
    EXPECT_EQ(tensor.view.shape, shape) << t.name;
    const std::size_t size = t.bits == 4 ? 8 : 6 * t.bits / 8;
    EXPECT_EQ(bytes_of(tensor), pattern(size, t.id == DType::kBool)) << t.name;
  }
  EXPECT_EQ(index.size(), 23u);
}

TEST(Safetensors, F72_ScalarsEmptyTensorsAndUnicodeNames) {
  const auto path = fixture("safetensors/all_dtypes.safetensors");
  const auto source = open_safetensors(FileBytes::of(MappedFile::open(path)));
  int found = 0;
  for (std::size_t i = 0; i < source->tensors().size(); ++i) {
    const TensorInfo& info = source->tensors()[i];
    if (info.name == "scalar") {
      EXPECT_EQ(info.shape, Shape{});
      EXPECT_EQ(bytes_of(source->load(i)), pattern(4, false));
    } else if (info.name == "empty") {
      EXPECT_EQ(info.shape, (Shape{0, 3}));
      EXPECT_EQ(source->load(i).view.numel(), 0);
    } else if (info.name == "层.0/名") {
      EXPECT_EQ(info.dtype, DType::kI32);
    } else {
      continue;
    }
    ++found;
  }
  EXPECT_EQ(found, 3);
}

TEST(Safetensors, MetadataIsKept) {
  const std::string file =
      read_file(fixture("safetensors/all_dtypes.safetensors"));
  const auto header = parse_safetensors_header(in_memory(file).bytes, "memory");
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.metadata.at("note"), "a\"b");
}

TEST(Safetensors, F78_HeaderLengthThatLooksLikeZlib) {
  const std::string file =
      read_file(fixture("safetensors/zlib_lookalike.safetensors"));
  ASSERT_EQ(file.substr(0, 2), "\x78\x20");
  EXPECT_TRUE(is_safetensors(in_memory(file)));
  const auto source = open_safetensors(in_memory(file));
  EXPECT_EQ(bytes_of(source->load(0)), pattern(8, false));
}

struct Malformed {
  const char* name;
  std::string file;
  const char* text;
};

std::vector<Malformed> malformed() {
  const auto two = [](const char* a, const char* b) {
    return std::string("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],") +
           "\"data_offsets\":" + a + "},\"b\":{\"dtype\":\"F32\"," +
           "\"shape\":[1],\"data_offsets\":" + b + "}}";
  };
  const std::string ok = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  return {
      {"length 2^63", little(1ull << 63) + "{}", "9223372036854775808"},
      {"begin after end",
       file_of(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4),
       "begin at 4 after their end 0"},
      {"past the end",
       file_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 4),
       "end at 8, expected at most the 4 data bytes"},
      {"overlap", file_of(two("[0,4]", "[0,4]"), 4), "overlap"},
      {"hole", file_of(two("[0,4]", "[8,12]"), 12), "hole: data bytes 4 to 8"},
      {"hole in front", file_of(two("[4,8]", "[8,12]"), 12),
       "hole: data bytes 0 to 4"},
      {"bytes at the end", file_of(one(ok), 5), "1 bytes behind the last"},
      {"duplicate key", file_of("{\"a\":{" + ok + "},\"a\":{" + ok + "}}", 4),
       "duplicate key \"a\""},
      {"duplicate by escape",
       file_of("{\"a\":{" + ok + "},\"\\u0061\":{" + ok + "}}", 4),
       "duplicate key \"a\""},
      {"duplicate field", file_of(one(R"("dtype":"F32",)" + ok), 4),
       "duplicate key \"dtype\""},
      {"product wraps",
       file_of(one(R"("dtype":"F32","shape":[4294967296,4294967296],)"
                   R"("data_offsets":[0,0])"),
               0),
       "a product below 2^63"},
      {"size wraps",
       file_of(one(R"("dtype":"F64","shape":[4611686018427387904],)"
                   R"("data_offsets":[0,0])"),
               0),
       "a size below 2^64 bits"},
      {"wrong size",
       file_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4),
       "expected 8 for shape [2] of F32"},
      {"half a byte",
       file_of(one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2),
       "whole bytes"},
      {"exponent",
       file_of(one(R"("dtype":"U8","shape":[1e3],"data_offsets":[0,1])"), 1),
       "found '1e3'"},
      {"minus zero",
       file_of(one(R"("dtype":"U8","shape":[-0],"data_offsets":[0,0])"), 0),
       "found '-0'"},
      {"fraction",
       file_of(one(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1),
       "found '1.0'"},
      {"leading zero",
       file_of(one(R"("dtype":"U8","shape":[01],"data_offsets":[0,1])"), 1),
       "found '01'"},
      {"2^63",
       file_of(one(R"("dtype":"U8","shape":[9223372036854775808],)"
                   R"("data_offsets":[0,1])"),
               1),
       "found '9223372036854775808'"},
      {"one offset",
       file_of(one(R"("dtype":"U8","shape":[1],"data_offsets":[1])"), 1),
       "two data_offsets before"},
      {"three offsets",
       file_of(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1),
       "']' after two data_offsets"},
      {"no dtype", file_of(one(R"("shape":[1],"data_offsets":[0,1])"), 1),
       "without all fields"},
      {"metadata not text", file_of(R"({"__metadata__":{"a":1}})", 0),
       "expected a string"},
      {"not an object", file_of("[1]", 0), "expected '{'"},
      {"text after the header", file_of("{}x", 0), "nothing after"},
      {"trailing comma", file_of("{\"a\":{" + ok + "},}", 4),
       "expected a string"},
      {"not UTF-8", file_of("{\"\xff\":{" + ok + "}}", 4), "no UTF-8"},
      {"rank 33",
       file_of(one("\"dtype\":\"U8\",\"shape\":[1" +
                   [] {
                     std::string ones;
                     for (int i = 0; i < 32; ++i) ones += ",1";
                     return ones;
                   }() +
                   "],\"data_offsets\":[0,1]"),
               1),
       "rank 32"},
  };
}

TEST(Safetensors, F74_EachMalformedHeaderHasItsOwnError) {
  for (const Malformed& bad : malformed()) {
    const Refusal r = refusal(bad.file);
    EXPECT_EQ(r.code, Code::kRefused) << bad.name;
    EXPECT_THAT(r.text, HasSubstr(bad.text)) << bad.name;
    EXPECT_THAT(r.text, HasSubstr("memory: ")) << bad.name;
  }
}

TEST(Safetensors, F74_UnknownDtypeIsARowAndSkipsNoOffsetCheck) {
  const std::string entry =
      R"({"a":{"dtype":"F32x","shape":[1],"data_offsets":[0,4]}})";
  const auto source = open_safetensors(in_memory(file_of(entry, 4)));
  EXPECT_THAT(source->tensors()[0].unsupported, HasSubstr("F32x"));
  const Refusal load = refusal_of([&] { source->load(0); });
  EXPECT_EQ(load.code, Code::kUnsupported);
  EXPECT_EQ(load.text, source->tensors()[0].unsupported);
  EXPECT_THAT(refusal(file_of(entry, 5)).text, HasSubstr("behind the last"));
  EXPECT_THAT(refusal(file_of(entry, 3)).text, HasSubstr("at most the 3"));
  const std::string fp6 =
      R"({"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,4]}})";
  EXPECT_THAT(refusal(file_of(fp6, 4)).text, HasSubstr("expected 3 for"));
}

TEST(Safetensors, IntegersAbove2To53AreNotRounded) {
  const std::string file = file_of(
      one(R"("dtype":"U8","shape":[9007199254740993],"data_offsets":[0,1])"),
      1);
  EXPECT_THAT(refusal(file).text, HasSubstr("expected 9007199254740993 for"));
}

TEST(Safetensors, LengthFieldsAtTheEdges) {
  const std::string header =
      one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])");
  const std::string rest = header + "\x01\x02\x03\x04";
  const std::uint64_t size = header.size();
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, size - 1, size + 1,
        std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{1} << 63,
        ~std::uint64_t{0}}) {
    EXPECT_EQ(refusal(little(length) + rest).code, Code::kRefused) << length;
  }
  EXPECT_EQ(refusal(little(size) + rest).text, "");
}

TEST(Safetensors, DeepNestingIsCapped) {
  const std::string deep = "{\"a\":" + std::string(100000, '[');
  EXPECT_THAT(refusal(file_of(deep, 0)).text, HasSubstr("expected '{'"));
  const std::string inner = "{\"a\":{\"x\":" + std::string(100000, '[') + "}}";
  EXPECT_THAT(refusal(file_of(inner, 0)).text, HasSubstr("nested deeper"));
}

TEST(Safetensors, EveryPrefixIsRefused) {
  const std::string file =
      read_file(fixture("safetensors/all_dtypes.safetensors"));
  expect_prefixes_refused(file, open_safetensors);
}

TEST(Safetensors, EveryFlippedHeaderBitIsSurvived) {
  const std::string file =
      read_file(fixture("safetensors/all_dtypes.safetensors"));
  const std::size_t header = 8 + static_cast<unsigned char>(file[0]) +
                             256 * static_cast<unsigned char>(file[1]);
  const int refused = flip_every_bit(file, header, open_safetensors);
  EXPECT_GT(refused, static_cast<int>(header));
}

TEST(Safetensors, NamesAreKeptAsTheyAre) {
  const std::string long_name(300, 'n');
  // NFC and NFD of the same letter are two names, as are case twins.
  const std::vector<std::string> names = {
      "", "..", "a/b", "A/b", "\xc3\xa9", "e\xcc\x81", long_name};
  std::string header = "{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    header += (i ? ",\"" : "\"") + names[i] +
              R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  const auto source =
      open_safetensors(in_memory(file_of(header + "}", names.size())));
  ASSERT_EQ(source->tensors().size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(source->tensors()[i].name, names[i]);
  }
}

TEST(Safetensors, EscapedNamesAreDecoded) {
  const auto source = open_safetensors(in_memory(
      file_of(R"({"\u5c42\ud83d\ude00\/\n":{"dtype":"U8","shape":[1],)"
              R"("data_offsets":[0,1]}})",
              1)));
  EXPECT_EQ(source->tensors()[0].name, "层😀/\n");
  EXPECT_THAT(refusal(file_of(R"({"\ud83d":{}})", 0)).text,
              HasSubstr("lone surrogate"));
}

TEST(Safetensors, SparseFileAboveFourGigabytes) {
  constexpr std::uint64_t kBytes = (5ull << 30) + 1;
  const Scratch scratch;
  const std::string header =
      one(R"("dtype":"U8","shape":[5368709121],"data_offsets":[0,5368709121])");
  const auto path = write_in(scratch, "x", little(header.size()) + header);
  std::filesystem::resize_file(path, 8 + header.size() + kBytes - 1);
  std::ofstream(path, std::ios::binary | std::ios::app) << '\x2a';
  const auto source = open_safetensors(FileBytes::of(MappedFile::open(path)));
  const Tensor tensor = source->load(0);
  EXPECT_EQ(tensor.view.numel(), static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(tensor.view.data[kBytes - 1], std::byte{0x2a});
  EXPECT_EQ(tensor.view.data[0], std::byte{0});
}

TEST(Safetensors, TensorsOutliveTheSource) {
  const auto path = fixture("safetensors/zlib_lookalike.safetensors");
  auto source = open_safetensors(FileBytes::of(MappedFile::open(path)));
  const Tensor tensor = source->load(0);
  source.reset();
  EXPECT_EQ(bytes_of(tensor), pattern(8, false));
}

}  // namespace
}  // namespace assay
