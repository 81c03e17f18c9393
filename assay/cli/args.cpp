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
    app_->add_option(names, *values, help)
        ->type_name(metavar)
        ->allow_extra_args(false);
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

std::string unknown_command_hint(
    const std::vector<std::string>& arguments,
    const std::vector<std::unique_ptr<Command>>& commands) {
  if (arguments.empty() || arguments[0].starts_with("-")) return "";
  std::vector<std::string> names;
  for (const auto& command : commands) {
    if (command->name() == arguments[0]) return "";
    names.push_back(command->name());
  }
  const std::string near = closest(arguments[0], names);
  return fmt::format(
      "unknown command '{}'{}", printable(arguments[0]),
      near.empty() ? "" : fmt::format(", did you mean {}?", near));
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& error,
                       const std::string& hint) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  const std::string what = hint.empty() ? error.what() : hint;
  std::fprintf(stderr, "assay: %s (see assay --help)\n", what.c_str());
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
  int threads = 0;
  app.add_option("--threads", threads, "threads to use (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  app.fallthrough();

  int code = kExitUsage;
  for (const auto& command : commands) {
    CLI::App* sub = app.add_subcommand(command->name(), command->summary());
    sub->footer("Examples:\n" + command->examples());
    CliArgs args(sub);
    command->declare(args);
    sub->final_callback([&code, &threads, verb = command.get()] {
      if (threads > 0) set_thread_count(threads);
      code = run_guarded(*verb);
    });
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error,
                              unknown_command_hint(arguments, commands));
  }
  return code;
}

std::vector<CompletionCommand> describe(
    const std::vector<std::unique_ptr<Command>>& commands) {
  std::vector<CompletionCommand> all;
  for (const auto& command : commands) {
    CompletionCommand entry{command->name(), command->summary(), {}, {}};
    DescribingArgs args(&entry);
    command->declare(args);
    args.flag("-h,--help", "show help", nullptr);
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace assay
