// The variables that a shell script assigns, and words with them expanded.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/env/command_options.h"
#include "assay/env/script_lex.h"
#include "assay/env/snapshot.h"

namespace assay::env {

struct Variable {
  std::vector<CommandWord> items;  // one, but for an array
  bool array = false;
  bool used = false;  // something expands it
  int line = 0;

  // Its words where it is expanded without quotes.
  std::vector<CommandWord> words() const;
  std::string text() const;  // items with blanks between
  bool unknown() const;
  std::string place(const std::string& source) const {
    return source + ":" + std::to_string(line);
  }
  Value value(const std::string& source) const;
};

// NAME=value, NAME+=value, NAME=(...), already expanded.
struct Assignment {
  std::string name;
  bool append = false, array = false, unknown = false;
  std::vector<CommandWord> items;
  int line = 0;
  std::string text() const;
};

class ShellVariables {
 public:
  explicit ShellVariables(std::string source) : source_(std::move(source)) {}

  // None where the word is no assignment.
  std::optional<Assignment> assignment(const ShellWord& word);
  // `in_branch`: it may not happen, so unless it changes nothing the value is
  // unknown from here on.
  void assign(const Assignment& one, bool in_branch);
  void make_unknown(const std::string& name);
  void forget(const std::string& name) { variables_.erase(name); }

  // Throws Error{kRefused} where a command would have more than 1 MiB.
  std::vector<CommandWord> expand(const std::vector<ShellWord>& words);

  const Variable* find(const std::string& name) const;
  std::map<std::string, Variable>& all() { return variables_; }

 private:
  struct Expansion {
    std::vector<CommandWord> items;
    bool each = false;  // "${NAME[@]}": a word each, also in quotes
    bool unknown = false;
  };
  Expansion variable(std::string_view inside);
  Expansion alternative(std::string_view inside, std::string_view name);
  Expansion arithmetic(const std::string& written);
  Expansion part(const ShellPart& part);
  void expand_word(const ShellWord& word, bool split,
                   std::vector<CommandWord>& out);
  std::string joined(const ShellWord& word, bool& unknown);
  void grow(std::size_t bytes, int line);

  std::map<std::string, Variable> variables_;
  std::string source_;
  std::size_t expanded_ = 0;
};

}  // namespace assay::env
