#include "assay/formats/onnx_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "interchange_helpers.h"

namespace assay {
namespace {

using namespace interchange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<TensorSource> open_fixture(const std::string& name) {
  return open_onnx_tensor(in_memory(read_file(fixture("onnx/" + name))));
}

Refusal refusal(std::string_view message) {
  return refusal_of([&] { read_all(*open_onnx_tensor(in_memory(message))); });
}

template <typename T>
std::vector<T> values_of(const TensorSource& source) {
  const std::string bytes = bytes_of(source.load(0));
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Protobuf by hand.
std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}
std::string blob(int field, std::string_view bytes) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) +
         varint(bytes.size()) + std::string(bytes);
}
std::string fixed32(int field, float value) {
  std::string out = varint(static_cast<std::uint64_t>(field) << 3 | 5);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int i = 0; i < 4; ++i) out += static_cast<char>(bits >> (8 * i));
  return out;
}

const std::string kFloat2 = number(1, 2) + number(2, 1);

TEST(OnnxTensor, EveryDtypeAsRawData) {
  const std::pair<const char*, DType> files[] = {
      {"float", DType::kF32},
      {"double", DType::kF64},
      {"float16", DType::kF16},
      {"bfloat16", DType::kBF16},
      {"int8", DType::kI8},
      {"int16", DType::kI16},
      {"int32", DType::kI32},
      {"int64", DType::kI64},
      {"uint8", DType::kU8},
      {"uint16", DType::kU16},
      {"uint32", DType::kU32},
      {"uint64", DType::kU64},
      {"bool", DType::kBool},
      {"complex64", DType::kC64},
      {"complex128", DType::kC128},
      {"float8e4m3fn", DType::kE4M3FN},
      {"float8e4m3fnuz", DType::kE4M3FNUZ},
      {"float8e5m2", DType::kE5M2},
      {"float8e5m2fnuz", DType::kE5M2FNUZ},
      {"float8e8m0", DType::kE8M0},
  };
  for (const auto& [name, dtype] : files) {
    const auto source = open_fixture("raw_" + std::string(name) + ".pb");
    ASSERT_EQ(source->tensors().size(), 1u);
    EXPECT_EQ(source->tensors()[0].name, "");
    EXPECT_EQ(source->tensors()[0].dtype, dtype) << name;
    EXPECT_EQ(source->tensors()[0].shape, (Shape{2, 3})) << name;
    const std::string bytes = bytes_of(source->load(0));
    ASSERT_EQ(bytes.size(), 6u * traits(dtype).bits / 8) << name;
    for (std::size_t k = 0; k < bytes.size(); ++k) {
      const std::size_t want =
          dtype == DType::kBool ? k % 2 : (37 * k + 5) % 256;
      ASSERT_EQ(static_cast<unsigned char>(bytes[k]), want) << name << k;
    }
  }
}

TEST(OnnxTensor, OddCountOfFourBitElements) {
  // 0, 1, 2, 3, 4 of e2m1 are codes 0, 2, 4, 5, 6; low nibble first.
  const auto source = open_fixture("raw_float4e2m1.pb");
  EXPECT_EQ(source->tensors()[0].dtype, DType::kE2M1);
  EXPECT_EQ(source->tensors()[0].shape, Shape{5});
  EXPECT_THAT(values_of<std::uint8_t>(*source), ElementsAre(0x20, 0x54, 0x06));
}

template <typename T>
void expect_typed(const std::string& name, DType dtype,
                  const std::vector<T>& want) {
  const auto source = open_fixture("typed_" + name + ".pb");
  EXPECT_EQ(source->tensors()[0].dtype, dtype) << name;
  EXPECT_EQ(source->tensors()[0].shape, Shape{3}) << name;
  EXPECT_EQ(values_of<T>(*source), want) << name;
}

