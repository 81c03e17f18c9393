#include "assay/formats/raw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "assay/formats/raw_atb.h"
#include "interchange_helpers.h"

namespace assay {
namespace {

using namespace interchange;
using ::testing::HasSubstr;

ReadOptions options(DType dtype, Shape shape, bool big_endian = false) {
  ReadOptions out;
  out.dtype = dtype;
  out.shape = std::move(shape);
  out.big_endian = big_endian;
  return out;
}

std::string load_raw(std::string_view bytes, const ReadOptions& o) {
  return bytes_of(open_raw(in_memory(bytes), o)->load(0));
}

TEST(Raw, LittleEndianBytesAreTakenAsTheyAre) {
  EXPECT_EQ(load_raw("abcdefgh", options(DType::kF32, {2})), "abcdefgh");
  EXPECT_EQ(load_raw("", options(DType::kF32, {0, 3})), "");
  EXPECT_EQ(load_raw("ab", options(DType::kE2M1, {3})), "ab");
}

TEST(Raw, BigEndianIsSwappedByComponent) {
  EXPECT_EQ(load_raw("abcd", options(DType::kI16, {2}, true)), "badc");
  EXPECT_EQ(load_raw("abcd", options(DType::kF32, {1}, true)), "dcba");
  EXPECT_EQ(load_raw("abcdefgh", options(DType::kC64, {1}, true)), "dcbahgfe");
  EXPECT_EQ(load_raw("ab", options(DType::kU8, {2}, true)), "ab");
}

TEST(Raw, TheSizeMustBeExact) {
  for (const std::size_t size : {0, 7, 9, 16}) {
    const Refusal r = refusal_of([&] {
      open_raw(in_memory(std::string(size, 'x')), options(DType::kF32, {2}));
    });
    EXPECT_EQ(r.code, Code::kRefused);
    EXPECT_THAT(r.text, HasSubstr("expected 8 for shape [2] of float32"));
  }
}

TEST(Raw, ImpossibleShapesAreRefused) {
  for (const Shape& shape : {Shape{-1}, Shape{1ll << 62, 4}}) {
    EXPECT_EQ(refusal_of([&] {
                open_raw(in_memory("abcd"), options(DType::kF32, shape));
              }).code,
              Code::kRefused);
  }
}

TEST(Raw, WithoutDtypeOrShapeThereIsAdvice) {
  ReadOptions only_dtype;
  only_dtype.dtype = DType::kF32;
  for (const ReadOptions& o : {ReadOptions{}, only_dtype}) {
    const Refusal r = refusal_of([&] { open_raw(in_memory("abcd"), o); });
    EXPECT_EQ(r.code, Code::kUnsupported);
    EXPECT_THAT(r.text, HasSubstr("--dtype float32 --shape 4,6"));
  }
}

std::string atb(std::string_view attributes, std::string_view data) {
  return "$Version=1.0\n$Object.Count=1\n$Object.Length=" +
         std::to_string(data.size()) + "\n" + std::string(attributes) +
         "$End=1\n" + std::string(data);
}

Refusal atb_refusal(const std::string& file) {
  return refusal_of([&] { open_atb(in_memory(file)); });
}

TEST(RawAtb, ReadsDtypeDimsAndData) {
  const std::string file =
      atb("format=2\ndtype=27\ndims=2,2\n$Object.data=0,8\n", "abcdefgh");
  ASSERT_TRUE(is_atb(in_memory(file)));
  const auto source = open_atb(in_memory(file));
  EXPECT_EQ(source->tensors()[0].dtype, DType::kBF16);
  EXPECT_EQ(source->tensors()[0].shape, (Shape{2, 2}));
  EXPECT_EQ(bytes_of(source->load(0)), "abcdefgh");
}

TEST(RawAtb, EveryDtypeNumberOfMsprobe) {
  // dtype numbers and names of msprobe's own reader of these files.
  const std::pair<int, DType> known[] = {
      {0, DType::kF32}, {1, DType::kF16},   {2, DType::kI8},   {3, DType::kI32},
      {9, DType::kI64}, {12, DType::kBool}, {27, DType::kBF16}};
  for (const auto& [number, dtype] : known) {
    const std::string data(static_cast<std::size_t>(traits(dtype).bits / 8),
                           '\1');
    const auto source = open_atb(
        in_memory(atb("dtype=" + std::to_string(number) + "\ndims=1\n", data)));
    EXPECT_EQ(source->tensors()[0].dtype, dtype) << number;
    EXPECT_EQ(bytes_of(source->load(0)), data);
  }
}

TEST(RawAtb, FractalLayoutUnknownDtypeAndOtherFilesAreRows) {
  const auto why = [](std::string_view attributes) {
    return open_atb(in_memory(atb(attributes, "abcd")))
        ->tensors()[0]
        .unsupported;
  };
  EXPECT_THAT(why("format=29\ndtype=0\ndims=1\n"), HasSubstr("aclFormat 29"));
  EXPECT_THAT(why("dtype=99\ndims=1\n"), HasSubstr("aclDataType 99"));
  EXPECT_THAT(why("dtype=0\ndims=1\ndata=/etc/passwd\n"),
              HasSubstr("not followed"));
}

TEST(RawAtb, MalformedHeadersAreRefused) {
  const std::pair<std::string, const char*> bad[] = {
      {"$Version=1.0\ndtype=0\n", "no line \"$End=1\""},
      {"$Version=1.0\nnonsense\n$End=1\n", "key=value"},
      {atb("dtype=0\n", "abcd"), "no dtype or no dims"},
      {atb("dtype=x\ndims=1\n", "abcd"), "an integer"},
      {atb("dtype=0\ndtype=0\ndims=1\n", "abcd"), "a second dtype"},
      {atb("dtype=0\ndims=2\n", "abcd"), "to agree"},
      {atb("dtype=0\ndims=-1\n", "abcd"), "to agree"},
      {atb("dtype=0\ndims=1\n", "abcde"), "to agree"},
      {atb("dtype=0\ndims=1\n$Object.data=0,99\n", "abcd"), "to agree"},
      {atb("dtype=0\ndims=1\n$Object.data=9,4\n", "abcd"), "bytes of $Object"},
      {atb("dtype=0\ndims=4611686018427387904,4\n", "abcd"), "to agree"},
  };
  for (const auto& [file, text] : bad) {
    const Refusal r = atb_refusal(file);
    EXPECT_EQ(r.code, Code::kRefused) << file;
    EXPECT_THAT(r.text, HasSubstr(text)) << file;
  }
}

TEST(RawAtb, PrefixesAndFlippedBits) {
  const std::string file =
      atb("format=2\ndtype=1\ndims=2,2\n$Object.data=0,8\n", "abcdefgh");
  expect_prefixes_refused(file, open_atb);
  EXPECT_GT(flip_every_bit(file, file.size(), open_atb), 0);
}

}  // namespace
}  // namespace assay
