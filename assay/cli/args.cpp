#include "assay/cli/args.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/base/text.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/version.h"
#include "assay/metrics/verdict.h"

namespace assay {
namespace {

class CliArgs : public Args {
 public:
  explicit CliArgs(CLI::App* app) : app_(app) {}

  void positional(const std::string& name, const std::string& help,
                  std::string* value, Completes) override {
    app_->add_option(name, *value, help)->required();
  }
  void optional_positional(const std::string& name, const std::string& help,
                           std::string* value, Completes) override {
    app_->add_option(name, *value, help);
  }
  void positionals(const std::string& name, const std::string& help,
                   std::vector<std::string>* values, Completes) override {
    app_->add_option(name, *values, help)->required();
  }
  void optional_positionals(const std::string& name, const std::string& help,
                            std::vector<std::string>* values,
                            Completes) override {
    app_->add_option(name, *values, help);
  }
  void flag(const std::string& names, const std::string& help,
            bool* value) override {
    app_->add_flag(names, *value, help);
  }
  void option(const std::string& names, const std::string& metavar,
              const std::string& help, std::string* value, Completes) override {
    app_->add_option(names, *value, help)->type_name(metavar);
  }
  void list(const std::string& names, const std::string& metavar,
            const std::string& help, std::vector<std::string>* values,
            Completes) override {
    // One value a flag: `--only GLOB GOLDEN TARGET` keeps its positionals.
    app_->add_option(names, *values, help + " (may be repeated)")
        ->type_name(metavar)
        ->allow_extra_args(false);
  }
  void values(const std::string& names, const std::string& metavar,
              const std::string& help, std::vector<std::string>* values,
              Completes) override {
    app_->add_option(names, *values, help)->type_name(metavar);
  }
  void number(const std::string& names, const std::string& metavar,
              const std::string& help, int* value, int least) override {
    app_->add_option(names, *value, help)
        ->type_name(metavar)
        ->check(CLI::Range(least, 1 << 20));
  }

 private:
  CLI::App* app_;
};

class DescribingArgs : public Args {
 public:
  explicit DescribingArgs(CompletionCommand* out) : out_(out) {}

  void positional(const std::string&, const std::string&, std::string*,
                  Completes completes) override {
    out_->positionals.push_back(completes);
  }
  void optional_positional(const std::string&, const std::string&, std::string*,
                           Completes completes) override {
    out_->positionals.push_back(completes);
  }
  void positionals(const std::string&, const std::string&,
                   std::vector<std::string>*, Completes completes) override {
    out_->positionals.push_back(completes);
  }
  void optional_positionals(const std::string&, const std::string&,
                            std::vector<std::string>*,
                            Completes completes) override {
    out_->positionals.push_back(completes);
  }
  void flag(const std::string& names, const std::string& help, bool*) override {
    add(names, help, false, Completes::kNothing);
  }
  void option(const std::string& names, const std::string&,
              const std::string& help, std::string*,
              Completes completes) override {
    add(names, help, true, completes);
  }
  void list(const std::string& names, const std::string&,
            const std::string& help, std::vector<std::string>*,
            Completes completes) override {
    add(names, help, true, completes);
  }
  void values(const std::string& names, const std::string&,
              const std::string& help, std::vector<std::string>*,
              Completes completes) override {
    add(names, help, true, completes);
  }
  void number(const std::string& names, const std::string&,
              const std::string& help, int*, int) override {
    add(names, help, true, Completes::kNothing);
  }

 private:
  void add(const std::string& names, const std::string& help, bool value,
           Completes completes) {
    CompletionOption option{{}, help, value, completes};
    for (const std::string_view name : split(names, ',')) {
      option.names.emplace_back(name);
    }
    out_->options.push_back(std::move(option));
  }

  CompletionCommand* out_;
};

using Commands = std::span<const std::unique_ptr<Command>>;

// Where parsing stopped, in our words: `path` is the program and the command
// that was reached, `hint` says which verb is unknown, "" when none is.
struct ParseContext {
  std::string path = "assay";
  std::string hint;
};

ParseContext parse_context(std::span<const std::string> arguments,
                           Commands commands) {
  ParseContext context;
  while (!arguments.empty() && !arguments[0].starts_with("-")) {
    const Command* chosen = nullptr;
    std::vector<std::string> names;
    for (const auto& command : commands) {
      if (command->name() == arguments[0]) chosen = command.get();
      names.push_back(command->name());
    }
    if (!chosen) {
      const std::string near = closest(arguments[0], names);
      context.hint = fmt::format(
          "unknown command '{}'{}", printable(arguments[0]),
          near.empty() ? "" : fmt::format(", did you mean {}?", near));
      break;
    }
    context.path += " " + chosen->name();
    if (chosen->subcommands().empty()) break;
    commands = chosen->subcommands();
    arguments = arguments.subspan(1);
  }
  return context;
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& error,
                       const ParseContext& context) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  const std::string what = context.hint.empty() ? error.what() : context.hint;
  std::fprintf(stderr, "assay: %s (see %s --help)\n", what.c_str(),
               context.path.c_str());
  return kExitUsage;
}

int run_guarded(Command& command) {
  try {
    return command.run();
  } catch (const Error& error) {
    std::fprintf(stderr, "assay: %s\n", error.what());
    return exit_code(error.code());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "assay: out of memory\n");
    return kExitUnreadable;
  }
}

