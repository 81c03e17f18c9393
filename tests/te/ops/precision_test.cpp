// Switching an operator's precision by name, and the accumulators behind it.
#include "assay/te/precision.h"

#include <gtest/gtest.h>

#include "assay/base/error.h"

namespace assay::te {
namespace {

template <typename Term>
double sum(InternalPrecision precision, int n, Term term) {
  return with_accumulator(precision, DType::kBF16, [&](auto make) {
    auto acc = make();
    for (int i = 0; i < n; ++i)
      acc.add(static_cast<typename decltype(acc)::Real>(term(i)));
    return static_cast<double>(acc.total());
  });
}

// A running bf16 sum of ones stops at 256: 256 + 1 is a tie and goes to even.
TEST(InternalPrecision, F48_WorkingPrecisionStallsWhereItMust) {
  const auto one = [](int) { return 1.0; };
  EXPECT_EQ(sum(InternalPrecision::kWorking, 1024, one), 256);
  EXPECT_EQ(sum(InternalPrecision::kF32, 1024, one), 1024);
}

// 1 + 2^-25 + 2^-25: fp32 loses both, the pair is half an ulp and compensation
// keeps it, fp64 is exact.
TEST(InternalPrecision, OrderedByWhatTheyKeep) {
  const auto term = [](int i) { return i == 0 ? 1.0 : 0x1p-25; };
  EXPECT_EQ(sum(InternalPrecision::kF32, 5, term), 1.0);
  EXPECT_EQ(sum(InternalPrecision::kF64, 5, term), 1.0 + 0x1p-23);
  EXPECT_EQ(sum(InternalPrecision::kCompensated, 5, term), 1.0 + 0x1p-23);
  const auto quarters = [](int i) { return i < 4 ? 0.25 : 0x1p-25; };
  EXPECT_EQ(sum(InternalPrecision::kF32, 8, quarters), 1.0);
  EXPECT_EQ(sum(InternalPrecision::kPairwise, 8, quarters), 1.0 + 0x1p-23);
}

TEST(PrecisionScope, InnermostWins) {
  using enum InternalPrecision;
  EXPECT_EQ(effective_precision("softmax", kF32), kF32);
  PrecisionScope outer("softmax", kF64);
  EXPECT_EQ(effective_precision("softmax", kF32), kF64);
  EXPECT_EQ(effective_precision("rmsnorm", kF32), kF32);
  {
    PrecisionScope inner("softmax", kWorking);
    EXPECT_EQ(effective_precision("softmax", kF32), kWorking);
  }
  EXPECT_EQ(effective_precision("softmax", kF32), kF64);
}

TEST(PrecisionScope, UnknownNamesAreListed) {
  try {
    PrecisionScope scope("relu", InternalPrecision::kF64);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cross_entropy"),
              std::string::npos);
  }
}

TEST(InternalPrecision, NamesAreOneToOne) {
  for (InternalPrecision p : kInternalPrecisions)
    EXPECT_EQ(parse_precision(precision_name(p)), p);
  EXPECT_FALSE(parse_precision("fp16"));
}

}  // namespace
}  // namespace assay::te
