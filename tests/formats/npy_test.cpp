// Reads what numpy and ml_dtypes wrote (tests/data/formats/npy).
#include "assay/formats/npy.h"

#include <complex>

#include "tests/formats/npy_test_util.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<TensorSource> open(const std::string& name,
                                   ReadOptions options = {}) {
  return open_npy(fixture("npy/" + name + ".npy"), options);
}

template <class T>
void expect_count_up(const std::string& name, DType dtype) {
  for (const std::string prefix : {"", "big_"}) {
    if (sizeof(T) == 1 && prefix == "big_") continue;
    const auto source = open(prefix + name);
    ASSERT_EQ(source->tensors().size(), 1u);
    EXPECT_EQ(source->tensors()[0].name, "");
    EXPECT_EQ(source->tensors()[0].dtype, dtype) << name;
    EXPECT_EQ(source->tensors()[0].shape, (Shape{2, 3}));
    EXPECT_THAT(values_of<T>(source->load(0)), ElementsAre(0, 1, 2, 3, 4, 5))
        << prefix << name;
  }
}

TEST(Npy, ReadsEveryDtypeInBothByteOrders) {
  expect_count_up<double>("f8", DType::kF64);
  expect_count_up<float>("f4", DType::kF32);
  expect_count_up<std::int8_t>("i1", DType::kI8);
  expect_count_up<std::int16_t>("i2", DType::kI16);
  expect_count_up<std::int32_t>("i4", DType::kI32);
  expect_count_up<std::int64_t>("i8", DType::kI64);
  expect_count_up<std::uint8_t>("u1", DType::kU8);
  expect_count_up<std::uint16_t>("u2", DType::kU16);
  expect_count_up<std::uint32_t>("u4", DType::kU32);
  expect_count_up<std::uint64_t>("u8", DType::kU64);
}

TEST(Npy, ReadsHalfBoolAndComplex) {
  for (const std::string prefix : {"", "big_"}) {
    EXPECT_THAT(values_of<std::uint16_t>(open(prefix + "f2")->load(0)),
                ElementsAre(0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500));
    using C64 = std::complex<float>;
    using C128 = std::complex<double>;
    EXPECT_THAT(values_of<C64>(open(prefix + "c8")->load(0)),
                ElementsAre(C64(0, 6), C64(1, 6), C64(2, 6), C64(3, 6),
                            C64(4, 6), C64(5, 6)));
    EXPECT_EQ(values_of<C128>(open(prefix + "c16")->load(0))[5], C128(5, 6));
  }
  EXPECT_EQ(open("b1")->tensors()[0].dtype, DType::kBool);
  EXPECT_THAT(values_of<std::uint8_t>(open("b1")->load(0)),
              ElementsAre(0, 1, 1, 1, 1, 1));
}

TEST(Npy, FortranOrderBecomesStrides) {
  const Tensor tensor = open("fortran")->load(0);
  EXPECT_EQ(tensor.view.shape, (Shape{2, 3, 4}));
  EXPECT_EQ(tensor.view.strides, (Shape{1, 2, 6}));
  const auto values = values_of<double>(tensor);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(values[i], i);
}

TEST(Npy, ReadsScalarsEmptyArraysAndLaterVersions) {
  EXPECT_EQ(open("scalar")->tensors()[0].shape, Shape{});
  EXPECT_THAT(values_of<float>(open("scalar")->load(0)), ElementsAre(2.5f));
  EXPECT_EQ(open("empty")->tensors()[0].shape, (Shape{0, 3}));
  EXPECT_EQ(open("empty")->load(0).view.numel(), 0);
  for (const char* name : {"v2", "v3"}) {
    EXPECT_THAT(values_of<float>(open(name)->load(0)),
                ElementsAre(0, 1, 2, 3, 4, 5));
  }
}

TEST(Npy, IsZeroCopyAndOutlivesTheSource) {
  const FileBytes file = fixture("npy/f4.npy");
  const Tensor tensor = open_npy(file, {})->load(0);
  EXPECT_EQ(tensor.view.data, file.bytes.data() + 128);
}

TEST(Npy, VoidNeedsItsDtype) {
  const auto unknown = open("bfloat16");
  EXPECT_THAT(unknown->tensors()[0].unsupported, HasSubstr("--dtype"));
  EXPECT_THAT(error_of([&] { unknown->load(0); }),
              AllOf(HasSubstr("unsupported: "), HasSubstr("--dtype")));
  EXPECT_THAT(values_of<std::uint16_t>(
                  open("bfloat16", {.dtype = DType::kBF16})->load(0)),
              ElementsAre(0x3f00, 0x3f80, 0xc000, 0x4040, 0xc080, 0x40c0));
  EXPECT_THAT(values_of<std::uint8_t>(
                  open("float8_e4m3fn", {.dtype = DType::kE4M3FN})->load(0)),
              ElementsAre(0x30, 0x38, 0xc0, 0x44, 0xc8, 0x4c));
  // ml_dtypes writes e5m2 as "<f1".
  EXPECT_THAT(values_of<std::uint8_t>(
                  open("float8_e5m2", {.dtype = DType::kE5M2})->load(0)),
              ElementsAre(0x38, 0x3c, 0xc0, 0x42, 0xc4, 0x46));
  EXPECT_THAT(values_of<std::uint16_t>(
                  open("big_void", {.dtype = DType::kBF16})->load(0)),
              ElementsAre(0x0100, 0x0200));
  EXPECT_THAT(error_of([] { open("bfloat16", {.dtype = DType::kF32}); }),
              HasSubstr("found raw 2-byte elements, expected 4-byte ones"));
}

TEST(Npy, PacksOneCodeAByteFloat4) {
  const auto source = open("float4_e2m1fn", {.dtype = DType::kE2M1});
  const Tensor tensor = source->load(0);
  EXPECT_EQ(tensor.view.shape, (Shape{2, 3}));
  // Codes of 0.5 1 -2 3 -4 6: 1 2 12 5 14 7, element 2i in the low nibble.
  const auto bytes = tensor.view.bytes();
  EXPECT_THAT(std::vector<std::byte>(bytes.begin(), bytes.end()),
              ElementsAre(std::byte{0x21}, std::byte{0x5c}, std::byte{0x7e}));
}

TEST(Npy, ListsWhatItCannotCompare) {
  for (const char* name : {"text", "date", "longdouble", "struct"}) {
    const auto source = open(name);
    EXPECT_NE(source->tensors()[0].unsupported, "") << name;
    EXPECT_THAT(error_of([&] { source->load(0); }), HasSubstr("unsupported"));
  }
}

TEST(Npy, RefusesObjectsWithoutReadingTheirPickle) {
  for (const char* name : {"object", "struct_object"}) {
    EXPECT_THAT(error_of([&] { open(name); }),
                AllOf(HasSubstr("refused: "), HasSubstr("offset 20:"),
                      HasSubstr("object dtype")));
  }
}

}  // namespace
}  // namespace assay
