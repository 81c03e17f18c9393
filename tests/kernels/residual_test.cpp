// The residual kernel: every table, dtype, set of operands and length.
#include "assay/kernels/residual.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "assay/core/dtype.h"
#include "assay/kernels/float_width.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

using Bytes = std::vector<std::byte>;

Bytes stored(DType dtype, std::int64_t n, std::uint64_t seed) {
  Bytes bytes(static_cast<std::size_t>(n * traits(dtype).bits / 8));
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < n; ++i)
    store_from_double(dtype, normal(rng), bytes.data(), i);
  return bytes;
}

struct Case {
  DType dtype;
  std::int64_t n;
  bool bias, mask, residual;
  float scale;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (DType dtype : kFloatWidthDTypes)
    for (std::int64_t n : {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 65, 1000})
      for (int has = 0; has < 8; ++has)
        all.push_back({dtype, n, (has & 1) != 0, (has & 2) != 0, (has & 4) != 0,
                       has % 2 == 0 ? 1.25f : 1.0f});
  return all;
}

// The bound of kernels/residual.h and one rounding to the dtype, against the
// definition in fp64; nothing beyond the end; vector tables bit by bit.
TEST(ResidualKernels, EveryTableFollowsTheDefinition) {
  for (const Case& c : cases()) {
    const Bytes x = stored(c.dtype, c.n, 1), b = stored(c.dtype, c.n, 2),
                r = stored(c.dtype, c.n, 3);
    std::vector<std::uint8_t> mask(static_cast<std::size_t>(c.n / 8 + 1));
    std::mt19937 rng(4);
    for (auto& byte : mask) byte = static_cast<std::uint8_t>(rng());
    Bytes first;
    for (const ResidualKernels* table : all_residual_kernels()) {
      const std::size_t end = x.size();
      Bytes out(end + 1, std::byte{0x5a});
      table->add({c.dtype, x.data(), c.bias ? b.data() : nullptr,
                  c.mask ? mask.data() : nullptr, c.scale,
                  c.residual ? r.data() : nullptr, c.n, out.data()});
      ASSERT_EQ(out[end], std::byte{0x5a}) << table->isa << " " << c.n;
      for (std::int64_t i = 0; i < c.n; ++i) {
        const auto at = [&](const Bytes& from) {
          return load_as_double(c.dtype, from.data(), i);
        };
        const auto m = static_cast<std::size_t>(i / 8);
        const bool kept = !c.mask || (mask[m] >> i % 8 & 1) != 0;
        const double bias = c.bias ? at(b) : 0, rest = c.residual ? at(r) : 0;
        const double term = kept ? double{c.scale} * (at(x) + bias) : 0;
        const double size =
            std::fabs(rest) +
            (kept ? double{c.scale} * (std::fabs(at(x)) + std::fabs(bias)) : 0);
        const double u = unit_roundoff(c.dtype);
        ASSERT_NEAR(at(out), rest + term,
                    3 * 0x1p-24 * size + 1.01 * u * std::fabs(rest + term))
            << table->isa << " " << traits(c.dtype).name << " " << i;
      }
      if (std::string_view(table->isa) == "scalar") continue;
      if (first.empty()) first = out;
      ASSERT_EQ(first, out) << table->isa;
    }
  }
}

// Infinity over infinity and NaN under a mask: neither shows.
TEST(ResidualKernels, WhatIsDroppedDoesNotShow) {
  const float bad[3] = {std::numeric_limits<float>::infinity(), std::nanf(""),
                        -std::numeric_limits<float>::infinity()};
  const float rest[3] = {1, 2, 3};
  const std::uint8_t none = 0;
  for (const ResidualKernels* table : all_residual_kernels()) {
    float out[3] = {};
    table->add({DType::kF32, bad, nullptr, &none, 2, rest, 3, out});
    EXPECT_EQ(std::memcmp(out, rest, sizeof out), 0) << table->isa;
    table->add({DType::kF32, bad, nullptr, &none, 2, nullptr, 3, out});
    for (float v : out) EXPECT_TRUE(v == 0 && !std::signbit(v)) << table->isa;
  }
}

}  // namespace
}  // namespace assay
