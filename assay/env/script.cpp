#include "assay/env/script.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"
#include "assay/env/command_options.h"
#include "assay/env/script_lex.h"
#include "assay/env/script_variables.h"

namespace assay::env {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

template <std::size_t n>
bool is_one_of(const std::array<std::string_view, n>& words,
               std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::string_view, 6> kOpen = {"if",    "for",    "while",
                                                   "until", "select", "{"};
constexpr std::array<std::string_view, 3> kClose = {"fi", "done", "}"};
// What another command follows, in the same place.
constexpr std::array<std::string_view, 6> kFollowed = {"then", "else", "do",
                                                       "!",    "time", "elif"};
constexpr std::array<std::string_view, 5> kDeclare = {
    "export", "declare", "typeset", "local", "readonly"};
// Commands that assign to the variables they name.
constexpr std::array<std::string_view, 6> kAssigning = {
    "read", "mapfile", "readarray", "printf", "getopts", "let"};
// Commands before the one that matters.
constexpr std::array<std::string_view, 6> kPrefixes = {
    "exec", "nohup", "env", "command", "sudo", "numactl"};

class ScriptReader {
 public:
  ScriptReader(std::string_view text, const std::string& source)
      : lexer_(text, source), source_(source), variables_(source) {}

  ScriptFacts read() {
    std::vector<ShellWord> command;
    bool skip_word = false;  // the target of a redirection
    for (;;) {
      const ShellToken token = lexer_.next();
      if (token.kind == ShellToken::Kind::kWord) {
        if (!skip_word) command.push_back(token.word);
        skip_word = false;
        continue;
      }
      const bool end = token.kind == ShellToken::Kind::kEnd;
      if (!end && (token.text.find('<') != std::string::npos ||
                   token.text.find('>') != std::string::npos)) {
        if (token.adjacent) drop_descriptor(command);
        skip_word = true;
        continue;
      }
      skip_word = false;
      run(command);
      command.clear();
      if (end) break;
      separator(token.text);
    }
    finish();
    return std::move(facts_);
  }

 private:
  // 2>file: the number belongs to the redirection.
  static void drop_descriptor(std::vector<ShellWord>& command) {
    if (command.empty() || command.back().parts.size() != 1) return;
    const ShellPart& part = command.back().parts[0];
    if (part.kind == ShellPart::Kind::kLiteral && part.text.size() == 1 &&
        std::isdigit(static_cast<unsigned char>(part.text[0])) != 0)
      command.pop_back();
  }

  void separator(const std::string& text) {
    // name () { ... }
    if (text == ")" && opened_ && !last_word_.empty())
      functions_.insert(last_word_);
    opened_ = text == "(";
    if (!opened_) last_word_.clear();
    if (text == "(") ++parentheses_;
    if (text == ")" && parentheses_ > 0) --parentheses_;
    chained_ = text == "&&" || text == "||" || text == "|";
  }

  // Whether what stands here may be left out when the script runs.
  bool in_branch() const { return depth_ > 0 || parentheses_ > 0 || chained_; }

  static bool is_plain(const ShellWord& word, std::string_view text) {
    return !word.quoted && word.parts.size() == 1 && word.parts[0].text == text;
  }

  void assign(const Assignment& one) {
    if (depth_ > 0) in_blocks_.insert(one.name);
    variables_.assign(one, in_branch());
  }

  void run(const std::vector<ShellWord>& words) {
    if (!words.empty()) {
      opened_ = false;
      const bool one = words.size() == 1 && words[0].parts.size() == 1;
      last_word_ = one ? words[0].parts[0].text : std::string();
    }
    std::size_t at = 0;
    if (words.size() > 1 && is_plain(words[0], "function") &&
        !words[1].parts.empty()) {
      functions_.insert(words[1].parts[0].text);
      at = 2;
    }
    while (at < words.size() && keyword(words, at)) ++at;
    if (at < words.size() && heads_a_block(words[at])) return;
    std::vector<Assignment> assigned;
    for (; at < words.size(); ++at) {
      std::optional<Assignment> one = variables_.assignment(words[at]);
      if (!one) break;
      assigned.push_back(std::move(*one));
    }
    if (at == words.size()) {
      for (const Assignment& each : assigned) assign(each);
      return;
    }
    const std::string place = at_line(words[at].line);
    for (const Assignment& each : assigned) export_value(each, place);
    command(std::vector<ShellWord>(
        words.begin() + static_cast<std::ptrdiff_t>(at), words.end()));
  }

  // Steps over reserved words in front of a command.
  bool keyword(const std::vector<ShellWord>& words, std::size_t at) {
    if (words[at].quoted || words[at].parts.size() != 1) return false;
    const std::string& word = words[at].parts[0].text;
    if (word == "case" || is_one_of(kOpen, word)) {
      ++depth_;
      // The variable of a loop has many values.
      if ((word == "for" || word == "select") && at + 1 < words.size())
        for (const ShellPart& part : words[at + 1].parts)
          variables_.make_unknown(part.text);
      return word != "case" && word != "for" && word != "select";
    }
    if (word == "esac" || is_one_of(kClose, word)) {
      if (depth_ > 0) --depth_;
      return true;
    }
    return is_one_of(kFollowed, word);
  }

  // for x in ..., case x in ..., [[ ... ]]: no command.
  static bool heads_a_block(const ShellWord& word) {
    constexpr std::array<std::string_view, 5> kHeads = {"for", "select", "case",
                                                        "[[", "["};
    return !word.quoted && word.parts.size() == 1 &&
           is_one_of(kHeads, word.parts[0].text);
  }

  void command(const std::vector<ShellWord>& words) {
    const std::vector<CommandWord> expanded = variables_.expand(words);
    if (expanded.empty()) return;
    const std::string& name = expanded[0].text;
    if (is_one_of(kDeclare, name)) return declare(words, name == "export");
    const std::string place = at_line(words[0].line);
    if (name == "unset") {
      for (std::size_t i = 1; i < expanded.size(); ++i) unset(expanded[i].text);
    } else if ((name == "source" || name == ".") && expanded.size() > 1) {
      facts_.notes.push_back(place + ": reads " + expanded[1].text +
                             ", which was not read");
    } else if (name == "eval") {
      facts_.notes.push_back(place + ": eval, whose text was not read");
    } else if (is_one_of(kAssigning, name)) {
      for (std::size_t i = 1; i < expanded.size(); ++i)
        variables_.make_unknown(
            expanded[i].text.substr(0, expanded[i].text.find_first_of("=+-")));
    } else if (functions_.count(name) != 0) {
      // It assigns when it is called, not where it stands.
      for (const std::string& each : in_blocks_) variables_.make_unknown(each);
    } else {
      launch(expanded, place);
    }
  }

  void launch(std::vector<CommandWord> words, const std::string& place) {
    while (!words.empty() && is_one_of(kPrefixes, words[0].text)) {
      words.erase(words.begin());
      // env NAME=value ..., numactl -N 0 ...
      while (!words.empty() && starts_python(words) &&
             (words[0].text.find('=') != std::string::npos ||
              words[0].text.starts_with('-'))) {
        const std::size_t sign = words[0].text.find('=');
        if (sign != std::string::npos && sign > 0 && words[0].text[0] != '-')
          set_environment(words[0].text.substr(0, sign),
                          {words[0].unknown ? Kind::kUnknown : Kind::kText,
                           words[0].text.substr(sign + 1), place});
        words.erase(words.begin());
      }
    }
    if (!starts_python(words)) return;
    std::map<std::string, Value> options = options_of(words, source_name());
    const auto program = options.find("program");
    last_program_ =
        program == options.end() ? std::string() : program->second.text;
    launches_[last_program_].push_back(std::move(options));
  }

  void declare(const std::vector<ShellWord>& words, bool exports) {
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::optional<Assignment> one = variables_.assignment(words[i]);
      const std::string place = at_line(words[i].line);
      if (one) {
        assign(*one);
        if (exports) export_name(one->name, place);
        continue;
      }
      for (const CommandWord& word : variables_.expand({words[i]})) {
        if (word.text.starts_with('-')) {
          exports = exports || word.text.find('x') != std::string::npos;
        } else if (exports) {
          export_name(word.text, place);
        }
      }
    }
  }

  void export_name(const std::string& name, const std::string& place) {
    exported_.emplace(name, place);
  }

  // NAME=value before a command.
  void export_value(const Assignment& one, const std::string& place) {
    Value value{one.unknown || in_branch() ? Kind::kUnknown : Kind::kText,
                one.text(), place};
    set_environment(one.name, std::move(value));
  }

  void set_environment(const std::string& name, Value value) {
    const auto [at, first] = facts_.environment.emplace(name, value);
    if (first ||
        (at->second.kind == value.kind && at->second.text == value.text))
      return;
    at->second.text += " or " + value.text;
    at->second.kind = Kind::kUnknown;
  }

  void unset(const std::string& name) {
    if (in_branch()) return variables_.make_unknown(name);
    variables_.forget(name);
    exported_.erase(name);
  }

  void finish() {
    for (const auto& [name, place] : exported_) {
      const Variable* variable = variables_.find(name);
      if (variable == nullptr) {
        facts_.notes.push_back(place + ": exports " + name +
                               ", which it does not set");
        continue;
      }
      set_environment(name, variable->value(source_name()));
    }
    if (launches_.empty()) options_of_variables();
    for (const auto& [program, commands] : launches_) {
      const std::string prefix =
          program == last_program_
              ? ""
              : std::filesystem::path(program).stem().string() + ".";
      for (auto& [key, value] : merged_options(commands))
        facts_.hyperparameters.emplace(prefix + key, value);
    }
    for (const auto& [name, variable] : variables_.all()) {
      if (variable.used || exported_.count(name) != 0) continue;
      const std::string key = normalised_key(name);
      facts_.hyperparameters.emplace(key, variable.value(source_name()));
    }
  }

  // A file of settings that another script reads.
  void options_of_variables() {
    facts_.notes.push_back(source_name() +
                           ": starts no Python program; the options are "
                           "those of its variables");
    for (auto& [name, variable] : variables_.all()) {
      std::vector<CommandWord> words = {{name, false}};
      for (const CommandWord& word : variable.words()) words.push_back(word);
      const bool options = std::any_of(
          words.begin(), words.end(),
          [](const CommandWord& w) { return w.text.starts_with("--"); });
      if (!options) continue;
      variable.used = true;
      for (auto& [key, value] : options_of(words, source_name()))
        facts_.hyperparameters.emplace(key, value);
    }
  }

  std::string source_name() const {
    return std::filesystem::path(source_).filename().string();
  }
  std::string at_line(int line) const {
    return source_name() + ":" + std::to_string(line);
  }

  ShellLexer lexer_;
  const std::string& source_;
  ShellVariables variables_;
  ScriptFacts facts_;
  std::map<std::string, std::string> exported_;  // name -> place
  int depth_ = 0, parentheses_ = 0;
  bool chained_ = false;
  bool opened_ = false;  // by "(", behind last_word_
  std::string last_word_;
  std::set<std::string> functions_, in_blocks_;
  // By the program that they start: their options.
  std::map<std::string, std::vector<std::map<std::string, Value>>> launches_;
  std::string last_program_;
};

}  // namespace

ScriptFacts parse_script(std::string_view text, const std::string& source) {
  return ScriptReader(text, source).read();
}

ScriptFacts read_script(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (file->size() > kMostBytes)
    throw Error(Code::kRefused,
                printable(path.string()) + ": a script of more than 16 MiB");
  const auto bytes = file->bytes();
  ScriptFacts facts =
      parse_script({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                   path.string());
  file->check_intact();
  return facts;
}

std::map<std::string, Value> command_options(
    const std::vector<std::string>& words, const std::string& source) {
  std::vector<CommandWord> all;
  for (const std::string& word : words) all.push_back({word, false});
  return options_of(all, source);
}

std::string normalised_key(std::string_view key) {
  while (key.starts_with('-')) key.remove_prefix(1);
  std::string out(key);
  for (char& c : out) {
    c = c == '-'
            ? '_'
            : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

}  // namespace assay::env
