#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/trace/run_log_lines.h"

namespace assay {
namespace {

std::string_view bare(std::string_view cell) {
  cell = trim(cell);
  if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
    cell = trim(cell.substr(1, cell.size() - 2));
  return cell;
}

// "Grad Norm" and "grad-norm" are grad_norm.
std::string column_name(std::string_view cell) {
  std::string name(bare(cell));
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == ' ' || c == '-') c = '_';
  }
  return name;
}

std::uint64_t offset_of(std::string_view cell, std::string_view line) {
  return static_cast<std::uint64_t>(cell.data() - line.data());
}

[[noreturn]] void refuse_cell(std::string_view cell, std::string_view line,
                              const std::string& where,
                              std::string_view expected) {
  refuse(where, offset_of(cell, line),
         single_quoted(printable(cell.substr(0, 40))), expected);
}

// Whole text, or nothing.
template <typename T>
std::optional<T> whole(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ptr != end || text.empty()) return std::nullopt;
  if (result.ec == std::errc()) return value;
  if constexpr (std::is_same_v<T, double>)
    if (result.ec == std::errc::result_out_of_range)
      return std::strtod(std::string(text).c_str(), nullptr);
  return std::nullopt;
}

}  // namespace

CsvSteps::CsvSteps(std::string_view heading, const std::string& where) {
  for (const std::string_view cell : split(heading, ',')) {
    const std::string name = column_name(cell);
    int column = kSkipped;
    if (name == "step" || name == "iteration")
      column = kStep;
    else if (const auto figure = figure_named(name))
      column = static_cast<int>(*figure);
    if (column != kSkipped && std::ranges::count(columns_, column) > 0)
      refuse_cell(cell, heading, where, "each column once");
    columns_.push_back(column);
  }
  if (std::ranges::count(columns_, static_cast<int>(kStep)) == 0)
    refuse(where, 0, single_quoted(printable(heading.substr(0, 40))),
           "JSON lines, or a CSV heading with a column 'step'");
}

RunStep CsvSteps::parse(std::string_view line, const std::string& where) const {
  const std::vector<std::string_view> cells = split(line, ',');
  if (cells.size() != columns_.size())
    refuse(where, line.size(), std::to_string(cells.size()) + " cells",
           std::to_string(columns_.size()) + ", as the heading has");
  RunStep step;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string_view text = bare(cells[i]);
    if (columns_[i] == kStep) {
      const auto number = whole<std::int64_t>(text);
      if (!number || *number < 0)
        refuse_cell(cells[i], line, where, "a step from 0 to 2^63 - 1");
      step.step = *number;
    } else if (columns_[i] != kSkipped && !text.empty()) {
      const auto value = whole<double>(text);  // "nan" and "inf" too
      if (!value) refuse_cell(cells[i], line, where, "a number or nothing");
      step.set(static_cast<std::size_t>(columns_[i]), *value);
    }
  }
  return step;
}

}  // namespace assay
