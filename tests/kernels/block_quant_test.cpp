// Every instruction set against the plain loops, bit for bit: all kernels of
// the block formats over values of many magnitudes, with special ones.
#include "assay/kernels/block_quant.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "assay/kernels/ref/ref_block_quant.h"
#include "assay/numerics/element.h"
#include "assay/numerics/float_format.h"

namespace assay {
namespace {

constexpr DType kInputs[] = {DType::kF32, DType::kBF16, DType::kF16};

enum class Fill { kNormal, kWide, kSpecial, kSmall, kTies };
constexpr Fill kFills[] = {Fill::kNormal, Fill::kWide, Fill::kSpecial,
                           Fill::kSmall, Fill::kTies};

double special(std::mt19937_64& rng) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const double values[] = {0.0, -0.0, kInf, -kInf, kNan, -kNan, 3e38, 1e-44};
  return values[rng() % 8];
}

double draw(Fill fill, std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  const double v = normal(rng);
  switch (fill) {
    case Fill::kWide:
      return v * pow2(static_cast<int>(rng() % 250) - 125);
    case Fill::kSpecial:
      return rng() % 40 == 0 ? special(rng) : v;
    case Fill::kSmall:
      return v * 0x1p-130;
    case Fill::kTies:  // quarters up to 8 and multiples of 2^-10
      return static_cast<double>(static_cast<int>(rng() % 65) - 32) *
             (rng() % 2 ? 0.25 : 0x1p-10);
    default:
      return v;
  }
}

std::vector<std::byte> random_input(DType dtype, std::int64_t n, Fill fill,
                                    std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<std::byte> out(
      static_cast<std::size_t>(n * traits(dtype).bits / 8));
  // Runs of 8 keep their kind: blocks without specials are in between.
  for (std::int64_t i = 0; i < n; ++i) {
    const bool plain = fill == Fill::kSpecial && i / 64 % 2 == 0;
    store_from_double(dtype, draw(plain ? Fill::kNormal : fill, rng),
                      out.data(), i, Overflow::kSpecial);
  }
  return out;
}

using Bytes = std::vector<std::uint8_t>;
Bytes sized(std::int64_t n) { return Bytes(static_cast<std::size_t>(n), 0xaa); }

struct Mxfp8Result {
  Bytes row_codes, row_scales, column_codes, column_scales;
  bool operator==(const Mxfp8Result&) const = default;
};

struct Mxfp8Case {
  DType input, format;
  std::int64_t rows, columns;
  bool row, column, square;
  bool stream = false;
};

Mxfp8Result run(const BlockQuantKernels& k, const Mxfp8Case& c,
                const std::vector<std::byte>& x, std::int64_t stride) {
  const std::int64_t across = (c.columns + 31) / 32;
  Mxfp8Result r{sized(32 * stride), sized(32 * across), sized(32 * stride),
                sized(c.columns)};
  Mxfp8Strip s;
  s.input = c.input;
  s.format = c.format;
  s.square = c.square;
  s.stream = c.stream;
  s.x = x.data();
  s.rows = c.rows;
  s.columns = c.columns;
  s.stride = s.code_stride = stride;
  s.row_scale_stride = across;
  if (c.row) {
    s.row_codes = r.row_codes.data();
    s.row_scales = r.row_scales.data();
  }
  if (c.column) {
    s.column_codes = r.column_codes.data();
    s.column_scales = r.column_scales.data();
  }
  k.mxfp8_quantize(s);
  return r;
}

void compare_mxfp8(const Mxfp8Case& c, Fill fill, std::uint64_t seed) {
  const std::int64_t stride = c.columns + 3;
  const auto x = random_input(c.input, 32 * stride, fill, seed);
  const Mxfp8Result plain = run(kRefBlockQuant, c, x, stride);
  for (const BlockQuantKernels* k : all_block_quant_kernels()) {
    const Mxfp8Result r = run(*k, c, x, stride);
    const std::string what =
        std::string(k->isa) + " " + std::string(traits(c.input).name) + " " +
        std::to_string(c.rows) + "x" + std::to_string(c.columns) + " fill " +
        std::to_string(static_cast<int>(fill));
    EXPECT_EQ(r.row_scales, plain.row_scales) << what;
    EXPECT_EQ(r.row_codes, plain.row_codes) << what;
    EXPECT_EQ(r.column_scales, plain.column_scales) << what;
    EXPECT_EQ(r.column_codes, plain.column_codes) << what;
  }
}

TEST(BlockQuantKernels, Mxfp8IsTheSameOnEverySet) {
  std::uint64_t seed = 1;
  for (const DType input : kInputs)
    for (const Fill fill : kFills)
      for (const DType format : {DType::kE4M3FN, DType::kE5M2})
        for (const bool square : {false, true})
          compare_mxfp8({input, format, 32, 416, true, true, square}, fill,
                        ++seed);
}

TEST(BlockQuantKernels, Mxfp8DirectionsAndEdges) {
  std::uint64_t seed = 100;
  for (const std::int64_t rows : {1, 7, 31, 32})
    for (const std::int64_t columns : {1, 31, 32, 33, 127, 128, 129, 255, 544})
      for (const int directions : {1, 2, 3})
        compare_mxfp8({DType::kBF16, DType::kE4M3FN, rows, columns,
                       (directions & 1) != 0, (directions & 2) != 0, false},
                      Fill::kSpecial, ++seed);
}

// Where rows are aligned to streaming stores, and where they are not.
TEST(BlockQuantKernels, Mxfp8StreamsTheSameBits) {
  std::uint64_t seed = 500;
  for (const std::int64_t padding : {0, 3}) {
    for (const int directions : {1, 2, 3}) {
      const std::int64_t columns = 544, stride = columns + padding;
      const auto x =
          random_input(DType::kBF16, 32 * stride, Fill::kSpecial, ++seed);
      Mxfp8Case c{DType::kBF16,          DType::kE4M3FN,        32,   columns,
                  (directions & 1) != 0, (directions & 2) != 0, false};
      const Mxfp8Result plain = run(kRefBlockQuant, c, x, stride);
      c.stream = true;
      for (const BlockQuantKernels* k : all_block_quant_kernels())
        EXPECT_TRUE(run(*k, c, x, stride) == plain) << k->isa << padding;
    }
  }
}

// Every bf16 value alone in its block, and as the smaller one beside each of a
// few largest values.
TEST(BlockQuantKernels, Mxfp8OfEveryBf16) {
  std::vector<std::byte> x(65536 * 32 * 2);
  for (const std::uint16_t beside : {0x0000, 0x3f80, 0x43e1, 0x7f00, 0x0080}) {
    for (std::uint32_t code = 0; code < 65536; ++code) {
      std::uint16_t block[32] = {};
      block[code % 31 + 1] = static_cast<std::uint16_t>(code);
      block[0] = beside;
      std::memcpy(x.data() + code * 64, block, 64);
    }
    for (std::int64_t part = 0; part < 4; ++part) {
      const Mxfp8Case c{DType::kBF16, DType::kE4M3FN, 32,   16384,
                        true,         false,          false};
      const std::vector<std::byte> quarter(x.begin() + part * (1 << 20),
                                           x.begin() + (part + 1) * (1 << 20));
      const Mxfp8Result plain = run(kRefBlockQuant, c, quarter, 16384);
      for (const BlockQuantKernels* k : all_block_quant_kernels())
        EXPECT_TRUE(run(*k, c, quarter, 16384) == plain) << k->isa;
    }
  }
}

// All codes under all scales, both ways, whole and partial rows.
TEST(BlockQuantKernels, Mxfp8DecodeIsTheSameOnEverySet) {
  constexpr std::int64_t kRowCount = 4, kMost = 256 * 32;
  Bytes codes(kRowCount * kMost), scales(kMost);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(i / 7 + i / 256);
  for (const bool calm : {true, false}) {
    // Calm: codes and scales that the 16-bit way covers, with zeros.
    for (std::size_t i = 0; i < scales.size(); ++i)
      scales[i] = static_cast<std::uint8_t>(calm ? 120 + i % 9 : i % 256);
    if (calm)
      for (std::uint8_t& code : codes)
        code = static_cast<std::uint8_t>(code % 5 == 0 ? code & 0x80
                                                       : 8 | (code & 0xf3));
    for (const DType format : {DType::kE4M3FN, DType::kE5M2})
      for (const DType output : kInputs)
        for (const bool columnwise : {false, true})
          for (const std::int64_t columns : {1, 31, 33, 544, 8192}) {
            Mxfp8Row row;
            row.format = format;
            row.output = output;
            row.columnwise = columnwise;
            row.codes = codes.data();
            row.scales = scales.data();
            row.rows = columnwise ? kRowCount : 1;
            row.columns = columns;
            const auto bytes = static_cast<std::size_t>(
                row.rows * columns * traits(output).bits / 8);
            std::vector<std::byte> plain(bytes), ours(bytes);
            row.out = plain.data();
            kRefBlockQuant.mxfp8_decode(row);
            for (const BlockQuantKernels* k : all_block_quant_kernels()) {
              row.out = ours.data();
              k->mxfp8_decode(row);
              EXPECT_TRUE(ours == plain)
                  << k->isa << " " << traits(format).name << " to "
                  << traits(output).name << " " << columns << columnwise;
            }
          }
  }
}

struct Nvfp4Case {
  DType input;
  bool square, random;
  FourOverSix four_over_six;
  float scale_max;
};

struct Nvfp4Result {
  Bytes codes, scales;
};

Nvfp4Result run(const BlockQuantKernels& k, const Nvfp4Case& c,
                const std::vector<std::byte>& x, std::int64_t blocks,
                float amax) {
  Nvfp4Result r{sized(blocks * 8), sized(blocks)};
  float factors[127];
  Nvfp4Run run;
  run.global = nvfp4_global(amax, c.scale_max);
  for (int i = 0; i < 127; ++i)
    factors[i] = nvfp4_factor(static_cast<std::uint8_t>(i), run.global);
  const RandomStream random{0x123456789abcull, 77, 5};
  run.input = c.input;
  run.x = x.data();
  run.blocks = blocks;
  run.square = c.square;
  run.amax = amax;
  run.factors = factors;
  run.four_over_six = c.four_over_six;
  run.random = c.random ? &random : nullptr;
  run.codes = r.codes.data();
  run.scales = r.scales.data();
  k.nvfp4_quantize(run);
  return r;
}

void compare_nvfp4(const Nvfp4Case& c, std::int64_t blocks, Fill fill,
                   float amax, std::uint64_t seed) {
  const auto x = random_input(c.input, blocks * 16, fill, seed);
  const Nvfp4Result plain = run(kRefBlockQuant, c, x, blocks, amax);
  for (const BlockQuantKernels* k : all_block_quant_kernels()) {
    const Nvfp4Result r = run(*k, c, x, blocks, amax);
    const std::string what = std::string(k->isa) + " " +
                             std::string(traits(c.input).name) + " blocks " +
                             std::to_string(blocks) + " fill " +
                             std::to_string(static_cast<int>(fill)) + " seed " +
                             std::to_string(seed);
    EXPECT_EQ(r.scales, plain.scales) << what;
    EXPECT_EQ(r.codes, plain.codes) << what;
  }
}

TEST(BlockQuantKernels, Nvfp4IsTheSameOnEverySet) {
  std::uint64_t seed = 1000;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const DType input : kInputs)
    for (const Fill fill : kFills)
      for (const float amax : {4.5f, 3e38f, 1e-40f, 0.0f, kInf})
        for (const bool square : {false, true}) {
          const std::int64_t blocks = square ? 16 * 19 : 83;
          for (const bool random : {false, true})
            compare_nvfp4({input, square, random, FourOverSix::kNone, 448.0f},
                          blocks, fill, amax, ++seed);
          compare_nvfp4({input, square, false, FourOverSix::kMae, 448.0f},
                        blocks, fill, amax, ++seed);
          compare_nvfp4({input, square, false, FourOverSix::kMse, 256.0f},
                        blocks, fill, amax, ++seed);
        }
}

