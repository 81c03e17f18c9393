#include "assay/base/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text_out.h"

namespace assay {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument &&
         end == text.data() + text.size();
}

bool needs_quotes(char c) {
  return c == ',' || c == '"' || c == '\r' || c == '\n';
}

void append_quoted(std::string& out, std::string_view text) {
  if (std::none_of(text.begin(), text.end(), needs_quotes)) {
    out.append(text);
    return;
  }
  out.push_back('"');
  for (std::size_t from = 0;;) {
    const std::size_t at = text.find('"', from);
    out.append(text.substr(from, at - from));
    if (at == std::string_view::npos) break;
    out.append("\"\"");
    from = at + 1;
  }
  out.push_back('"');
}

}  // namespace

// A tab or CR before it included.
bool looks_like_formula(std::string_view text) {
  if (text.empty()) return false;
  switch (text[0]) {
    case '=':
    case '@':
    case '\t':
    case '\r':
      return true;
    case '+':
    case '-':
      return !is_number(text);
    default:
      return false;
  }
}

void append_csv_text(std::string& out, std::string_view text) {
  const bool formula = looks_like_formula(text);
  if (!formula && plain_prefix(text) == text.size()) {
    out.append(text);
    return;
  }
  std::string safe = formula ? "'" : "";
  append_utf8(safe, text, /*escape_controls=*/true);
  append_quoted(out, safe);
}

std::string_view without_formula_guard(std::string_view cell) {
  const bool guarded =
      cell.size() > 1 && cell[0] == '\'' &&
      std::string_view("=+-@").find(cell[1]) != std::string_view::npos;
  return guarded ? cell.substr(1) : cell;
}

CsvReader::CsvReader(std::string_view bytes, std::string where)
    : bytes_(bytes), where_(std::move(where)) {
  if (bytes_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

std::string CsvReader::place() const {
  return fmt::format("{}:{}", where_, row_line_);
}

void CsvReader::refuse(std::string_view what) const {
  throw Error(Code::kRefused, fmt::format("{}: {}", place(), what));
}

// From its opening quote to behind the closing one.
std::string_view CsvReader::quoted_cell() {
  const std::size_t begin = ++at_;
  std::string* text = nullptr;  // once a doubled quote has been met
  for (std::size_t from = begin;;) {
    const std::size_t quote = bytes_.find('"', at_);
    if (quote == std::string_view::npos)
      refuse("a quoted cell without its closing quote");
    line_ +=
        std::count(bytes_.begin() + static_cast<std::ptrdiff_t>(at_),
                   bytes_.begin() + static_cast<std::ptrdiff_t>(quote), '\n');
    at_ = quote + 1;
    const bool doubled = at_ < bytes_.size() && bytes_[at_] == '"';
    if (!doubled && text == nullptr) return bytes_.substr(begin, quote - begin);
    if (text == nullptr) text = &unescaped_.emplace_back();
    text->append(bytes_.substr(from, quote - from + (doubled ? 1 : 0)));
    if (!doubled) return *text;
    from = ++at_;
  }
}

std::string_view CsvReader::plain_cell() {
  // Cells are short: a loop beats a search for a set of characters.
  std::size_t end = at_;
  while (end < bytes_.size() && bytes_[end] != ',' && bytes_[end] != '\n')
    ++end;
  std::string_view cell = bytes_.substr(at_, end - at_);
  const bool last = end == bytes_.size() || bytes_[end] == '\n';
  if (last && cell.ends_with('\r')) cell.remove_suffix(1);
  at_ = end;
  return cell;
}

bool CsvReader::next(std::vector<std::string_view>& cells) {
  for (;;) {
    if (at_ >= bytes_.size()) return false;
    cells.clear();
    unescaped_.clear();
    row_line_ = line_;
    for (;;) {
      if (cells.size() == kMaxCells) refuse("more cells than a row may have");
      const bool quoted = at_ < bytes_.size() && bytes_[at_] == '"';
      cells.push_back(quoted ? quoted_cell() : plain_cell());
      if (quoted && bytes_.substr(at_).starts_with("\r\n")) ++at_;
      if (at_ >= bytes_.size()) break;
      const char c = bytes_[at_];
      if (c != ',' && c != '\n') refuse("text behind a closing quote");
      ++at_;
      if (c == '\n') {
        ++line_;
        break;
      }
    }
    if (cells.size() > 1 || !cells[0].empty()) return true;
  }
}

}  // namespace assay
