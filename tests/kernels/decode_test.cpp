// Block decoding against the scalar specification, every dtype.
#include "assay/kernels/decode.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/numerics/float_format.h"

namespace assay {
namespace {

// Every byte value, then random bytes; an odd number of elements.
std::vector<std::byte> some_bytes() {
  std::vector<std::byte> bytes;
  std::mt19937 rng(7);
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<std::byte>(i));
  while (bytes.size() < 16 * 301)
    bytes.push_back(static_cast<std::byte>(rng() & 0xff));
  return bytes;
}

void expect_same(double actual, double expected) {
  if (is_nan(expected)) {
    ASSERT_TRUE(is_nan(actual));
  } else {
    ASSERT_EQ(std::bit_cast<std::uint64_t>(actual),
              std::bit_cast<std::uint64_t>(expected));
  }
}

class Decode : public testing::TestWithParam<DTypeTraits> {
 protected:
  const DType dtype_ = GetParam().id;
  const std::vector<std::byte> bytes_ = some_bytes();
  static constexpr std::int64_t kCount = 301;
};

TEST_P(Decode, F64IsTheValueOfEachElement) {
  std::vector<double> out(kCount);
  decode_f64(dtype_, bytes_.data(), kCount, out.data());
  for (std::int64_t i = 0; i < kCount; ++i) {
    SCOPED_TRACE(i);
    expect_same(out[static_cast<std::size_t>(i)],
                load_as_double(dtype_, bytes_.data(), i));
  }
}

TEST_P(Decode, F32IsExactWhereItFits) {
  if (!fits_f32(dtype_)) return;
  std::vector<float> out(kCount);
  decode_f32(dtype_, bytes_.data(), kCount, out.data());
  for (std::int64_t i = 0; i < kCount; ++i) {
    SCOPED_TRACE(i);
    expect_same(out[static_cast<std::size_t>(i)],
                load_as_double(dtype_, bytes_.data(), i));
  }
}

TEST_P(Decode, Bf16IsExactWhereItFits) {
  if (!fits_bf16(dtype_)) return;
  std::vector<std::uint16_t> out(kCount);
  decode_bf16(dtype_, bytes_.data(), kCount, out.data());
  for (std::int64_t i = 0; i < kCount; ++i) {
    SCOPED_TRACE(i);
    expect_same(decode_float(DType::kBF16, out[static_cast<std::size_t>(i)]),
                load_as_double(dtype_, bytes_.data(), i));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDType, Decode, testing::ValuesIn(kDTypes),
                         [](const auto& test) {
                           return std::string(test.param.short_name);
                         });

}  // namespace
}  // namespace assay
