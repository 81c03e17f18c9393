// The Hadamard transform against its definition.
#include "assay/te/quantize/hadamard.h"

#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/error.h"
#include "tests/te/quantize/values.h"

namespace assay::te {
namespace {

// x . H in fp64, of the run that element i is in.
double product(const Tensor& x, const Tensor& h, std::int64_t i) {
  double sum = 0;
  for (std::int64_t j = 0; j < 16; ++j)
    sum += value_at(x, i / 16 * 16 + j) * value_at(h, j * 16 + i % 16);
  return sum;
}

TEST(Hadamard, MatrixIsOrthogonal) {
  const Tensor h = hadamard_matrix();
  for (int a = 0; a < 16; ++a) {
    for (int b = 0; b < 16; ++b) {
      double dot = 0;
      for (int i = 0; i < 16; ++i)
        dot += value_at(h, a * 16 + i) * value_at(h, b * 16 + i);
      EXPECT_EQ(dot, a == b ? 1.0 : 0.0);
    }
  }
}

TEST(Hadamard, SignsOfTheRecipe) {
  const Tensor h = hadamard_matrix();
  const int signs[] = {1,  1,  1,  -1, 1,  -1, -1, -1,
                       -1, -1, -1, 1,  -1, 1,  -1, -1};
  for (int i = 0; i < 16; ++i) EXPECT_EQ(value_at(h, i * 16), signs[i] * 0.25);
}

TEST(Hadamard, RowsAgainstTheProduct) {
  const Tensor x = random_values(DType::kBF16, {3, 7, 64}, 41, 3);
  const Tensor y = hadamard_transform(x), h = hadamard_matrix();
  EXPECT_EQ(y.shape(), x.shape());
  double amax = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i)
    amax = std::max(amax, std::abs(value_at(x, i)));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double expected = product(x, h, i);
    // Half an ulp of bf16, and the fp32 sums of sixteen.
    EXPECT_NEAR(value_at(y, i), expected,
                std::abs(expected) * 0x1p-8 + amax * 0x1p-20);
  }
}

TEST(Hadamard, TransposedIsThatOfTheTranspose) {
  for (const std::int64_t rows : {16, 128, 144, 272}) {
    const Tensor x = random_values(DType::kBF16, {rows, 75}, 42, 3);
    Tensor t = x;
    t.view.strides = {1, 75};
    t.view.shape = {75, rows};
    const Tensor a = hadamard_transform_transposed(x, 0x1234);
    EXPECT_EQ(a.shape(), t.shape());
    EXPECT_EQ(bytes_of(a), bytes_of(hadamard_transform(t, 0x1234)));
    const HadamardAmax amax = hadamard_transform_amax(x, 0x1234);
    double most = 0, plain = 0;
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      most = std::max(most, std::abs(value_at(a, i)));
      plain = std::max(plain, std::abs(value_at(x, i)));
    }
    EXPECT_EQ(amax.columns, most);
    EXPECT_EQ(amax.rows, plain);
  }
}

TEST(Hadamard, WhatItDoesNotTake) {
  EXPECT_THROW(hadamard_transform(Tensor::zeros(DType::kF32, {16})), Error);
  EXPECT_THROW(hadamard_transform(Tensor::zeros(DType::kBF16, {24})), Error);
  EXPECT_THROW(
      hadamard_transform_transposed(Tensor::zeros(DType::kBF16, {24, 16})),
      Error);
}

}  // namespace
}  // namespace assay::te