// What parsing leaves behind: the exit code of the command that ran.
struct Outcome {
  int threads = 0;
  int code = kExitUsage;
};

void add_command(CLI::App& parent, Command& command, Outcome* outcome) {
  CLI::App* sub = parent.add_subcommand(command.name(), command.summary());
  sub->footer("Examples:\n" + command.examples());
  if (!command.subcommands().empty()) {
    Command* fallback = command.default_verb();
    sub->require_subcommand(fallback ? 0 : 1, 1);
    for (const auto& member : command.subcommands()) {
      add_command(*sub, *member, outcome);
    }
    if (fallback) {
      sub->final_callback([outcome, sub, fallback] {
        if (!sub->get_subcommands().empty()) return;
        outcome->code = run_guarded(*fallback);
      });
    }
    return;
  }
  CliArgs args(sub);
  command.declare(args);
  sub->final_callback([outcome, verb = &command] {
    if (outcome->threads > 0) set_thread_count(outcome->threads);
    outcome->code = run_guarded(*verb);
  });
}

CompletionCommand describe(Command& command) {
  CompletionCommand entry{command.name(), command.summary(), {}, {}, {}};
  DescribingArgs args(&entry);
  command.declare(args);
  args.flag("-h,--help", "show help", nullptr);
  for (const auto& member : command.subcommands()) {
    entry.subcommands.push_back(describe(*member));
  }
  return entry;
}

class CommandGroup : public Command {
 public:
  CommandGroup(std::string name, std::string summary,
               std::vector<std::unique_ptr<Command>> members,
               std::string default_verb)
      : name_(std::move(name)),
        summary_(std::move(summary)),
        default_verb_(std::move(default_verb)),
        members_(std::move(members)) {}

  std::string name() const override { return name_; }
  std::string summary() const override { return summary_; }
  std::string examples() const override {
    std::string lines;
    for (const auto& member : members_) lines += member->examples();
    return lines;
  }
  void declare(Args&) override {}
  int run() override {
    throw Error(Code::kInternal, name_ + ": a group of commands has no run");
  }
  std::span<const std::unique_ptr<Command>> subcommands() const override {
    return members_;
  }
  Command* default_verb() const override {
    for (const auto& member : members_) {
      if (member->name() == default_verb_) return member.get();
    }
    return nullptr;
  }

 private:
  std::string name_, summary_, default_verb_;
  std::vector<std::unique_ptr<Command>> members_;
};

}  // namespace

int run_command_line(const std::vector<std::string>& arguments,
                     const std::vector<std::unique_ptr<Command>>& commands) {
  CLI::App app{
      "Proves that a transformer stack computes the same on a new accelerator,"
      "\nand names the operator that does not.",
      "assay"};
  app.set_version_flag("--version", std::string("assay ") + kVersion);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 match, 1 mismatch, 2 usage, 3 unreadable or refused "
      "input,\n4 incomplete (something was not compared).");
  Outcome outcome;
  app.add_option("--threads", outcome.threads,
                 "threads to use (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  app.fallthrough();

  for (const auto& command : commands) add_command(app, *command, &outcome);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error, parse_context(arguments, commands));
  }
  return outcome.code;
}

std::unique_ptr<Command> make_command_group(
    std::string name, std::string summary,
    std::vector<std::unique_ptr<Command>> members, std::string default_verb) {
  return std::make_unique<CommandGroup>(std::move(name), std::move(summary),
                                        std::move(members),
                                        std::move(default_verb));
}

std::vector<CompletionCommand> describe(
    const std::vector<std::unique_ptr<Command>>& commands) {
  std::vector<CompletionCommand> all;
  all.reserve(commands.size());
  for (const auto& command : commands) all.push_back(describe(*command));
  return all;
}

}  // namespace assay
