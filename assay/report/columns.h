// The columns of the csv and xlsx reports: msprobe's names, order and words,
// then ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/comparison.h"

namespace assay {

// Which of msprobe's three tables a comparison corresponds to.
enum class ColumnMode : std::uint8_t { kTensor, kStatistics, kDigest };

// Tensor as soon as one row has elements or a data file, else digest as soon
// as one row has a checksum, else statistics.
ColumnMode column_mode(const Comparison& comparison);

// Header in order: 27 (tensor), 28 (statistics) or 14 (digest) names of
// msprobe 26, then ours.
std::vector<std::string_view> report_columns(ColumnMode mode);

// Receives the cells of a row from left to right.
class CellSink {
 public:
  virtual ~CellSink() = default;
  virtual void word(std::string_view ours) = 0;  // one of our words, no comma
  virtual void words(std::string_view ours, int count) = 0;  // `count` cells
  virtual void list(std::string_view ours) = 0;    // a shape or index: "[2, 3]"
  virtual void text(std::string_view theirs) = 0;  // from a file: untrusted
  virtual void number(double value) = 0;
  virtual void integer(std::int64_t value) = 0;
  virtual void percent(double value) = 0;  // "12.5%"
};

// Emits exactly report_columns(mode).size() cells. Values follow msprobe:
// "unsupported" where nothing was compared, "shape unmatched", "N/A", "Nan",
// relative differences of statistics as percent text. Its NPU side is the
// target, its Bench side the golden. Where msprobe rounds to 12 decimals the
// whole figure is written.
void emit_cells(const Comparison& comparison, const Row& row, ColumnMode mode,
                CellSink& sink);

}  // namespace assay
