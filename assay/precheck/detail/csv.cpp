#include "assay/precheck/detail/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "assay/base/atomic_file.h"
#include "assay/base/csv.h"
#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"
#include "assay/base/text_out.h"

namespace assay::precheck {
namespace {

using Figure = std::optional<double> Detail::*;
using Text = std::string Detail::*;

// Required: what msprobe's comparison of two devices asks of a file.
struct Column {
  std::string_view heading;
  bool required;
  Text text;      // either this
  Figure figure;  // or this
};

constexpr std::size_t kColumns = 23;
constexpr std::array<Column, kColumns> kDetailColumns = {{
    {"API Name", true, &Detail::name, nullptr},
    {"Bench Dtype", false, &Detail::bench_dtype, nullptr},
    {"DEVICE Dtype", true, &Detail::device_dtype, nullptr},
    {"Shape", false, &Detail::shape, nullptr},
    {"余弦相似度", false, nullptr, &Detail::cosine},
    {"最大绝对误差", false, nullptr, &Detail::max_abs},
    {"双百指标", false, nullptr, &Detail::hundredth},
    {"双千指标", true, nullptr, &Detail::thousandth},
    {"双万指标", false, nullptr, &Detail::ten_thousandth},
    {"二进制一致错误率", true, nullptr, &Detail::binary_error_rate},
    {"误差均衡性", true, nullptr, &Detail::error_balance},
    {"均方根误差", true, nullptr, &Detail::rmse},
    {"小值域错误占比", true, nullptr, &Detail::small_value_error_ratio},
    {"相对误差最大值", true, nullptr, &Detail::max_rel},
    {"相对误差平均值", true, nullptr, &Detail::mean_rel},
    {"inf/nan错误率", true, nullptr, &Detail::inf_nan_error_ratio},
    {"相对误差错误率", true, nullptr, &Detail::rel_error_ratio},
    {"绝对误差错误率", true, nullptr, &Detail::abs_error_ratio},
    {"ULP误差最大值", false, nullptr, &Detail::max_ulp},
    {"ULP误差平均值", true, nullptr, &Detail::mean_ulp},
    {"ULP误差大于阈值占比", true, nullptr, &Detail::ulp_over_threshold},
    {"Status", false, &Detail::status, nullptr},
    {"Message", false, &Detail::message, nullptr},
}};

// Blank, and the words that stand for it.
bool is_absent(std::string_view cell) {
  return cell.empty() || iequals(cell, "N/A") || iequals(cell, "None");
}

// from_chars reads nan, inf and infinity in any case, and reports what leaves
// the range of a double without a value.
std::optional<double> number(std::string_view cell) {
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double value = 0;
  const char* end = cell.data() + cell.size();
  const auto result = std::from_chars(cell.data(), end, value);
  if (result.ptr != end || cell.empty()) return std::nullopt;
  if (result.ec == std::errc()) return value;
  if (result.ec != std::errc::result_out_of_range) return std::nullopt;
  return std::strtod(std::string(cell).c_str(), nullptr);
}

// Spaces and line breaks at the end of msprobe's messages are dropped, those
// inside become "; ": a message is one line.
std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view words = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    if (!line.empty()) line += "; ";
    line += words;
  }
  return line;
}

// Rows to make room for: no more than the bytes can hold, nor than a damaged
// file is worth.
std::size_t expected_rows(std::string_view bytes) {
  constexpr std::size_t kMost = 200'000;
  return std::min(bytes.size() / (4 * kColumns), kMost);
}

class Parser {
 public:
  Parser(std::string_view bytes, const std::string& where)
      : reader_(bytes, where), bytes_(bytes), where_(where) {
    if (!reader_.next(cells_))
      throw Error(Code::kRefused,
                  where + ": empty, expected a details csv with its heading");
    read_heading();
  }

