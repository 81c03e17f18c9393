// Single elements in and out of buffers of every dtype.
#include "assay/numerics/element.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "fixture.h"

namespace assay {
namespace {

using test::read_fixture;

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
void expect_loads(DType dtype, const std::vector<T>& values) {
  const auto bytes = bytes_of(values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(load_as_double(dtype, bytes.data(), static_cast<int64_t>(i)),
              static_cast<double>(values[i]));
}

TEST(Element, LoadsNativeTypes) {
  expect_loads<double>(DType::kF64, {0.1, -1e300});
  expect_loads<float>(DType::kF32, {0.1f, -1e30f});
  expect_loads<std::int8_t>(DType::kI8, {-128, 127});
  expect_loads<std::int16_t>(DType::kI16, {-32768, 32767});
  expect_loads<std::int32_t>(DType::kI32, {-2147483647 - 1, 2147483647});
  expect_loads<std::int64_t>(
      DType::kI64,
      {std::numeric_limits<std::int64_t>::min(), -1, 9007199254740993});
  expect_loads<std::uint8_t>(DType::kU8, {0, 255});
  expect_loads<std::uint16_t>(DType::kU16, {0, 65535});
  expect_loads<std::uint32_t>(DType::kU32, {0, 4294967295});
  expect_loads<std::uint64_t>(DType::kU64, {0, ~std::uint64_t{0}});
  expect_loads<float>(DType::kC64, {1.5f, -2.5f});
  expect_loads<double>(DType::kC128, {1.5, -2.5});
}

TEST(Element, AnyNonZeroByteIsTrue) {
  const auto bytes = bytes_of<std::uint8_t>({0, 1, 2, 255});
  const double expected[] = {0, 1, 1, 1};
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(load_as_double(DType::kBool, bytes.data(), i), expected[i]);
}

// Even column in the low nibble, for all 256 packed bytes.
TEST(Element, PackedFp4AsNvte) {
  const std::string base = "oracle_fmt_decode_tables.";
  const auto packed =
      bytes_of(read_fixture<std::uint8_t>(base + "fp4_packed.bin"));
  const auto value = read_fixture<float>(base + "fp4_unpacked_value.bin");
  ASSERT_EQ(value.size(), 2 * packed.size());
  for (std::size_t i = 0; i < value.size(); ++i)
    EXPECT_EQ(load_as_double(DType::kE2M1, packed.data(),
                             static_cast<std::int64_t>(i)),
              value[i]);
}

TEST(Element, PacksFp4AsCuda) {
  const std::string base = "oracle_fmt_encode_e2m1.";
  const auto x = read_fixture<float>(base + "x.bin");
  const auto packed = bytes_of(read_fixture<std::uint8_t>(base + "packed.bin"));
  std::vector<std::byte> out(packed.size(), std::byte{0xa5});
  for (std::size_t i = 0; i < x.size(); ++i)
    store_from_double(DType::kE2M1, x[i], out.data(),
                      static_cast<std::int64_t>(i));
  EXPECT_EQ(out, packed);
}

TEST(Element, StoreLeavesTheOtherNibble) {
  std::byte byte{0x37};
  store_code(DType::kE2M1, 0xc, &byte, 1);
  EXPECT_EQ(byte, std::byte{0xc7});
  store_code(DType::kE2M1, 0x2, &byte, 0);
  EXPECT_EQ(byte, std::byte{0xc2});
  EXPECT_EQ(load_code(DType::kE2M1, &byte, 1), 0xcu);
}

// Stored and loaded again is rounded once, for every dtype, unaligned.
TEST(Element, StoreThenLoad) {
  for (const DTypeTraits& t : kDTypes) {
    for (const double x : {0.0, 1.0, 2.0, 4.0}) {
      if (t.id == DType::kE8M0 && x == 0) continue;
      std::array<std::byte, 40> buffer{};
      store_from_double(t.id, x, buffer.data() + 1, 1);
      const double expected = t.kind == DTypeKind::kBool && x != 0 ? 1 : x;
      EXPECT_EQ(load_as_double(t.id, buffer.data() + 1, 1), expected) << t.name;
      EXPECT_EQ(buffer[0], std::byte{0}) << t.name;
    }
  }
}

// In bulk as one by one, NaN payloads aside, from every position.
TEST(Element, ManyAtOnce) {
  std::vector<std::byte> data(4096 + 1);
  std::uint64_t state = 1;
  for (std::byte& b : data) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    b = static_cast<std::byte>(state >> 56);
  }
  for (const DTypeTraits& t : kDTypes) {
    for (const std::int64_t begin : {0, 1, 7}) {
      std::vector<double> out(200);
      load_as_doubles(t.id, data.data() + 1, begin, 200, out.data());
      for (std::int64_t i = 0; i < 200; ++i) {
        const double one = load_as_double(t.id, data.data() + 1, begin + i);
        const double many = out[static_cast<std::size_t>(i)];
        ASSERT_TRUE(one == many || (std::isnan(one) && std::isnan(many)))
            << t.name << " " << i;
      }
    }
  }
}

TEST(Element, IntegersSaturate) {
  std::array<std::byte, 8> buffer{};
  const auto stored = [&](DType dtype, double x) {
    store_from_double(dtype, x, buffer.data(), 0);
    return load_code(dtype, buffer.data(), 0);
  };
  EXPECT_EQ(stored(DType::kI64, 1e30), 0x7fffffffffffffffu);
  EXPECT_EQ(stored(DType::kI64, -1e30), 0x8000000000000000u);
  EXPECT_EQ(stored(DType::kU64, 1e30), ~std::uint64_t{0});
  EXPECT_EQ(stored(DType::kU64, -1), 0u);
  EXPECT_EQ(stored(DType::kI8, -300), 0x80u);
  EXPECT_EQ(stored(DType::kU8, 300), 0xffu);
  EXPECT_EQ(stored(DType::kI16, NAN), 0u);
  EXPECT_EQ(stored(DType::kE4M3FN, 1e9), 0x7eu);
  EXPECT_EQ(stored(DType::kF16, 1e9), 0x7c00u);
}

}  // namespace
}  // namespace assay
