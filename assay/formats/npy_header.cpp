#include "assay/formats/npy_header.h"

#include <charconv>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/npy_descr.h"

namespace assay {
namespace {

constexpr std::size_t kMaxRank = 64;

// Walks the text between the length field and the data. Every error names the
// offset in the file.
class HeaderText {
 public:
  HeaderText(std::string_view text, std::string_view file, std::uint64_t base)
      : text_(text), file_(file), base_(base) {}

  std::uint64_t offset() const { return base_ + at_; }
  bool at_end() const { return at_ == text_.size(); }

  [[noreturn]] void fail(std::string_view expected) const {
    const auto rest = text_.substr(at_, 24);
    refuse(
        file_, offset(),
        rest.empty() ? "the end of the header" : single_quoted(printable(rest)),
        expected);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' ||
                                  text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  // Consumes `token` after spaces if it comes next.
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail(single_quoted(token));
  }

  std::string_view quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("a quoted string");
    const auto end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a closing quote");
    const auto inner = text_.substr(at_ + 1, end - at_ - 1);
    if (inner.find('\\') != std::string_view::npos) {
      fail("a string without escapes");
    }
    at_ = end + 1;
    return inner;
  }

  std::int64_t integer() {
    const bool wrapped = accept("np.int64(") || accept("np.int32(");
    skip_space();
    std::int64_t value = 0;
    const char* const first = text_.data() + at_;
    const char* const last = text_.data() + text_.size();
    const auto [end, error] = std::from_chars(first, last, value);
    if (error == std::errc::result_out_of_range) {
      fail("a dimension that fits 63 bits");
    }
    if (error != std::errc()) fail("an integer");
    at_ += static_cast<std::size_t>(end - first);
    if (wrapped) expect(")");
    accept("L");
    return value;
  }

  // The text of a balanced [...], quoted strings inside included.
  std::string_view brackets() {
    const std::size_t begin = at_;
    int depth = 0;
    do {
      const char c = peek();
      if (c == '\0') fail("a closing ']'");
      if (c == '\'' || c == '"') {
        quoted();
        continue;
      }
      depth += (c == '[') - (c == ']');
      ++at_;
    } while (depth > 0);
    return text_.substr(begin, at_ - begin);
  }

 private:
  std::string_view text_, file_;
  std::uint64_t base_;
  std::size_t at_ = 0;
};

Shape parse_shape(HeaderText& text) {
  Shape shape;
  text.expect("(");
  while (!text.accept(")")) {
    if (shape.size() == kMaxRank) text.fail("at most 64 dimensions");
    shape.push_back(text.integer());
    if (text.accept(",")) continue;
    text.expect(")");
    break;
  }
  return shape;
}

void parse_descr(HeaderText& text, std::string_view file, NpyHeader& header) {
  const bool structured = text.peek() == '[';
  const std::uint64_t offset = text.offset();
  if (!structured) {
    return apply_npy_descr(text.quoted(), file, offset, header);
  }
  const std::string_view fields = text.brackets();
  refuse_object_fields(fields, file, offset);
  header.unsupported = "structured dtype " + printable(fields.substr(0, 200)) +
                       " is no plain tensor";
}

bool parse_bool(HeaderText& text) {
  if (text.accept("True")) return true;
  if (!text.accept("False")) text.fail("True or False");
  return false;
}

void parse_dict(HeaderText& text, std::string_view file, NpyHeader& header) {
  bool descr = false, order = false, shape = false;
  text.expect("{");
  while (!text.accept("}")) {
    HeaderText before = text;
    const std::string_view key = text.quoted();
    bool* const seen = key == "descr"           ? &descr
                       : key == "fortran_order" ? &order
                       : key == "shape"         ? &shape
                                                : nullptr;
    if (!seen) before.fail("'descr', 'fortran_order' or 'shape'");
    if (*seen) before.fail("each key once");
    *seen = true;
    text.expect(":");
    if (seen == &descr) parse_descr(text, file, header);
    if (seen == &order) header.fortran_order = parse_bool(text);
    if (seen == &shape) header.shape = parse_shape(text);
    if (text.peek() != '}') text.expect(",");
  }
  if (!descr || !order || !shape) {
    text.fail("the keys 'descr', 'fortran_order' and 'shape'");
  }
  text.skip_space();
  if (!text.at_end()) text.fail("nothing after the header's dict");
}

}  // namespace

std::uint64_t npy_header_end(std::span<const std::byte> start,
                             std::string_view file, std::uint64_t base) {
  ByteCursor cursor(start, file, base);
  const auto magic = cursor.text(kNpyMagic.size(), "the .npy magic");
  if (magic != kNpyMagic) {
    refuse(file, base, single_quoted(printable(magic)), "the .npy magic");
  }
  const int major = cursor.u8("the .npy version");
  const int minor = cursor.u8("the .npy version");
  if (major < 1 || major > 3 || minor != 0) {
    refuse(file, base + 6,
           "version " + std::to_string(major) + "." + std::to_string(minor),
           ".npy version 1.0, 2.0 or 3.0");
  }
  const std::uint64_t length = major == 1
                                   ? cursor.le<std::uint16_t>("header length")
                                   : cursor.le<std::uint32_t>("header length");
  return cursor.position() + length;
}

NpyHeader parse_npy_header(std::span<const std::byte> start,
                           std::string_view file, std::uint64_t base) {
  const std::uint64_t end = npy_header_end(start, file, base);
  const std::uint64_t begin = start[6] == std::byte{1} ? 10 : 12;
  ByteCursor cursor(start, file, base);
  cursor.skip(begin, "header start");
  const auto literal = cursor.text(end - begin, "the header");
  NpyHeader header;
  header.data_offset = end;
  HeaderText text(literal, file, base + begin);
  parse_dict(text, file, header);
  return header;
}

}  // namespace assay
