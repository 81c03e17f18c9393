// Widening and narrowing: every 16-bit code, every tie.
#include "assay/kernels/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "assay/numerics/element.h"

namespace assay {
namespace {

TEST(ConvertKernels, WidenEveryCode) {
  std::vector<std::uint16_t> codes(0x10000);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint16_t>(i);
  const auto* bytes = reinterpret_cast<const std::byte*>(codes.data());
  for (const ConvertKernels* kernels : all_convert_kernels())
    for (DType dtype : {DType::kBF16, DType::kF16})
      for (std::int64_t n : {0x10000, 0xffff, 17, 0}) {
        std::vector<float> out(0x10000 + 1, 42.0f);
        kernels->widen[float_width(dtype)](bytes, n, out.data());
        for (std::int64_t i = 0; i < n; ++i) {
          const double expected = load_as_double(dtype, bytes, i);
          const float found = out[static_cast<std::size_t>(i)];
          ASSERT_TRUE(static_cast<double>(found) == expected ||
                      (std::isnan(found) && std::isnan(expected)))
              << kernels->isa << " code " << i;
        }
        ASSERT_EQ(out[static_cast<std::size_t>(n)], 42.0f);
      }
}

// One fp64 addition each: what the loops over the specification give.
TEST(ConvertKernels, AccumulateEveryCode) {
  std::vector<std::uint16_t> codes(0x10000);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint16_t>(i);
  for (const ConvertKernels* kernels : all_convert_kernels())
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
      for (std::int64_t n : {0x8000, 0x7fff, 17, 0}) {
        const auto* bytes = reinterpret_cast<const std::byte*>(codes.data());
        std::vector<double> sums(0x8001, 1.0 / 3);
        for (int times = 0; times < 2; ++times)
          kernels->accumulate[float_width(dtype)](bytes, n, sums.data());
        for (std::int64_t i = 0; i < n; ++i) {
          const double x = load_as_double(dtype, bytes, i);
          const double expected = 1.0 / 3 + x + x;
          const double found = sums[static_cast<std::size_t>(i)];
          ASSERT_TRUE(found == expected ||
                      (std::isnan(found) && std::isnan(expected)))
              << kernels->isa << " code " << i;
        }
        ASSERT_EQ(sums[static_cast<std::size_t>(n)], 1.0 / 3);
      }
}

// Around every code: itself, half way to the next, one fp32 step beside.
std::vector<float> rounding_cases(DType dtype) {
  std::vector<float> cases;
  for (unsigned code = 0; code < 0x10000; ++code) {
    const auto x = static_cast<float>(decode_float(dtype, code));
    cases.push_back(x);
    if (!std::isfinite(x)) continue;
    const auto next = static_cast<float>(decode_float(dtype, code + 1));
    const float middle =
        std::isfinite(next)
            ? static_cast<float>(
                  (static_cast<double>(x) + static_cast<double>(next)) / 2)
            : 2 * x;
    for (float y : {middle, std::nextafter(middle, 0.0f),
                    std::nextafter(middle, std::numeric_limits<float>::max())})
      cases.push_back(y);
  }
  cases.push_back(std::bit_cast<float>(0xffc12345u));  // NaN with a payload
  cases.push_back(std::bit_cast<float>(0x7f800001u));  // signalling
  return cases;
}

TEST(ConvertKernels, NarrowEveryTie) {
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    const std::vector<float> cases = rounding_cases(dtype);
    const auto n = static_cast<std::int64_t>(cases.size());
    for (const ConvertKernels* kernels : all_convert_kernels()) {
      std::vector<std::uint16_t> out(cases.size());
      kernels->narrow[float_width(dtype)](
          cases.data(), n, reinterpret_cast<std::byte*>(out.data()));
      for (std::size_t i = 0; i < cases.size(); ++i)
        ASSERT_EQ(out[i], encode_float(dtype, static_cast<double>(cases[i])))
            << kernels->isa << " " << traits(dtype).name << " of " << cases[i];
    }
  }
}

TEST(ConvertKernels, F32IsCopied) {
  const std::vector<float> in = {1, -0.0f, std::bit_cast<float>(0x7f800001u)};
  for (const ConvertKernels* kernels : all_convert_kernels()) {
    std::vector<float> out(3);
    kernels->widen[0](reinterpret_cast<const std::byte*>(in.data()), 3,
                      out.data());
    EXPECT_EQ(std::memcmp(in.data(), out.data(), 12), 0);
  }
}

}  // namespace
}  // namespace assay