// Three runs, five blocks apart in the result, are those one by one.
TEST(BlockQuantKernels, Nvfp4RunsLieApart) {
  constexpr std::int64_t kBlocks = 3, kRuns = 3, kStride = 5;
  const auto x =
      random_input(DType::kBF16, kRuns * kBlocks * 16, Fill::kNormal, 3000);
  float factors[127];
  Nvfp4Run run;
  run.global = nvfp4_global(4.0f, 448.0f);
  for (int i = 0; i < 127; ++i)
    factors[i] = nvfp4_factor(static_cast<std::uint8_t>(i), run.global);
  run.input = DType::kBF16;
  run.blocks = kBlocks;
  run.amax = 4.0f;
  run.factors = factors;
  for (const BlockQuantKernels* k : all_block_quant_kernels()) {
    for (bool with_random : {false, true}) {
      Nvfp4Result got{sized(kRuns * kStride * 8), sized(kRuns * kStride)};
      Nvfp4Result want = got;
      RandomStream random{0x123456789abcull, 77, 5};
      run.random = with_random ? &random : nullptr;
      run.x = x.data();
      run.runs = kRuns;
      run.block_stride = kStride;
      run.codes = got.codes.data();
      run.scales = got.scales.data();
      k->nvfp4_quantize(run);
      run.runs = 1;
      for (std::int64_t i = 0; i < kRuns; ++i, random.first_block += kStride) {
        run.x = x.data() + i * kBlocks * 32;
        run.codes = want.codes.data() + i * kStride * 8;
        run.scales = want.scales.data() + i * kStride;
        kRefBlockQuant.nvfp4_quantize(run);
      }
      EXPECT_EQ(got.codes, want.codes) << k->isa << with_random;
      EXPECT_EQ(got.scales, want.scales) << k->isa << with_random;
    }
  }
}

