#include "assay/te/ops/attention_tile_masks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "assay/base/round_up.h"
#include "assay/kernels/dropout.h"
#include "assay/kernels/scalar_half.h"

namespace assay::te {
namespace {

constexpr std::uint64_t kAll = ~std::uint64_t{0};

// Bits [low, high) of a word.
std::uint64_t bits_between(std::int64_t low, std::int64_t high) {
  low = std::clamp<std::int64_t>(low, 0, 64);
  high = std::clamp<std::int64_t>(high, 0, 64);
  if (low >= high) return 0;
  const std::uint64_t below_high = high == 64 ? kAll : (1ull << high) - 1;
  return below_high & ~(low == 64 ? kAll : (1ull << low) - 1);
}

bool window_is_open(const AttentionHead& head, const TileRange& r) {
  return r.begin >= r.last - 1 + head.low && r.end - 1 <= r.first + head.high;
}

float load(const AttentionBias& bias, std::int64_t at) {
  if (bias.dtype == DType::kF32)
    return reinterpret_cast<const float*>(bias.data)[at];
  const auto code = reinterpret_cast<const std::uint16_t*>(bias.data)[at];
  return bias.dtype == DType::kBF16 ? bf16_value(code) : f16_value(code);
}

}  // namespace

BlockRange key_blocks_of(const AttentionHead& head, std::int64_t first,
                         std::int64_t last) {
  const std::int64_t begin = std::max<std::int64_t>(0, first + head.low);
  const std::int64_t end = std::min(head.keys, last + head.high);
  if (begin >= end) return {};
  return {begin / kKeyBlock, (end + kKeyBlock - 1) / kKeyBlock};
}

BlockRange query_blocks_of(const AttentionHead& head, std::int64_t begin,
                           std::int64_t end, std::int64_t columns) {
  const std::int64_t first = std::max<std::int64_t>(0, begin - head.high);
  const std::int64_t last = std::min(head.queries, end - head.low);
  if (first >= last) return {};
  return {first / columns, ceil_div(last, columns)};
}

void TileMasks::fill(const AttentionHead& head, const TileRange& range,
                     std::uint64_t queries) {
  keep = nullptr;
  dropped = nullptr;
  added = nullptr;
  const bool whole = range.end - range.begin == kKeyBlock &&
                     (~queries & bits_between(0, range.columns)) == 0;
  if (!whole || head.mask != nullptr || head.bias.data != nullptr ||
      !window_is_open(head, range))
    fill_keep(head, range, queries);
  if (head.bias.data != nullptr || head.bias.slope != 0)
    fill_added(head, range);
  if (head.dropout.draw.threshold != 0) fill_dropped(head, range);
}

void TileMasks::fill_keep(const AttentionHead& head, const TileRange& r,
                          std::uint64_t queries) {
  keep = keep_words;
  std::fill(std::begin(keep_words), std::end(keep_words), 0);
  for (std::int64_t j = r.begin; j < r.end; ++j)
    // i + low <= j <= i + high, with i counted from the first query.
    keep_words[j - r.begin] =
        bits_between(j - head.high - r.first, j - head.low - r.first + 1) &
        queries;
  if (head.mask == nullptr) return;
  for (std::int64_t i = r.first; i < r.last; ++i) {
    const std::uint8_t* row = head.mask + i * head.mask_row;
    for (std::int64_t j = r.begin; j < r.end; ++j) {
      const std::uint64_t out = row[j * head.mask_column] != 0 ? 1 : 0;
      keep_words[j - r.begin] &= ~(out << (i - r.first));
    }
  }
}

void TileMasks::fill_added(const AttentionHead& head, const TileRange& r) {
  added = added_values;
  std::fill_n(added_values, kKeyBlock * r.columns, 0.0f);
  const AttentionBias& bias = head.bias;
  for (std::int64_t j = r.begin; j < r.end; ++j) {
    float* row = added_values + (j - r.begin) * r.columns;
    for (std::int64_t i = r.first; i < r.last; ++i) {
      float value = 0;
      if (bias.data != nullptr) {
        value = load(bias, i * bias.row_stride + j * bias.column_stride);
        if (value == -std::numeric_limits<float>::infinity()) {
          keep_words[j - r.begin] &= ~(1ull << (i - r.first));
          continue;
        }
        value *= bias.scale;
      }
      if (bias.slope != 0)
        value -= bias.slope * static_cast<float>(std::abs(i + bias.offset - j));
      row[i - r.first] = value;
    }
  }
}

void TileMasks::fill_dropped(const AttentionHead& head, const TileRange& r) {
  dropped = dropped_words;
  std::fill(std::begin(dropped_words), std::end(dropped_words), 0);
  const AttentionDropout& d = head.dropout;
  const DropoutKernels& kernels = dropout_kernels(Device::kCpu);
  std::uint16_t masks[kKeyBlock / kDropoutChunk + 1];
  for (std::int64_t i = r.first; i < r.last; ++i) {
    const std::int64_t begin = d.first + i * d.row + r.begin;
    const std::int64_t end = begin + r.end - r.begin;
    const std::int64_t chunk = begin / kDropoutChunk;
    kernels.draw(d.draw, chunk, (end - 1) / kDropoutChunk - chunk + 1, masks);
    for (std::int64_t e = begin; e < end; ++e) {
      const std::int64_t at = e - chunk * kDropoutChunk;
      const std::uint64_t keep_bit =
          masks[at / kDropoutChunk] >> (at % kDropoutChunk) & 1;
      dropped_words[e - begin] |= (keep_bit ^ 1) << (i - r.first);
    }
  }
}

}  // namespace assay::te
