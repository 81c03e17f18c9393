#include "assay/te/parallel/quantized_rows.h"

#include <gmock/gmock.h>

#include "assay/te/parallel/transfer_checks.h"
#include "tests/te/parallel/parallel_test.h"
#include "tests/te/parallel/recipe_quantizers.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

TEST(QuantizedRows, JoiningSlicesGivesTheTensorBack) {
  const std::int64_t rows[] = {128, 0, 256, 32};
  for (auto& [name, quantizer] : recipe_quantizers(nullptr)) {
    const auto q = quantizer->quantize(normal(DType::kBF16, {416, 96}, 1));
    const auto slices = slice_rows(q, rows);
    ASSERT_EQ(slices.size(), 4u);
    EXPECT_EQ(slices[1].shape, (Shape{0, 96}));
    expect_same_quantized(concatenate_rows(slices), q, name);
  }
}

// Where scales are those of blocks, rows cut out are rows quantised alone.
TEST(QuantizedRows, ASliceIsWhatQuantisingItGives) {
  const std::int64_t rows[] = {128, 64};
  const Tensor x = normal(DType::kBF16, {192, 160}, 2);
  for (auto& [name, quantizer] : recipe_quantizers(nullptr)) {
    if (name == "current" || name.find("nvfp4") == 0) continue;
    const auto slices = slice_rows(quantizer->quantize(x), rows);
    Tensor head = x, tail = x;
    head.view.shape[0] = 128;
    tail.view.shape[0] = 64;
    tail.view.data += 128 * 160 * 2;
    auto first = quantizer->clone()->quantize(head);
    auto second = quantizer->clone()->quantize(tail);
    // Delayed scaling's amax is that of what was quantised together.
    for (auto* q : {&first, &second}) {
      if (q->rowwise) q->rowwise->amax = Tensor{};
      if (q->columnwise) q->columnwise->amax = Tensor{};
    }
    expect_same_quantized(slices[0], first, name);
    expect_same_quantized(slices[1], second, name + " tail");
  }
}

TEST(QuantizedRows, CutsThroughBlocksAreRefused) {
  const std::int64_t rows[] = {24, 104};
  for (auto& [name, quantizer] : recipe_quantizers(nullptr)) {
    const bool free =
        name.find("delayed") == 0 || name == "current" || name == "identity";
    const auto q = quantizer->quantize(normal(DType::kBF16, {128, 64}, 3));
    const std::string error = error_of([&] { slice_rows(q, rows); });
    if (free || name == "hybrid") {
      EXPECT_EQ(error, "no error") << name;
    } else {
      EXPECT_THAT(error, HasSubstr("slice_rows: rows: a cut before row 24"))
          << name;
    }
  }
  const auto q =
      MXFP8Quantizer(DType::kE4M3FN).quantize(normal(DType::kF32, {64, 32}, 4));
  const std::int64_t wrong[] = {32, 31};
  EXPECT_THAT(error_of([&] { slice_rows(q, wrong); }),
              HasSubstr("slice_rows: rows"));
}

TEST(QuantizedRows, PartsThatDoNotBelongTogetherAreRefused) {
  MXFP8Quantizer e4m3(DType::kE4M3FN), e5m2(DType::kE5M2);
  const Tensor x = normal(DType::kBF16, {32, 64}, 5);
  const auto error = [](QuantizedTensor a, QuantizedTensor b) {
    const QuantizedTensor parts[] = {std::move(a), std::move(b)};
    return error_of([&] { concatenate_rows(parts); });
  };
  EXPECT_THAT(error(e4m3.quantize(x), e5m2.quantize(x)),
              HasSubstr("concatenate_rows: parts: mxfp8 float8_e5m2"));
  EXPECT_THAT(
      error(e4m3.quantize(x), e4m3.quantize(normal(DType::kBF16, {32, 32}, 5))),
      HasSubstr("64 columns"));
  QuantizedTensor one_way = e4m3.quantize(x);
  one_way.columnwise.reset();
  EXPECT_THAT(error(e4m3.quantize(x), one_way), HasSubstr("other directions"));
  EXPECT_THAT(error_of([] { concatenate_rows({}); }), HasSubstr("none"));
  // The first of the parts ends within a tile of 128 rows.
  Block128Quantizer tiles({DType::kE4M3FN, 2});
  EXPECT_THAT(error(tiles.quantize(x), tiles.quantize(x)),
              HasSubstr("a cut before row 32"));
  // A part without rows has no say in the scale.
  CurrentScalingQuantizer current({});
  const auto q = current.quantize(x);
  const QuantizedTensor parts[] = {
      current.quantize(normal(DType::kBF16, {0, 64}, 6)), q};
  expect_same_quantized(concatenate_rows(parts), q, "empty part");
}

// Offsets and sizes are 64-bit: blocks of 2^31 and 2^32 bytes, by arithmetic.
TEST(Transport, F41_SizesBeyond32Bits) {
  const std::int64_t big = std::int64_t{1} << 31;
  const std::int64_t sizes[] = {big, 2 * big, 1};
  EXPECT_EQ(block_offsets(sizes),
            (std::vector<std::size_t>{0, std::size_t{1} << 31,
                                      (std::size_t{1} << 31) * 3}));
  EXPECT_NO_THROW(check_block_sizes("from", sizes,
                                    static_cast<std::size_t>(3 * big + 1), 3));
  EXPECT_NO_THROW(
      check_all_gather(std::size_t{1} << 31, std::size_t{1} << 33, 4));
  EXPECT_THAT(error_of([&] {
                check_all_gather(std::size_t{1} << 31, std::size_t{1} << 32, 4);
              }),
              HasSubstr("8589934592, 4 ranks of 2147483648"));
}

}  // namespace
}  // namespace assay::te