TEST(BlockQuantKernels, Nvfp4RunsOfEveryLength) {
  for (std::int64_t blocks = 0; blocks <= 34; ++blocks)
    compare_nvfp4({DType::kBF16, false, false, FourOverSix::kNone, 448.0f},
                  blocks, Fill::kSpecial, 4.0f,
                  2000 + static_cast<std::uint64_t>(blocks));
}

// All pairs of codes under all scales.
TEST(BlockQuantKernels, Nvfp4DecodeIsTheSameOnEverySet) {
  Bytes codes(127 * 2 * 8), scales(127 * 2);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = static_cast<std::uint8_t>(i % 127);
  for (const DType output : kInputs) {
    for (const float amax : {1.0f, 2688.0f, 1e-38f, 1e38f, 0.0f}) {
      Nvfp4Decode run;
      run.output = output;
      run.codes = codes.data();
      run.scales = scales.data();
      run.blocks = static_cast<std::int64_t>(scales.size());
      run.amax = amax;
      const std::size_t bytes = scales.size() * 16 *
                                static_cast<std::size_t>(traits(output).bits) /
                                8;
      std::vector<std::byte> plain(bytes), ours(bytes);
      run.out = plain.data();
      kRefBlockQuant.nvfp4_decode(run);
      for (const BlockQuantKernels* k : all_block_quant_kernels()) {
        run.out = ours.data();
        k->nvfp4_decode(run);
        EXPECT_TRUE(ours == plain)
            << k->isa << " " << traits(output).name << " " << amax;
      }
    }
  }
}

