#include "assay/env/script_lex.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay::env {
namespace {

using Kind = ShellPart::Kind;

bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool ends_word(char c) {
  constexpr std::string_view kEnds = " \t\r\n;&|()<>";
  return c == '\0' || kEnds.find(c) != kEnds.npos;
}

// Longest first.
constexpr std::array<std::string_view, 17> kOperators = {
    "<<<", "<<-", "&>>", ";;&", "<<", ">>", "&&", "||", ";;",
    ">&",  "<&",  "&>",  ">|",  ";",  "&",  "|",  "\n"};

}  // namespace

void ShellLexer::refuse(int line, const std::string& what) const {
  throw Error(Code::kRefused,
              printable(source_) + ":" + std::to_string(line) + ": " + what);
}

bool ShellLexer::eat(std::string_view what) {
  if (text_.substr(at_, what.size()) != what) return false;
  at_ += what.size();
  return true;
}

void ShellLexer::count_lines(std::size_t from, std::size_t to) {
  line_ += static_cast<int>(
      std::count(text_.begin() + static_cast<std::ptrdiff_t>(from),
                 text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
}

bool ShellLexer::skip_continuation() {
  if (!eat("\\\n") && !eat("\\\r\n")) return false;
  ++line_;
  return true;
}

void ShellLexer::skip_blanks() {
  for (;;) {
    if (skip_continuation()) continue;
    const char c = peek();
    if (!at_end() && (c == ' ' || c == '\t' || c == '\r')) {
      ++at_;
    } else if (c == '#') {
      while (!at_end() && peek() != '\n') ++at_;
    } else if (c == '\n' && array_depth_ > 0) {
      ++at_;
      ++line_;
    } else {
      return;
    }
  }
}

ShellToken ShellLexer::next() {
  skip_blanks();
  ShellToken token;
  token.line = line_;
  if (at_end()) {
    if (!here_.empty())
      refuse(here_[0].line, "a here-document that is not ended by '" +
                                printable(here_[0].delimiter) + "'");
    return token;
  }
  if (ends_word(peek())) return operator_token();
  token.kind = ShellToken::Kind::kWord;
  token.word = word();
  if (here_operator_ != 0) {
    HereDocument document{"", here_operator_ == 2, token.line};
    for (const ShellPart& each : token.word.parts)
      document.delimiter += each.text;
    here_.push_back(std::move(document));
    here_operator_ = 0;
  }
  return token;
}

ShellToken ShellLexer::operator_token() {
  ShellToken token;
  token.kind = ShellToken::Kind::kOperator;
  token.adjacent =
      at_ > 0 && std::isspace(static_cast<unsigned char>(text_[at_ - 1])) == 0;
  token.line = line_;
  here_operator_ = 0;
  const auto found =
      std::find_if(kOperators.begin(), kOperators.end(),
                   [&](std::string_view text) { return eat(text); });
  token.text = found != kOperators.end() ? std::string(*found)
                                         : std::string(1, text_[at_++]);
  if (token.text == "<<") here_operator_ = 1;
  if (token.text == "<<-") here_operator_ = 2;
  if (token.text == "\n") {
    ++line_;
    skip_here_documents();
  }
  return token;
}

void ShellLexer::skip_here_documents() {
  for (; !here_.empty(); here_.erase(here_.begin())) {
    const HereDocument& document = here_.front();
    for (;;) {
      if (at_end())
        refuse(document.line, "a here-document that is not ended by '" +
                                  printable(document.delimiter) + "'");
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      if (line.ends_with('\r')) line.remove_suffix(1);
      while (document.tabs && line.starts_with('\t')) line.remove_prefix(1);
      at_ = std::min(end + 1, text_.size());
      ++line_;
      if (line == document.delimiter) break;
    }
  }
}

void ShellLexer::literal(ShellWord& word, char c, bool quoted) {
  if (word.parts.empty() || word.parts.back().kind != Kind::kLiteral ||
      word.parts.back().quoted != quoted)
    word.parts.push_back({Kind::kLiteral, "", quoted});
  word.parts.back().text += c;
}

void ShellLexer::part(ShellWord& word, Kind kind, std::string_view text,
                      bool quoted) {
  word.parts.push_back({kind, std::string(text), quoted});
}

// NAME= or NAME+= and nothing else.
bool ShellLexer::opens_array(const ShellWord& word) const {
  if (array_depth_ > 0 || word.parts.size() != 1 || word.quoted) return false;
  std::string_view name = word.parts[0].text;
  if (word.parts[0].kind != Kind::kLiteral || !name.ends_with('='))
    return false;
  name.remove_suffix(1);
  if (name.ends_with('+')) name.remove_suffix(1);
  return !name.empty() && is_name_start(name[0]) &&
         std::all_of(name.begin(), name.end(), is_name);
}

ShellWord ShellLexer::word() {
  ShellWord made;
  made.line = line_;
  for (;;) {
    if (skip_continuation()) continue;
    const char c = peek();
    if (c == '(' && opens_array(made)) {
      array_elements(made);
      return made;
    }
    if (at_end() || ends_word(c)) return made;
    if (c == '\'') {
      single_quoted(made);
    } else if (c == '"') {
      double_quoted(made);
    } else if (c == '$') {
      dollar(made, false);
    } else if (c == '`') {
      backticks(made, false);
    } else if (c == '\\') {
      ++at_;
      if (!at_end()) literal(made, text_[at_++], true);
    } else {
      literal(made, c, false);
      ++at_;
    }
  }
}

void ShellLexer::array_elements(ShellWord& word) {
  const int line = line_;
  ++at_;
  ++array_depth_;
  word.is_array = true;
  for (;;) {
    skip_blanks();
    if (at_end()) refuse(line, "an array '(' that is not closed");
    if (eat(")")) break;
    if (ends_word(peek())) {
      refuse(line_, std::string("'") + printable(text_.substr(at_, 1)) +
                        "' inside of an array, expected a word or ')'");
    }
    word.elements.push_back(this->word());
  }
  --array_depth_;
}

void ShellLexer::single_quoted(ShellWord& word) {
  const std::size_t end = text_.find('\'', at_ + 1);
  if (end == text_.npos) refuse(line_, "a quote (') that is not closed");
  word.quoted = true;
  part(word, Kind::kLiteral, text_.substr(at_ + 1, end - at_ - 1), true);
  count_lines(at_, end);
  at_ = end + 1;
}

void ShellLexer::double_quoted(ShellWord& word) {
  const int line = line_;
  word.quoted = true;
  ++at_;
  for (;;) {
    if (at_end()) refuse(line, "a quote (\") that is not closed");
    const char c = peek();
    if (c == '"') break;
    if (c == '$') {
      dollar(word, true);
    } else if (c == '`') {
      backticks(word, true);
    } else if (skip_continuation()) {
      continue;
    } else {
      constexpr std::string_view kEscaped = "$`\"\\";
      if (c == '\\' && kEscaped.find(peek(1)) != kEscaped.npos &&
          peek(1) != '\0')
        ++at_;
      if (peek() == '\n') ++line_;
      literal(word, text_[at_++], true);
    }
  }
  ++at_;
}

void ShellLexer::backticks(ShellWord& word, bool quoted) {
  const std::size_t begin = at_;
  std::size_t end = at_ + 1;
  while (end < text_.size() && text_[end] != '`')
    end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size()) refuse(line_, "a ` that is not closed");
  at_ = end + 1;
  count_lines(begin, at_);
  part(word, Kind::kOther, text_.substr(begin, at_ - begin), quoted);
}

// Behind the parenthesis that closes the one at `from`; quotes are respected.
std::size_t ShellLexer::end_of_parentheses(std::size_t from) {
  int depth = 0;
  for (std::size_t i = from; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == '\\') {
      ++i;
    } else if (c == '\'' || c == '"') {
      std::size_t end = i + 1;
      while (end < text_.size() && text_[end] != c)
        end += c == '"' && text_[end] == '\\' ? 2 : 1;
      if (end >= text_.size()) break;
      i = end;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')' && --depth == 0) {
      return i + 1;
    }
  }
  refuse(line_, "a $( that is not closed");
}

