// The dtype table agrees with itself and with the spellings of others.
#include "assay/core/dtype.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace assay {
namespace {

TEST(DType, RowsAreInEnumOrderAndUnique) {
  std::set<std::string_view> names, short_names;
  std::set<int> onnx;
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeTraits& t = kDTypes[static_cast<std::size_t>(i)];
    EXPECT_EQ(static_cast<int>(t.id), i) << t.name;
    EXPECT_TRUE(names.insert(t.name).second) << t.name;
    EXPECT_TRUE(short_names.insert(t.short_name).second) << t.name;
    EXPECT_TRUE(t.onnx == 0 || onnx.insert(t.onnx).second) << t.name;
  }
}

TEST(DType, BitsAddUp) {
  for (const DTypeTraits& t : kDTypes) {
    if (t.kind != DTypeKind::kFloat) continue;
    EXPECT_EQ(t.is_signed + t.exponent_bits + t.mantissa_bits, t.bits)
        << t.name;
  }
  for (const DType d : {DType::kC64, DType::kC128}) {
    EXPECT_EQ(traits(component(d)).bits * 2, traits(d).bits);
    EXPECT_EQ(traits(component(d)).mantissa_bits, traits(d).mantissa_bits);
  }
  EXPECT_EQ(component(DType::kBF16), DType::kBF16);
}

TEST(DType, UnitRoundoff) {
  EXPECT_EQ(unit_roundoff(DType::kE4M3FN), 0.0625);
  EXPECT_EQ(unit_roundoff(DType::kBF16), 0.00390625);
  EXPECT_EQ(unit_roundoff(DType::kF32), 0x1p-24);
  EXPECT_EQ(unit_roundoff(DType::kF64), 0x1p-53);
  EXPECT_EQ(unit_roundoff(DType::kC64), 0x1p-24);
  EXPECT_EQ(unit_roundoff(DType::kI32), 0);
}

TEST(DType, ParsesItsOwnNames) {
  for (const DTypeTraits& t : kDTypes) {
    EXPECT_EQ(parse_dtype(t.name), t.id) << t.name;
    EXPECT_EQ(parse_dtype(t.short_name), t.id) << t.short_name;
    EXPECT_EQ(parse_dtype(std::string("torch.").append(t.name)), t.id);
    if (!t.safetensors.empty()) {
      EXPECT_EQ(parse_dtype(t.safetensors), t.id) << t.safetensors;
    }
    if (!t.numpy.empty()) {
      EXPECT_EQ(parse_dtype(std::string("<").append(t.numpy)), t.id) << t.numpy;
    }
  }
}

TEST(DType, ParsesOtherSpellings) {
  EXPECT_EQ(parse_dtype("Float32"), DType::kF32);
  EXPECT_EQ(parse_dtype("BFloat16"), DType::kBF16);
  EXPECT_EQ(parse_dtype("mindspore.bfloat16"), DType::kBF16);
  EXPECT_EQ(parse_dtype("half"), DType::kF16);
  EXPECT_EQ(parse_dtype("fp16"), DType::kF16);
  EXPECT_EQ(parse_dtype("double"), DType::kF64);
  EXPECT_EQ(parse_dtype("e4m3"), DType::kE4M3FN);
  EXPECT_EQ(parse_dtype("torch.float4_e2m1fn_x2"), DType::kE2M1);
  EXPECT_EQ(parse_dtype("long"), DType::kI64);
  EXPECT_EQ(parse_dtype("|b1"), DType::kBool);
  EXPECT_EQ(parse_dtype(">i8"), DType::kI64);  // numpy: eight bytes
  EXPECT_EQ(parse_dtype("i8"), DType::kI8);    // ours: eight bits
}

TEST(DType, RefusesTheRest) {
  for (const char* text : {"", "torch.Tensor", "float3", "f128", "<", "<x4",
                           "torch.", "<f3", "str", "F32x", "float8_e4m3"}) {
    EXPECT_FALSE(parse_dtype(text)) << text;
  }
}

// safetensors' "F4" has four bits, numpy's "f4" four bytes: without its byte
// order nobody can tell which one the lower-case spelling means.
TEST(DType, AmbiguousF4IsRefused) {
  EXPECT_EQ(parse_dtype("F4"), DType::kE2M1);
  EXPECT_EQ(parse_dtype("<f4"), DType::kF32);
  EXPECT_FALSE(parse_dtype("f4"));
}

TEST(DType, StorageBytes) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(storage_bytes(DType::kF32, 0), 0);
  EXPECT_EQ(storage_bytes(DType::kF32, 3), 12);
  EXPECT_EQ(storage_bytes(DType::kC128, 3), 48);
  EXPECT_EQ(storage_bytes(DType::kE2M1, 4), 2);
  EXPECT_EQ(storage_bytes(DType::kE2M1, 5), 3);
  EXPECT_EQ(storage_bytes(DType::kE2M1, kMax), kMax / 2 + 1);
  EXPECT_EQ(storage_bytes(DType::kU8, kMax), kMax);
  EXPECT_FALSE(storage_bytes(DType::kI16, kMax));
  EXPECT_FALSE(storage_bytes(DType::kF64, kMax / 8 + 1));
  EXPECT_EQ(storage_bytes(DType::kF64, kMax / 8), kMax / 8 * 8);
  EXPECT_FALSE(storage_bytes(DType::kU8, -1));
}

}  // namespace
}  // namespace assay