TEST(OnnxTensor, IntegersInNumberLists) {
  expect_typed<std::int8_t>("int8", DType::kI8, {-128, 127, -1});
  expect_typed<std::int16_t>("int16", DType::kI16, {-32768, 32767, -1});
  expect_typed<std::int32_t>("int32", DType::kI32,
                             {-2147483647 - 1, 2147483647, -1});
  expect_typed<std::int64_t>("int64", DType::kI64, {INT64_MIN, INT64_MAX, -1});
  expect_typed<std::uint8_t>("uint8", DType::kU8, {0, 255, 7});
  expect_typed<std::uint16_t>("uint16", DType::kU16, {0, 65535, 7});
  expect_typed<std::uint32_t>("uint32", DType::kU32, {0, 4294967295u, 7});
  expect_typed<std::uint64_t>("uint64", DType::kU64, {0, UINT64_MAX, 7});
  expect_typed<std::uint8_t>("bool", DType::kBool, {1, 0, 1});
}

TEST(OnnxTensor, FloatsInNumberLists) {
  expect_typed<float>("float", DType::kF32, {1.5f, -2.0f, 0.25f});
  expect_typed<double>("double", DType::kF64, {1.5, -2.0, 1e300});
  expect_typed<float>("complex64", DType::kC64, {1, 2, 0, -1.5f, 3, 0});
  expect_typed<double>("complex128", DType::kC128, {1, 2, 0, -1.5, 3, 0});
}

TEST(OnnxTensor, BitPatternsInInt32Data) {
  expect_typed<std::uint16_t>("float16", DType::kF16, {0x3e00, 0xc000, 0x3400});
  expect_typed<std::uint16_t>("bfloat16", DType::kBF16,
                              {0x3fc0, 0xc000, 0x3e80});
  expect_typed<std::uint8_t>("float8e4m3fn", DType::kE4M3FN,
                             {0x3c, 0xc0, 0x7e});
  expect_typed<std::uint8_t>("float8e5m2", DType::kE5M2, {0x3e, 0xc0, 0x7b});
  expect_typed<std::uint8_t>("float8e8m0", DType::kE8M0, {127, 128, 126});
  // 0.5, -6, 3: codes 1, 15, 5.
  expect_typed<std::uint8_t>("float4e2m1", DType::kE2M1, {0xf1, 0x05});
}

TEST(OnnxTensor, ScalarAndEmpty) {
  const auto scalar = open_fixture("scalar.pb");
  EXPECT_EQ(scalar->tensors()[0].shape, Shape{});
  EXPECT_THAT(values_of<float>(*scalar), ElementsAre(1.5f));
  const auto empty = open_fixture("empty.pb");
  EXPECT_EQ(empty->tensors()[0].shape, (Shape{0, 3}));
  EXPECT_EQ(empty->load(0).view.numel(), 0);
}

TEST(OnnxTensor, UnpackedNumbersAndPackedDims) {
  const auto source = open_onnx_tensor(in_memory(
      blob(1, varint(1) + varint(2)) + number(2, 1) + fixed32(4, 1.5f) +
      fixed32(4, -3.0f) + blob(99, "unknown") + number(16000, 7)));
  EXPECT_EQ(source->tensors()[0].shape, (Shape{1, 2}));
  EXPECT_THAT(values_of<float>(*source), ElementsAre(1.5f, -3.0f));
  const auto ints = open_onnx_tensor(
      in_memory(number(1, 3) + number(2, 6) + number(5, 7) +
                number(5, std::uint64_t(-1)) + number(5, 0xfffffffe)));
  EXPECT_THAT(values_of<std::int32_t>(*ints), ElementsAre(7, -1, -2));
}

TEST(OnnxTensor, StringsAndIntegersBelowEightBitsAreRows) {
  EXPECT_THAT(open_fixture("string.pb")->tensors()[0].unsupported,
              HasSubstr("string"));
  const auto int4 = open_fixture("int4.pb");
  EXPECT_THAT(int4->tensors()[0].unsupported, HasSubstr("int4"));
  EXPECT_EQ(refusal_of([&] { int4->load(0); }).code, Code::kUnsupported);
  EXPECT_THAT(
      open_onnx_tensor(in_memory(number(2, 77)))->tensors()[0].unsupported,
      HasSubstr("data_type 77"));
}

TEST(OnnxTensor, F76_ExternalDataIsRefusedAndNotFollowed) {
  const Refusal r = refusal(read_file(fixture("onnx/external.pb")));
  EXPECT_EQ(r.code, Code::kRefused);
  EXPECT_THAT(r.text, HasSubstr("external data"));
  EXPECT_THAT(refusal(kFloat2 + number(14, 1)).text,
              HasSubstr("external data"));
}

