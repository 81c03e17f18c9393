// A subcommand's arguments, declared once: parsing, --help and shell
// completion all come from the same declaration. Hides the parser library.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// What completes the value of an argument in a shell.
enum class Completes { kNothing, kPath, kStandard, kDType };

// Declares into the variables it is given; they are set when parsing succeeds
// and must outlive it. Names are comma-separated: "-q,--quiet".
class Args {
 public:
  virtual ~Args() = default;
  virtual void positional(const std::string& name, const std::string& help,
                          std::string* value,
                          Completes completes = Completes::kPath) = 0;
  virtual void optional_positional(
      const std::string& name, const std::string& help, std::string* value,
      Completes completes = Completes::kNothing) = 0;
  // One value or more, up to the next option.
  virtual void positionals(const std::string& name, const std::string& help,
                           std::vector<std::string>* values,
                           Completes completes = Completes::kPath) = 0;
  // Any number of values, none too.
  virtual void optional_positionals(
      const std::string& name, const std::string& help,
      std::vector<std::string>* values,
      Completes completes = Completes::kNothing) = 0;
  virtual void flag(const std::string& names, const std::string& help,
                    bool* value) = 0;
  virtual void option(const std::string& names, const std::string& metavar,
                      const std::string& help, std::string* value,
                      Completes completes = Completes::kNothing) = 0;
  // May be given several times, one value each.
  virtual void list(const std::string& names, const std::string& metavar,
                    const std::string& help, std::vector<std::string>* values,
                    Completes completes = Completes::kNothing) = 0;
  // One value or more, up to the next option: `A B --seeds C D`.
  virtual void values(const std::string& names, const std::string& metavar,
                      const std::string& help, std::vector<std::string>* values,
                      Completes completes = Completes::kNothing) = 0;
  virtual void number(const std::string& names, const std::string& metavar,
                      const std::string& help, int* value, int least) = 0;
};

// One verb of the tool. `declare` runs before `run`, on the same object.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;   // one line, no full stop
  virtual std::string examples() const = 0;  // lines shown under --help
  virtual void declare(Args& args) = 0;
  virtual int run() = 0;  // returns the exit code; throws Error
  // The verbs of a group; a command with arguments of its own has none.
  virtual std::span<const std::unique_ptr<Command>> subcommands() const {
    return {};
  }
  // The verb that a group runs where none is named; null: one has to be.
  virtual Command* default_verb() const { return nullptr; }
};

// A verb whose first argument is a verb of its own: `assay api scan`. Its
// members are commands with arguments, not groups again. Its examples are
// theirs. `default_verb` names the member that runs, without arguments, where
// none is named; "": one has to be.
std::unique_ptr<Command> make_command_group(
    std::string name, std::string summary,
    std::vector<std::unique_ptr<Command>> members,
    std::string default_verb = "");

// What a shell completes, as data.
struct CompletionOption {
  std::vector<std::string> names;
  std::string help;
  bool takes_value = false;
  Completes completes = Completes::kNothing;
};
struct CompletionCommand {
  std::string name, summary;
  std::vector<CompletionOption> options;
  std::vector<Completes> positionals;
  std::vector<CompletionCommand> subcommands;
};

// Parses `arguments` (without the program's name) and runs the chosen command.
// Prints help or one-line errors itself. Returns the exit code.
int run_command_line(const std::vector<std::string>& arguments,
                     const std::vector<std::unique_ptr<Command>>& commands);

// The declarations of every command, for the completion scripts.
std::vector<CompletionCommand> describe(
    const std::vector<std::unique_ptr<Command>>& commands);

}  // namespace assay
