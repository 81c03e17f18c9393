// Splits a shell script into words and operators. Nothing is executed; what
// only a shell could know stays as it was written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace assay::env {

struct ShellPart {
  enum class Kind {
    kLiteral,
    kVariable,  // $NAME, ${NAME}, ${NAME[...]}, ${NAME:-...}: what is inside
    kOther,     // $(...), `...`, $((...)), $1: what was written
  };
  Kind kind = Kind::kLiteral;
  std::string text;
  bool quoted = false;  // an expansion here is not split into words
};

struct ShellWord {
  int line = 0;
  std::vector<ShellPart> parts;
  bool quoted = false;  // some of it is: "" is a word too
  // NAME=( ... ): the words between; `parts` is NAME= or NAME+=.
  bool is_array = false;
  std::vector<ShellWord> elements;
};

struct ShellToken {
  enum class Kind { kWord, kOperator, kEnd };
  Kind kind = Kind::kEnd;
  int line = 0;
  ShellWord word;
  std::string text;       // of an operator; "\n" too
  bool adjacent = false;  // no blank before it: "2>" but not "2 >"
};

// Not thread-safe. `text` must outlive it.
class ShellLexer {
 public:
  ShellLexer(std::string_view text, std::string source)
      : text_(text), source_(std::move(source)) {}

  // Comments, continued lines and here-documents are skipped. Throws
  // Error{kRefused} "run.sh:12: ..." for a quote, a substitution, an array or
  // a here-document that does not end.
  ShellToken next();

 private:
  struct HereDocument {
    std::string delimiter;
    bool tabs = false;
    int line = 0;
  };

  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool eat(std::string_view what);
  void skip_blanks();
  bool skip_continuation();
  ShellToken operator_token();
  ShellWord word();
  void array_elements(ShellWord& word);
  void single_quoted(ShellWord& word);
  void double_quoted(ShellWord& word);
  void dollar(ShellWord& word, bool quoted);
  void braces(ShellWord& word, bool quoted, std::size_t begin);
  void backticks(ShellWord& word, bool quoted);
  std::size_t end_of_parentheses(std::size_t from);
  void skip_here_documents();
  bool opens_array(const ShellWord& word) const;
  void literal(ShellWord& word, char c, bool quoted);
  void part(ShellWord& word, ShellPart::Kind kind, std::string_view text,
            bool quoted);
  void count_lines(std::size_t from, std::size_t to);
  [[noreturn]] void refuse(int line, const std::string& what) const;

  std::string_view text_;
  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  int array_depth_ = 0;
  int here_operator_ = 0;  // 1: <<, 2: <<-; the next word is its delimiter
  std::vector<HereDocument> here_;
};

}  // namespace assay::env