TEST(BlockQuantKernels, HadamardIsTheSameOnEverySet) {
  for (const Fill fill : kFills) {
    for (const std::uint16_t signs : {0x0000, 0xd7e8, 0x0001}) {
      const auto x = random_input(DType::kBF16, 37 * 16, fill, 7);
      std::vector<std::uint16_t> in(37 * 16);
      std::memcpy(in.data(), x.data(), x.size());
      std::vector<std::uint16_t> rows = in, columns(16 * 40, 1);
      kRefBlockQuant.hadamard16(rows.data(), 37, signs);
      kRefBlockQuant.hadamard16_columns(in.data(), 37, 37, signs,
                                        columns.data(), 40);
      for (const BlockQuantKernels* k : all_block_quant_kernels()) {
        std::vector<std::uint16_t> ours = in, across(16 * 40, 1);
        k->hadamard16(ours.data(), 37, signs);
        k->hadamard16_columns(in.data(), 37, 37, signs, across.data(), 40);
        EXPECT_EQ(ours, rows) << k->isa;
        EXPECT_EQ(across, columns) << k->isa;
      }
    }
  }
}

// A unit vector gives a row of the matrix: the definition, not the butterfly.
TEST(BlockQuantKernels, HadamardOfUnitVectors) {
  for (const BlockQuantKernels* k : all_block_quant_kernels()) {
    for (int i = 0; i < 16; ++i) {
      std::uint16_t x[16] = {};
      x[i] = 0x3f80;
      k->hadamard16(x, 1, 0x0008);
      for (int j = 0; j < 16; ++j) {
        const int flips =
            __builtin_popcount(static_cast<unsigned>(i & j)) + (i == 3);
        EXPECT_EQ(x[j], flips % 2 ? 0xbe80 : 0x3e80) << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace assay
