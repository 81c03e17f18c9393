#include "assay/env/command_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "assay/env/script.h"

namespace assay::env {
namespace {

constexpr std::array<std::string_view, 8> kLaunchers = {
    "torchrun", "deepspeed", "accelerate", "msrun",
    "mpirun",   "mpiexec",   "srun",       "bmtrain"};

// Whose arguments are names of programs, not programs that run.
constexpr std::array<std::string_view, 14> kHandlers = {
    "echo", "printf", "cat",   "cp",   "mv",   "rm",    "ls",
    "grep", "sed",    "chmod", "find", "kill", "pkill", "ln"};

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

bool is_python(std::string_view word) {
  const std::string_view name = file_name(word);
  return name.starts_with("python") &&
         name.find_first_not_of("0123456789.", 6) == name.npos;
}

bool is_launcher(std::string_view word) {
  return std::find(kLaunchers.begin(), kLaunchers.end(), file_name(word)) !=
         kLaunchers.end();
}

// -x, --x; not the number -1 nor "-" alone, nor (as argparse has it) a text
// with blanks.
bool is_option(const CommandWord& word) {
  const std::string& text = word.text;
  const std::size_t dashes = text.find_first_not_of('-');
  return (dashes == 1 || dashes == 2) &&
         text.substr(0, text.find('=')).find(' ') == std::string::npos &&
         std::isalpha(static_cast<unsigned char>(text[dashes])) != 0;
}

// model.hidden_size=4096, ++trainer.precision=bf16.
std::size_t override_sign(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of("+~"), text.size());
  const std::size_t sign = text.find('=', begin);
  if (sign == text.npos || sign == begin) return text.npos;
  const std::string_view name = text.substr(begin, sign - begin);
  const auto in_name = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '-' || c == '/' ||
           c == '@';
  };
  return std::all_of(name.begin(), name.end(), in_name) &&
                 std::isdigit(static_cast<unsigned char>(name[0])) == 0
             ? sign
             : text.npos;
}

// Of one command, later options over earlier ones.
class Options {
 public:
  Options(const std::vector<CommandWord>& words, const std::string& source)
      : words_(words), source_(source) {}

  std::map<std::string, Value> read() {
    const std::size_t program = program_place(words_);
    const bool launched = program < words_.size();
    if (launched) launcher(program);
    std::size_t at = launched ? program + 1 : 1;
    if (launched) set("program", value(words_[program].text, program, false));
    int positional = 0;
    while (at < words_.size()) {
      const std::string& text = words_[at].text;
      if (is_option(words_[at])) {
        at = option(at, "", words_.size());
      } else if (const std::size_t sign = override_sign(text);
                 sign != text.npos) {
        const std::size_t begin = text.find_first_not_of("+~");
        set(normalised_key(text.substr(begin, sign - begin)),
            value(text.substr(sign + 1), at, words_[at].unknown));
        ++at;
      } else {
        set("argument." + std::to_string(positional++),
            value(text, at, words_[at].unknown));
        ++at;
      }
    }
    return std::move(options_);
  }

 private:
  // torchrun --nproc_per_node 8 train.py: options before the program. The one
  // before it may be a flag: its value is never the program itself.
  void launcher(std::size_t program) {
    const bool python = is_python(words_[0].text);
    for (std::size_t at = 1; at < program;) {
      if (!is_option(words_[at])) {
        ++at;
      } else if (words_[at].text == "-m" || (python && short_option(at))) {
        ++at;  // the interpreter's own: -u, -O
      } else {
        at = option(at, "launcher.", program);
      }
    }
  }

  bool short_option(std::size_t at) const {
    return words_[at].text.size() == 2;
  }

  // Behind the option at `at` and its values, of which none is at `end`.
  std::size_t option(std::size_t at, const std::string& prefix,
                     std::size_t end) {
    const std::string& text = words_[at].text;
    const std::size_t sign = text.find('=');
    const std::string key =
        prefix + normalised_key(std::string_view(text).substr(0, sign));
    if (sign != text.npos) {
      set(key, value(text.substr(sign + 1), at, words_[at].unknown));
      return at + 1;
    }
    std::string joined;
    bool unknown = words_[at].unknown;
    std::size_t next = at + 1;
    for (; next < end && !is_option(words_[next]); ++next) {
      const bool module = words_[next].text == "-m";
      if (module || (next > at + 1 &&
                     override_sign(words_[next].text) != std::string::npos))
        break;
      joined += (next > at + 1 ? " " : "") + words_[next].text;
      unknown = unknown || words_[next].unknown;
    }
    if (next == at + 1) {
      Value flag = value(unknown ? text : "given", at, unknown);
      if (!unknown) flag.kind = Kind::kFlag;
      set(key, std::move(flag));
    } else {
      set(key, value(joined, at, unknown));
    }
    return next;
  }

  Value value(std::string text, std::size_t at, bool unknown) const {
    const int line = words_[at].line;
    return {unknown ? Kind::kUnknown : Kind::kText, std::move(text),
            line > 0 ? source_ + ":" + std::to_string(line) : source_};
  }
  void set(const std::string& key, Value value) {
    // Most programs take the last; some take all.
    const auto [place, first] = options_.emplace(key, value);
    if (first) return;
    if (place->second.text != value.text) {
      Value& before = options_[key + ".before"];
      before.kind =
          place->second.kind == Kind::kUnknown ? Kind::kUnknown : Kind::kText;
      before.text += (before.text.empty() ? "" : " ") + place->second.text;
      before.from = place->second.from;
    }
    place->second = std::move(value);
  }

  const std::vector<CommandWord>& words_;
  const std::string& source_;
  std::map<std::string, Value> options_;
};

}  // namespace

std::size_t program_place(const std::vector<CommandWord>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].text.ends_with(".py") && !is_option(words[i])) return i;
    if (words[i].text != "-m" || i + 1 >= words.size()) continue;
    // The module of a launcher starts a program in its turn.
    if (words[i + 1].text.starts_with("torch.distributed")) continue;
    return i + 1;
  }
  return words.size();
}

bool starts_python(const std::vector<CommandWord>& words) {
  if (words.empty() || std::find(kHandlers.begin(), kHandlers.end(),
                                 file_name(words[0].text)) != kHandlers.end())
    return false;
  const std::size_t program = program_place(words);
  if (program == 0 || is_launcher(words[0].text)) return true;
  if (program == words.size()) return false;  // not `cp train.py there`
  return std::any_of(words.begin(),
                     words.begin() + static_cast<std::ptrdiff_t>(program),
                     [](const CommandWord& word) {
                       return is_python(word.text) || is_launcher(word.text);
                     });
}

std::map<std::string, Value> options_of(const std::vector<CommandWord>& words,
                                        const std::string& source) {
  return Options(words, source).read();
}

std::map<std::string, Value> merged_options(
    const std::vector<std::map<std::string, Value>>& commands) {
  std::map<std::string, Value> options;
  for (const auto& command : commands) {
    for (const auto& [key, value] : command) {
      const auto [place, first] = options.emplace(key, value);
      Value& known = place->second;
      if (first || (known.kind == value.kind && known.text == value.text))
        continue;
      known.text += " or " + value.text + " (" + value.from + ")";
      known.kind = Kind::kUnknown;
    }
  }
  for (auto& option : options) {
    const bool always = std::all_of(
        commands.begin(), commands.end(),
        [&](const auto& command) { return command.count(option.first) != 0; });
    if (always) continue;
    option.second.text += " or not given";
    option.second.kind = Kind::kUnknown;
  }
  return options;
}

}  // namespace assay::env