TEST(OnnxTensor, MalformedMessagesAreRefused) {
  const std::string raw = blob(9, "abcdefgh");
  const std::pair<std::string, const char*> bad[] = {
      {raw, "no data_type"},
      {kFloat2 + number(2, 1) + raw, "a second data_type"},
      {kFloat2 + raw + raw, "a second raw_data"},
      {kFloat2 + blob(8, "a") + blob(8, "b") + raw, "a second name"},
      {kFloat2 + raw + fixed32(4, 1), "raw_data and field 4"},
      {kFloat2 + fixed32(4, 1) + number(5, 1), "data in fields 4 and 5"},
      {kFloat2 + number(5, 1) + number(5, 1), "numbers in field 5"},
      {kFloat2 + fixed32(4, 1), "1 numbers, expected 2"},
      {kFloat2, "0 numbers, expected 2"},
      {kFloat2 + blob(9, "abc"), "3 bytes of raw_data, expected 8"},
      {kFloat2 + blob(4, "abc"), "3 packed bytes"},
      {kFloat2 + blob(3, ""), "segment"},
      {number(1, std::uint64_t(-1)) + number(2, 1), "dimension -1"},
      {number(1, 1ull << 62) + number(1, 4) + number(2, 1), "below 2^63"},
      {number(1, 1) + number(2, 3) + number(5, 128),
       "value 128, expected -128"},
      {number(1, 1) + number(2, 2) + number(5, 256), "value 256, expected 0"},
      {number(1, 1) + number(2, 9) + number(5, 2), "value 2, expected 0 to 1"},
      {number(1, 1) + number(2, 12) + number(11, 1ull << 32),
       "value 4294967296"},
      {number(1, 1) + number(2, 6) + number(5, 1ull << 40), "value 1099511"},
      {kFloat2 + "\x4b", "wire type 3"},
      {kFloat2 + std::string(1, '\0'), "field 0"},
      {std::string("\x08") + std::string(10, '\xff') + "\x01",
       "beyond 64 bits"},
      {std::string("\x08") + std::string(9, '\xff') + "\x02", "beyond 64 bits"},
      {number(2, 1) + "\x4a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
       "18446744073709551615 bytes"},
      {blob(2, "x"), "wire type 2 of data_type"},
  };
  for (const auto& [message, text] : bad) {
    const Refusal r = refusal(message);
    EXPECT_EQ(r.code, Code::kRefused) << text;
    EXPECT_THAT(r.text, HasSubstr(text));
  }
}

TEST(OnnxTensor, RankIsCapped) {
  std::string dims;
  for (int i = 0; i < 33; ++i) dims += number(1, 1);
  EXPECT_THAT(refusal(dims + number(2, 1)).text, HasSubstr("32 at most"));
}

TEST(OnnxTensor, PrefixesAreRefused) {
  expect_prefixes_refused(read_file(fixture("onnx/raw_float.pb")),
                          open_onnx_tensor);
  // The three bytes of the name come last; without them it is still whole.
  const std::string typed = read_file(fixture("onnx/typed_int32.pb"));
  expect_prefixes_refused(typed.substr(0, typed.size() - 3), open_onnx_tensor);
}

TEST(OnnxTensor, FlippedBitsAreSurvived) {
  for (const char* name : {"raw_float.pb", "typed_int64.pb", "string.pb"}) {
    const std::string file = read_file(fixture("onnx/" + std::string(name)));
    EXPECT_GT(flip_every_bit(file, file.size(), open_onnx_tensor), 0) << name;
  }
}

TEST(OnnxTensor, ModelsAndTensorsAreToldApart) {
  const auto kind = [](const std::string& name) {
    return classify_onnx(in_memory(read_file(fixture("onnx/" + name))));
  };
  EXPECT_EQ(kind("raw_float.pb"), OnnxKind::kTensor);
  EXPECT_EQ(kind("scalar.pb"), OnnxKind::kTensor);
  EXPECT_EQ(kind("external.pb"), OnnxKind::kTensor);
  EXPECT_EQ(kind("model.onnx"), OnnxKind::kModel);
  EXPECT_EQ(classify_onnx(in_memory("plain text")), OnnxKind::kNeither);
  EXPECT_EQ(classify_onnx(in_memory("")), OnnxKind::kNeither);
}

}  // namespace
}  // namespace assay