  std::vector<Detail> rows() {
    std::vector<Detail> rows;
    rows.reserve(expected_rows(bytes_));
    while (reader_.next(cells_)) {
      if (cells_.size() != columns_.size())
        refuse(fmt::format("{} cells, expected the heading's {}", cells_.size(),
                           columns_.size()));
      if (rows.size() == kMaxDetailRows) refuse("too many rows");
      read_row(rows.emplace_back());
    }
    return rows;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Code::kRefused, reader_.place() + ": " + what);
  }

  static const Column* find(std::string_view heading) {
    const auto at = std::find_if(
        kDetailColumns.begin(), kDetailColumns.end(),
        [&](const Column& column) { return column.heading == heading; });
    return at == kDetailColumns.end() ? nullptr : &*at;
  }

  void read_heading() {
    for (const std::string_view cell : cells_) {
      const Column* column = find(trim(without_formula_guard(cell)));
      if (column != nullptr &&
          std::find(columns_.begin(), columns_.end(), column) != columns_.end())
        refuse(fmt::format("the column '{}' twice", column->heading));
      columns_.push_back(column);
    }
    std::string missing;
    for (const Column& column : kDetailColumns) {
      if (!column.required || std::find(columns_.begin(), columns_.end(),
                                        &column) != columns_.end())
        continue;
      missing += (missing.empty() ? "'" : ", '");
      missing += column.heading;
      missing += '\'';
    }
    if (!missing.empty())
      throw Error(
          Code::kRefused,
          where_ + ": no details csv of an API pre-check, without " + missing);
  }

  void read_row(Detail& row) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Column* column = columns_[i];
      if (column == nullptr) continue;
      const std::string_view cell = trim(without_formula_guard(cells_[i]));
      if (column->text != nullptr) {
        row.*column->text =
            column->text == &Detail::message ? one_line(cell) : cell;
      } else if (!is_absent(cell)) {
        row.*column->figure = number(cell);
        if (!(row.*column->figure))
          refuse(fmt::format("column '{}' has '{}', expected a number",
                             column->heading, printable(cell.substr(0, 40))));
      }
    }
    if (row.name.empty()) refuse("no API name");
  }

  CsvReader reader_;
  std::string_view bytes_;
  const std::string& where_;
  std::vector<std::string_view> cells_;
  std::vector<const Column*> columns_;  // null: not one of msprobe's
};

}  // namespace

std::string details_csv_heading() {
  std::string line = "\xef\xbb\xbf";
  for (const Column& column : kDetailColumns) {
    if (&column != &kDetailColumns.front()) line += ',';
    line += column.heading;
  }
  return line + "\n";
}

void append_detail_row(std::string& out, const Detail& detail) {
  for (const Column& column : kDetailColumns) {
    if (&column != &kDetailColumns.front()) out += ',';
    if (column.text != nullptr && !(detail.*column.text).empty()) {
      append_csv_text(out, detail.*column.text);
    } else if (column.figure != nullptr && detail.*column.figure) {
      append_double(out, *(detail.*column.figure));
    } else {
      out += ' ';
    }
  }
  out += '\n';
}

void write_details_csv(const std::filesystem::path& path,
                       std::span<const Detail> details) {
  constexpr std::size_t kFlush = 1 << 20;
  AtomicFile file(path);
  std::string text = details_csv_heading();
  for (const Detail& detail : details) {
    append_detail_row(text, detail);
    if (text.size() < kFlush) continue;
    file.write(text);
    text.clear();
  }
  file.write(text);
  file.commit();
}

std::vector<Detail> parse_details_csv(std::string_view bytes,
                                      const std::string& where) {
  return Parser(bytes, where).rows();
}

std::filesystem::path details_csv_path(const std::filesystem::path& argument) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(argument, ignored)) return argument;
  const std::filesystem::path path = argument / "details.csv";
  if (!std::filesystem::exists(path, ignored))
    throw Error(Code::kUnreadable,
                printable(argument.string()) +
                    ": no details.csv in it, expected a result folder of "
                    "`assay precheck run` or a details csv");
  return path;
}

std::vector<Detail> read_details_csv(const std::filesystem::path& argument) {
  const std::filesystem::path path = details_csv_path(argument);
  const auto file = MappedFile::open(path);
  const std::string_view bytes(
      reinterpret_cast<const char*>(file->bytes().data()), file->size());
  std::vector<Detail> rows = parse_details_csv(bytes, path.string());
  file->check_intact();
  return rows;
}

}  // namespace assay::precheck
