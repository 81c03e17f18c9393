#include "assay/core/value_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace assay {
namespace {

TEST(ValueText, ShortestInItsOwnDtype) {
  EXPECT_EQ(value_text(DType::kF32, 0.1f), "0.1");
  EXPECT_EQ(value_text(DType::kBF16, 0.10009765625), "0.100097656");
  EXPECT_EQ(value_text(DType::kC64, -2.5), "-2.5");
}

TEST(ValueText, Float64KeepsItsNeighboursApart) {
  EXPECT_EQ(value_text(DType::kF64, 0.1), "0.1");
  EXPECT_EQ(value_text(DType::kF64, 0.1f), "0.10000000149011612");
}

TEST(ValueText, IntegersInFull) {
  EXPECT_EQ(value_text(DType::kI64, 16777217.0), "16777217");
}

TEST(ValueText, NotFinite) {
  EXPECT_EQ(value_text(DType::kF32, HUGE_VAL), "inf");
  EXPECT_EQ(value_text(DType::kF32, std::nan("")), "nan");
}

}  // namespace
}  // namespace assay
