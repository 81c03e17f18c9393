// MXFP8 and NVFP4 one element at a time, by the rules in numerics/: what every
// vector kernel must reproduce bit for bit.
#include "assay/kernels/ref/ref_block_quant.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "assay/core/philox.h"
#include "assay/kernels/scalar_half.h"
#include "assay/numerics/element.h"
#include "assay/numerics/mxfp8_scale.h"

namespace assay {
namespace {

float load(DType dtype, const std::byte* x, std::int64_t i) {
  return static_cast<float>(load_as_double(dtype, x, i));
}

// Like std::max, but NaN wins: it must reach the scale.
float max_or_nan(float a, float b) {
  if (is_nan(a) || is_nan(b)) return std::numeric_limits<float>::quiet_NaN();
  return std::max(a, b);
}

struct Block {  // of a strip: rows [r0, r1), columns [c0, c1)
  std::int64_t r0, r1, c0, c1;
};

std::uint8_t scale_of(const Mxfp8Strip& s, const Block& b) {
  float amax = 0;
  for (std::int64_t r = b.r0; r < b.r1; ++r)
    for (std::int64_t c = b.c0; c < b.c1; ++c)
      amax = max_or_nan(amax, std::abs(load(s.input, s.x, r * s.stride + c)));
  return mx_scale_code(amax, s.format);
}

void encode(const Mxfp8Strip& s, const Block& b, std::uint8_t scale,
            std::uint8_t* codes) {
  const float factor = mx_factor(scale);
  for (std::int64_t r = b.r0; r < b.r1; ++r) {
    for (std::int64_t c = b.c0; c < b.c1; ++c) {
      const float product = load(s.input, s.x, r * s.stride + c) * factor;
      codes[r * s.code_stride + c] =
          static_cast<std::uint8_t>(encode_float(s.format, product));
    }
  }
}

void mxfp8_rows(const Mxfp8Strip& s) {
  for (std::int64_t c = 0; c < s.columns; c += kMxBlock) {
    const std::int64_t end = std::min(c + kMxBlock, s.columns);
    const std::uint8_t tile = scale_of(s, {0, s.rows, c, end});
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const Block block{r, r + 1, c, end};
      const std::uint8_t scale = s.square ? tile : scale_of(s, block);
      s.row_scales[r * s.row_scale_stride + c / kMxBlock] = scale;
      encode(s, block, scale, s.row_codes);
    }
  }
}

void mxfp8_columns(const Mxfp8Strip& s) {
  for (std::int64_t c = 0; c < s.columns; ++c) {
    const std::int64_t first = c / kMxBlock * kMxBlock;
    const std::int64_t end = std::min(first + kMxBlock, s.columns);
    const Block block{0, s.rows, c, c + 1};
    const std::uint8_t scale =
        scale_of(s, s.square ? Block{0, s.rows, first, end} : block);
    s.column_scales[c] = scale;
    encode(s, block, scale, s.column_codes);
  }
}

void mxfp8_quantize(const Mxfp8Strip& strip) {
  if (strip.row_codes != nullptr) mxfp8_rows(strip);
  if (strip.column_codes != nullptr) mxfp8_columns(strip);
}

void mxfp8_decode(const Mxfp8Row& row) {
  for (std::int64_t i = 0; i < row.rows * row.columns; ++i) {
    const std::int64_t c = i % row.columns;
    const float scale = mx_scale(row.scales[row.columnwise ? c : c / kMxBlock]);
    const auto code =
        static_cast<float>(decode_float(row.format, row.codes[i]));
    store_from_double(row.output, code * scale, row.out, i, Overflow::kSpecial);
  }
}

using Values = std::array<float, kNvfp4Block>;

// The codes of a block under one scale, unpacked.
struct Candidate {
  std::uint8_t scale;
  std::array<std::uint8_t, kNvfp4Block> codes;
};

Candidate nearest(const Values& x, std::uint8_t scale, const Nvfp4Global& g) {
  Candidate c{scale, {}};
  const float factor = nvfp4_factor(scale, g);
  for (int i = 0; i < kNvfp4Block; ++i) c.codes[i] = e2m1_code(x[i] * factor);
  return c;
}

Candidate stochastic(const Values& x, std::uint8_t scale, const Nvfp4Global& g,
                     const RandomStream& random, std::int64_t block) {
  Candidate c{scale, {}};
  const float factor = nvfp4_factor(scale, g);
  const auto words = nvfp4_random(random, static_cast<std::uint64_t>(block));
  for (int i = 0; i < kNvfp4Block; ++i) {
    const std::uint32_t byte = words[i / 4] >> (8 * (i % 4)) & 0xff;
    c.codes[i] =
        e2m1_code_stochastic(x[i] * factor, static_cast<std::uint8_t>(byte));
  }
  return c;
}

Values error_of(const Values& x, const Candidate& c, const Nvfp4Run& run) {
  const float scale =
      nvfp4_decode_scale(c.scale, run.amax, run.global.scale_max);
  Values error;
  for (int i = 0; i < kNvfp4Block; ++i) {
    const auto value =
        static_cast<float>(decode_float(DType::kE2M1, c.codes[i]));
    const float d = value * scale - x[i];
    error[i] = run.four_over_six == FourOverSix::kMse ? d * d : std::abs(d);
  }
  return error;
}

// Halves are added until one is left: the order of a vector's lanes.
float tree_sum(Values v) {
  for (int half = kNvfp4Block / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  return v[0];
}

float block_amax(const Values& x) {
  float amax = 0;
  for (float v : x) amax = max_number(amax, std::abs(v));
  return amax;
}

Values load_block(const Nvfp4Run& run, std::int64_t block) {
  Values x;
  for (int i = 0; i < kNvfp4Block; ++i)
    x[i] = load(run.input, run.x, block * kNvfp4Block + i);
  return x;
}

void store(const Nvfp4Run& run, std::int64_t block, const Candidate& c) {
  run.scales[block] = c.scale;
  for (int i = 0; i < kNvfp4Block / 2; ++i) {
    run.codes[block * 8 + i] =
        static_cast<std::uint8_t>(c.codes[2 * i] | c.codes[2 * i + 1] << 4);
  }
}

// The block (or, for tiles, the sixteen of them `stride` blocks apart) under
// whichever of the scales for a largest code of 6 and of 4 errs less.
void four_over_six(const Nvfp4Run& run, std::int64_t first, int rows,
                   std::int64_t stride) {
  std::array<Values, kNvfp4Block> x;
  float amax = 0;
  for (int r = 0; r < rows; ++r) {
    x[r] = load_block(run, first + r * stride);
    amax = max_number(amax, block_amax(x[r]));
  }
  const FourOverSixScales scales = four_over_six_scales(amax, run.global);
  Values error6{}, error4{};
  for (int r = 0; r < rows; ++r) {
    const Values e6 =
        error_of(x[r], nearest(x[r], scales.map6, run.global), run);
    const Values e4 =
        error_of(x[r], nearest(x[r], scales.map4, run.global), run);
    for (int i = 0; i < kNvfp4Block; ++i) {
      error6[i] += e6[i];
      error4[i] += e4[i];
    }
  }
  const bool four = tree_sum(error4) < tree_sum(error6);
  const std::uint8_t scale = four ? scales.map4 : scales.map6;
  for (int r = 0; r < rows; ++r)
    store(run, first + r * stride, nearest(x[r], scale, run.global));
}

void quantize_blocks(const Nvfp4Run& run, std::int64_t first, int rows,
                     std::int64_t stride) {
  std::array<Values, kNvfp4Block> x;
  float amax = 0;
  for (int r = 0; r < rows; ++r) {
    x[r] = load_block(run, first + r * stride);
    amax = max_number(amax, block_amax(x[r]));
  }
  const std::uint8_t scale = nvfp4_scale_code(amax, run.global);
  for (int r = 0; r < rows; ++r) {
    const std::int64_t block = first + r * stride;
    store(run, block,
          run.random == nullptr
              ? nearest(x[r], scale, run.global)
              : stochastic(x[r], scale, run.global, *run.random, block));
  }
}

void nvfp4_quantize_one(const Nvfp4Run& run) {
  // Blocks of one row, then the next: tiles take block b of sixteen rows.
  const int rows = run.square ? kNvfp4Block : 1;
  const std::int64_t groups = run.blocks / rows;
  for (std::int64_t b = 0; b < groups; ++b) {
    if (run.four_over_six == FourOverSix::kNone)
      quantize_blocks(run, b, rows, groups);
    else
      four_over_six(run, b, rows, groups);
  }
}

void nvfp4_quantize(const Nvfp4Run& run) {
  const std::int64_t size = traits(run.input).bits / 8;
  for (std::int64_t i = 0; i < run.runs; ++i) {
    const std::int64_t first = i * run.block_stride;
    Nvfp4Run one = run;
    RandomStream random;
    if (run.random != nullptr) {
      random = *run.random;
      random.first_block += static_cast<std::uint64_t>(first);
      one.random = &random;
    }
    one.x += i * run.blocks * kNvfp4Block * size;
    one.codes += first * kNvfp4Block / 2;
    one.scales += first;
    nvfp4_quantize_one(one);
  }
}

void nvfp4_decode(const Nvfp4Decode& run) {
  for (std::int64_t b = 0; b < run.blocks; ++b) {
    const float scale =
        nvfp4_decode_scale(run.scales[b], run.amax, run.scale_max);
    for (int i = 0; i < kNvfp4Block; ++i) {
      const auto* codes = reinterpret_cast<const std::byte*>(run.codes);
      const std::int64_t at = b * kNvfp4Block + i;
      const auto code =
          static_cast<float>(load_as_double(DType::kE2M1, codes, at));
      store_from_double(run.output, code * scale, run.out, at,
                        Overflow::kSpecial);
    }
  }
}

void hadamard16(std::uint16_t* x, std::int64_t vectors,
                std::uint16_t sign_mask) {
  for (std::int64_t v = 0; v < vectors; ++v, x += 16) {
    Values y;
    for (int i = 0; i < 16; ++i)
      y[i] = sign_mask >> i & 1 ? -bf16_value(x[i]) : bf16_value(x[i]);
    for (int distance = 1; distance < 16; distance *= 2) {
      Values next;
      for (int i = 0; i < 16; ++i) {
        next[i] =
            i & distance ? y[i - distance] - y[i] : y[i] + y[i + distance];
      }
      y = next;
    }
    for (int i = 0; i < 16; ++i) {
      x[i] = static_cast<std::uint16_t>(
          encode_float(DType::kBF16, y[i] * 0.25f, Overflow::kSpecial));
    }
  }
}

void hadamard16_columns(const std::uint16_t* x, std::int64_t stride,
                        std::int64_t columns, std::uint16_t sign_mask,
                        std::uint16_t* out, std::int64_t out_stride) {
  for (std::int64_t c = 0; c < columns; ++c) {
    std::uint16_t column[16];
    for (int i = 0; i < 16; ++i) column[i] = x[i * stride + c];
    hadamard16(column, 1, sign_mask);
    for (int i = 0; i < 16; ++i) out[i * out_stride + c] = column[i];
  }
}

}  // namespace

const BlockQuantKernels kRefBlockQuant = {
    "scalar",      &mxfp8_quantize, &mxfp8_decode,       &nvfp4_quantize,
    &nvfp4_decode, &hadamard16,     &hadamard16_columns,
};

}  // namespace assay
