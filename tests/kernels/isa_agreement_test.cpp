// Every instruction set of this machine gives the bits of the plain kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "assay/kernels/kernels.h"
#include "tests/kernels/kernel_inputs.h"

namespace assay {
namespace {

constexpr std::int64_t kLengths[] = {32, 64, 96, 1024, 1056, 4128, kChunk};

template <typename T>
struct Kernel {
  DType dtype;
  PairFn<T> KernelTable::*pair;
  DetailFn<T> KernelTable::*detail;
};

// Doubles that are equal, or both NaN: -0 and +0 are equal here.
template <typename Numbers>
void expect_same(const Numbers& a, const Numbers& b, const char* what) {
  const std::size_t n = sizeof(a) / sizeof(double);
  double da[sizeof(a) / sizeof(double)], db[sizeof(b) / sizeof(double)];
  std::memcpy(da, &a, sizeof(a));
  std::memcpy(db, &b, sizeof(b));
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_TRUE(da[i] == db[i])
        << what << " " << i << ": " << da[i] << " and " << db[i];
  }
}

void expect_equal(const ChunkSums& a, const ChunkSums& b) {
  expect_same(a.lane, b.lane, "lane");
  EXPECT_EQ(a.x_min, b.x_min);
  EXPECT_EQ(a.x_max, b.x_max);
  EXPECT_EQ(a.y_min, b.y_min);
  EXPECT_EQ(a.y_max, b.y_max);
  EXPECT_EQ(a.max_abs, b.max_abs);
  EXPECT_EQ(a.max_rel, b.max_rel);
  EXPECT_EQ(a.mismatches, b.mismatches);
  EXPECT_EQ(a.zero_sign_flips, b.zero_sign_flips);
  EXPECT_EQ(a.sign_flips, b.sign_flips);
  EXPECT_EQ(a.golden_zeros, b.golden_zeros);
}

void expect_equal(const DetailSums& a, const DetailSums& b) {
  expect_same(a.ulp_sum, b.ulp_sum, "ulp_sum");
  expect_same(a.large_rel_sum, b.large_rel_sum, "large_rel_sum");
  expect_same(a.large_dd_sum, b.large_dd_sum, "large_dd_sum");
  expect_same(a.block_dd, b.block_dd, "block_dd");
  EXPECT_EQ(a.ulp_max, b.ulp_max);
  EXPECT_EQ(a.worst_excess, b.worst_excess);
  EXPECT_EQ(a.large_rel_max, b.large_rel_max);
  EXPECT_EQ(a.rel_over_1e3, b.rel_over_1e3);
  EXPECT_EQ(a.rel_over_5e3, b.rel_over_5e3);
  EXPECT_EQ(a.over_bound, b.over_bound);
  EXPECT_EQ(a.small_count, b.small_count);
  EXPECT_EQ(a.small_errors, b.small_errors);
  EXPECT_EQ(a.rel_histogram, b.rel_histogram);
  EXPECT_EQ(a.ulp_histogram, b.ulp_histogram);
}

DetailParams params_of(DType dtype, bool small) {
  const DTypeTraits& t = traits(dtype);
  DetailParams params;
  params.mantissa_bits = t.mantissa_bits;
  params.min_exponent = 1 - t.bias;
  params.max_finite = max_finite(dtype);
  params.atol = 1e-6;
  params.rtol = 1e-3;
  params.ulps = 1;
  if (small) params.small_threshold = 0.125;
  params.small_bound = 1e-4;
  return params;
}

template <typename T>
void check(const KernelTable& table, const Kernel<T>& kernel,
           const Pair<T>& pair, std::int64_t n) {
  const KernelTable& plain = *all_kernels().back();
  ChunkSums ours, oracle;
  const ChunkState state =
      (table.*kernel.pair)(pair.x.data(), pair.y.data(), n, ours);
  ASSERT_EQ(state,
            (plain.*kernel.pair)(pair.x.data(), pair.y.data(), n, oracle));
  if (state != ChunkState::kUntrusted) expect_equal(ours, oracle);
  for (const bool small : {false, true}) {
    const DetailParams params = params_of(kernel.dtype, small);
    DetailSums d, expected;
    const bool done =
        (table.*kernel.detail)(pair.x.data(), pair.y.data(), n, params, d);
    ASSERT_EQ(done, (plain.*kernel.detail)(pair.x.data(), pair.y.data(), n,
                                           params, expected));
    if (done) expect_equal(d, expected);
  }
}

template <typename T>
void check_all(const Kernel<T>& kernel) {
  for (const KernelTable* table : all_kernels()) {
    for (const Flavour flavour : kFlavours) {
      for (const std::int64_t n : kLengths) {
        SCOPED_TRACE(testing::Message()
                     << table->isa << ", " << traits(kernel.dtype).short_name
                     << ", flavour " << static_cast<int>(flavour) << ", n "
                     << n);
        check(*table, kernel,
              make_pair_of<T>(kernel.dtype, flavour, n,
                              static_cast<std::uint64_t>(n)),
              n);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(IsaAgreement, F64) {
  check_all(Kernel<double>{DType::kF64, &KernelTable::pair_f64,
                           &KernelTable::detail_f64});
}
TEST(IsaAgreement, F32) {
  check_all(Kernel<float>{DType::kF32, &KernelTable::pair_f32,
                          &KernelTable::detail_f32});
}
TEST(IsaAgreement, Bf16) {
  check_all(Kernel<std::uint16_t>{DType::kBF16, &KernelTable::pair_bf16,
                                  &KernelTable::detail_bf16});
}
TEST(IsaAgreement, F16) {
  check_all(Kernel<std::uint16_t>{DType::kF16, &KernelTable::pair_f16,
                                  &KernelTable::detail_f16});
}

TEST(IsaAgreement, WidensEveryCodeAsTheSpecification) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint16_t>(i);
  std::vector<double> out(codes.size());
  const auto expect_spec = [&](DType dtype) {
    for (const std::uint16_t code : codes) {
      const double expected = decode_float(dtype, code);
      if (is_nan(expected)) {
        ASSERT_TRUE(is_nan(out[code])) << code;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint64_t>(out[code]),
                  std::bit_cast<std::uint64_t>(expected))
            << code;
      }
    }
  };
  for (const KernelTable* table : all_kernels()) {
    SCOPED_TRACE(table->isa);
    table->widen_bf16(codes.data(), 65536, out.data());
    expect_spec(DType::kBF16);
    table->widen_f16(codes.data(), 65536, out.data());
    expect_spec(DType::kF16);
  }
}

}  // namespace
}  // namespace assay
