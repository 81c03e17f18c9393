#include "assay/env/shell_arithmetic.h"

#include <cctype>
#include <charconv>
#include <limits>

namespace assay::env {
namespace {

constexpr int kMostDepth = 50;

using Number = std::optional<std::int64_t>;

Number combined(char sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (sign) {
    case '+':
      if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
      return result;
    case '-':
      if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
      return result;
    case '*':
      if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
      return result;
    default:
      if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min()))
        return std::nullopt;
      return sign == '/' ? a / b : a % b;
  }
}

// Decimal only: a shell takes a leading zero for octal.
Number decimal(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const bool octal = text.size() > 1 && text[0] == '0';
  if (error != std::errc() || end != text.data() + text.size() || octal)
    return std::nullopt;
  return value;
}

class Arithmetic {
 public:
  Arithmetic(std::string_view text, const ShellNumber& variable)
      : text_(text), variable_(variable) {}

  Number run() {
    const Number value = sum(0);
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() &&
           std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
      ++at_;
  }
  char sign(std::string_view wanted) {
    skip();
    if (at_ >= text_.size() || wanted.find(text_[at_]) == wanted.npos)
      return '\0';
    // ** is a power, which scripts of this kind have no use for.
    if (text_[at_] == '*' && text_.substr(at_, 2) == "**") return '\0';
    return text_[at_++];
  }
  Number sum(int depth) {
    Number left = product(depth);
    for (char c = 0; left && (c = sign("+-")) != '\0';) {
      const Number right = product(depth);
      left = right ? combined(c, *left, *right) : std::nullopt;
    }
    return left;
  }
  Number product(int depth) {
    Number left = atom(depth);
    for (char c = 0; left && (c = sign("*/%")) != '\0';) {
      const Number right = atom(depth);
      left = right ? combined(c, *left, *right) : std::nullopt;
    }
    return left;
  }
  Number atom(int depth) {
    if (depth > kMostDepth) return std::nullopt;
    if (sign("-") != '\0') {
      const Number value = atom(depth + 1);
      return value ? combined('-', 0, *value) : std::nullopt;
    }
    if (sign("(") != '\0') {
      const Number value = sum(depth + 1);
      return sign(")") != '\0' ? value : std::nullopt;
    }
    return word();
  }
  Number word() {
    skip();
    std::size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '$') begin = ++at_;
    const bool braced = begin > 0 && at_ < text_.size() && text_[at_] == '{';
    if (braced) begin = ++at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
            text_[at_] == '_'))
      ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (braced && (at_ >= text_.size() || text_[at_++] != '}'))
      return std::nullopt;
    if (word.empty()) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0)
      return decimal(word);
    const std::optional<std::string> value = variable_(word);
    return value ? decimal(*value) : std::nullopt;
  }

  std::string_view text_;
  const ShellNumber& variable_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view text,
                                             const ShellNumber& variable) {
  return Arithmetic(text, variable).run();
}

}  // namespace assay::env
