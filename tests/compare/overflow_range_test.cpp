// What is finite but at the edge of its dtype.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "overflow_util.h"

namespace assay::test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(OverflowRange, NearIsBeyondHalfOfFloat16) {
  TraceBuilder b;
  b.op("Torch.mul.0.forward");
  b.tensor(Role::kOutput, "output.0", tensor_of(DType::kF16, {1, -40000}));
  b.tensor(Role::kOutput, "output.1", tensor_of(DType::kF16, {32752, 1}));
  b.tensor(Role::kOutput, "output.2", tensor_of(DType::kBF16, {3e38, 1}));
  const OverflowReport r = search(b);
  EXPECT_FALSE(r.first);
  ASSERT_THAT(r.near, SizeIs(1));  // 32752 is half of 65504, not beyond
  EXPECT_EQ(r.near[0].name, "Torch.mul.0.forward.output.0");
  EXPECT_EQ(r.near[0].largest, 40000);
  EXPECT_EQ(r.near[0].dtype_max, 65504);
  EXPECT_THAT(r.quantised, IsEmpty());
}

TEST(OverflowRange, AValueThatIsHandedOnCountsOnce) {
  TraceBuilder b;
  b.op("Torch.mul.0.forward");
  b.tensor(Role::kOutput, "output.0", tensor_of(DType::kF16, {1, -40000}));
  b.op("Torch.abs.0.forward");
  b.tensor(Role::kInput, "input.0", tensor_of(DType::kF16, {1, -40000}));
  EXPECT_THAT(search(b).near, SizeIs(1));
}

TEST(OverflowRange, AConstantThatWasAskedForIsNotNear) {
  TraceBuilder b;
  b.op("Tensor.masked_fill.0.forward").value("input.2", "float", "-65504.0");
  b.tensor(Role::kOutput, "output.0", tensor_of(DType::kF16, {1, -65504}));
  EXPECT_THAT(search(b).near, IsEmpty());
}

// Two of eight ended at 448; of five zeros two were there before.
TEST(OverflowRange, SaturationAndUnderflowOfFp8) {
  TraceBuilder b;
  b.op("Functional.quantize.0.forward");
  b.tensor(Role::kInput, "input.0",
           tensor_of(DType::kF32, {1e4, -500, 1, 1e-9, -1e-9, 1e-8, 0, 0}));
  b.tensor(Role::kOutput, "output.0",
           tensor_of(DType::kE4M3FN, {448, -448, 1, 0, 0, 0, 0, 0}));
  b.tensor(Role::kOutput, "output.1", tensor_of(DType::kF32, {2}));
  const OverflowReport r = search(b);
  EXPECT_FALSE(r.first);
  ASSERT_THAT(r.quantised, SizeIs(1));
  const RangeNote& note = r.quantised[0];
  EXPECT_EQ(note.dtype, "float8_e4m3fn");
  EXPECT_EQ(note.count, 8);
  EXPECT_EQ(note.saturated, 2);
  EXPECT_EQ(note.zeros, 5);
  EXPECT_EQ(note.underflow, 3);
  EXPECT_EQ(note.share(), 3.0 / 8);
  EXPECT_THAT(r.near, IsEmpty());
}

TEST(OverflowRange, WithoutTheSourceThereAreOnlyZeros) {
  TraceBuilder b;
  b.op("Functional.gemm.0.forward");
  b.tensor(Role::kInput, "input.0", tensor_of(DType::kE5M2, {0, 2, 3, 0}));
  b.tensor(Role::kInput, "input.1", tensor_of(DType::kE5M2, {1, 49152}));
  const OverflowReport r = search(b);
  ASSERT_THAT(r.quantised, SizeIs(1));
  EXPECT_EQ(r.quantised[0].zeros, 2);
  EXPECT_EQ(r.quantised[0].underflow, -1);
  ASSERT_THAT(r.near, SizeIs(1));  // 49152 of 57344, not saturated
  EXPECT_EQ(r.near[0].name, "Functional.gemm.0.forward.input.1");
}

TEST(OverflowRange, CountsOfACaptureNeedNoElements) {
  TraceBuilder b;
  b.op("Functional.quantize.0.forward");
  b.statistics(Role::kInput, "input.0", {8}, 9, -9, 1, 10);
  b.last().zeros = 1;
  b.statistics(Role::kOutput, "output.0", {8}, 448, -3, 1, 450);
  b.last().facts.dtype = DType::kE4M3FN;
  b.last().zeros = 3;
  b.last().saturated = 4;
  const OverflowReport r = search(b);
  ASSERT_THAT(r.quantised, SizeIs(1));
  EXPECT_EQ(r.quantised[0].underflow, 2);
  EXPECT_EQ(r.quantised[0].share(), 0.5);
}

}  // namespace
}  // namespace assay::test