void ShellLexer::braces(ShellWord& word, bool quoted, std::size_t begin) {
  int depth = 0;
  std::size_t end = at_;
  for (; end < text_.size(); ++end) {
    if (text_[end] == '\\') {
      ++end;
      continue;
    }
    if (text_[end] == '{') ++depth;
    if (text_[end] == '}' && --depth == 0) break;
  }
  if (end >= text_.size()) refuse(line_, "a ${ that is not closed");
  const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
  count_lines(begin, end);
  at_ = end + 1;
  const bool name = !inside.empty() && is_name_start(inside[0]);
  part(word, name ? Kind::kVariable : Kind::kOther,
       name ? inside : text_.substr(begin, at_ - begin), quoted);
}

void ShellLexer::dollar(ShellWord& word, bool quoted) {
  const std::size_t begin = at_++;
  const char c = peek();
  if (c == '(') {
    const std::size_t end = end_of_parentheses(at_);
    count_lines(at_, end);
    at_ = end;
    part(word, Kind::kOther, text_.substr(begin, at_ - begin), quoted);
  } else if (c == '{') {
    braces(word, quoted, begin);
  } else if (!at_end() && is_name_start(c)) {
    std::size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    part(word, Kind::kVariable, text_.substr(at_, end - at_), quoted);
    at_ = end;
  } else if (c == '\'' && !quoted) {  // $'...': its escapes stay as they are
    single_quoted(word);
  } else if (c != '\0' &&
             (std::isdigit(static_cast<unsigned char>(c)) ||
              std::string_view("@*#?-$!").find(c) != std::string_view::npos)) {
    ++at_;
    part(word, Kind::kOther, text_.substr(begin, 2), quoted);
  } else {
    literal(word, '$', quoted);
  }
}

}  // namespace assay::env
