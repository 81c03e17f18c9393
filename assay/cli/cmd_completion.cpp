// `assay completion SHELL`: the completion script, from the declarations.
#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/core/dtype.h"
#include "assay/metrics/standard.h"

namespace assay {
namespace {

std::string words_for(Completes completes) {
  std::string words;
  if (completes == Completes::kStandard) {
    for (const std::string& name : Standard::shipped()) words += name + " ";
  } else if (completes == Completes::kDType) {
    for (const DTypeTraits& t : kDTypes) words += std::string(t.name) + " ";
  }
  if (!words.empty()) words.pop_back();
  return words;
}

std::string option_names(const CompletionCommand& command) {
  std::string names;
  for (const CompletionOption& option : command.options) {
    for (const std::string& name : option.names) names += name + " ";
  }
  return names;
}

std::string command_names(const std::vector<CompletionCommand>& commands) {
  std::string names;
  for (const CompletionCommand& command : commands) names += command.name + " ";
  return names;
}

// The verbs that take arguments, with the group before its members' names:
// "compare", "api scan".
struct Leaf {
  std::string path;
  const CompletionCommand* command;
};

std::vector<Leaf> leaves(const std::vector<CompletionCommand>& commands) {
  std::vector<Leaf> all;
  for (const CompletionCommand& command : commands) {
    if (command.subcommands.empty()) all.push_back({command.name, &command});
    for (const CompletionCommand& member : command.subcommands) {
      all.push_back({command.name + " " + member.name, &member});
    }
  }
  return all;
}

// Names of options whose values are `completes`, as a pattern of `case`.
std::string options_that_complete(const std::vector<Leaf>& all,
                                  Completes completes) {
  std::set<std::string> names;
  for (const Leaf& leaf : all) {
    for (const CompletionOption& option : leaf.command->options) {
      if (option.completes != completes) continue;
      names.insert(option.names.begin(), option.names.end());
    }
  }
  return fmt::format("{}", fmt::join(names, "|"));
}

std::string bash_groups(const std::vector<CompletionCommand>& commands) {
  std::string script;
  for (const CompletionCommand& command : commands) {
    if (command.subcommands.empty()) continue;
    script += fmt::format(
        "  if [[ $verb == {} ]]; then\n"
        "    if [ \"$COMP_CWORD\" -eq 2 ]; then\n"
        "      COMPREPLY=($(compgen -W \"{}--help\" -- \"$current\"))\n"
        "      return\n    fi\n"
        "    verb=\"$verb ${{COMP_WORDS[2]}}\"\n  fi\n",
        command.name, command_names(command.subcommands));
  }
  return script;
}

std::string bash_script(const std::vector<CompletionCommand>& commands) {
  const std::vector<Leaf> all = leaves(commands);
  std::string script = fmt::format(
      "# bash completion of assay; load with: "
      "source <(assay completion bash)\n"
      "_assay() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  local previous=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  local verb=${{COMP_WORDS[1]}}\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"{}--help --version\" -- "
      "\"$current\"))\n    return\n  fi\n{}  case \"$previous\" in\n",
      command_names(commands), bash_groups(commands));
  for (const Completes completes : {Completes::kStandard, Completes::kDType}) {
    const std::string names = options_that_complete(all, completes);
    if (names.empty()) continue;
    script += fmt::format(
        "    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;\n",
        names, words_for(completes));
  }
  script +=
      "  esac\n  if [[ $current == -* ]]; then\n"
      "    case \"$verb\" in\n";
  for (const Leaf& leaf : all) {
    script += fmt::format(
        "      \"{}\") COMPREPLY=($(compgen -W \"{}\" -- \"$current\")) ;;\n",
        leaf.path, option_names(*leaf.command));
  }
  return script +
         "    esac\n    return\n  fi\n"
         "  COMPREPLY=($(compgen -f -- \"$current\"))\n}\n"
         "complete -o filenames -F _assay assay\n";
}

std::string escaped(std::string text, std::string_view special) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (special.find(text[i]) != std::string_view::npos) {
      text.insert(i++, 1, '\\');
    }
  }
  return text;
}

std::string zsh_option(const CompletionOption& option) {
  std::string lines;
  for (const std::string& name : option.names) {
    std::string action;
    if (option.takes_value) {
      const std::string words = words_for(option.completes);
      action = option.completes == Completes::kPath ? ":file:_files"
               : words.empty()                      ? ":value: "
                               : fmt::format(":value:({})", words);
    }
    std::string help;
    for (const char c : option.help) help += c == '\'' ? '`' : c;
    lines += fmt::format(" \\\n        '{}[{}]{}'", name, escaped(help, "[]:"),
                         action);
  }
  return lines;
}

std::string zsh_arguments(const CompletionCommand& command) {
  std::string text = "_arguments";
  for (const CompletionOption& option : command.options) {
    text += zsh_option(option);
  }
  return text + " \\\n        '*:file:_files'";
}

// A function that completes one of `commands` and then its arguments; those of
// groups come before it.
std::string zsh_function(const std::string& function,
                         const std::vector<CompletionCommand>& commands) {
  std::string before, names, cases;
  for (const CompletionCommand& command : commands) {
    const std::string group = function + "_" + command.name;
    const bool is_group = !command.subcommands.empty();
    if (is_group) before += zsh_function(group, command.subcommands);
    names += fmt::format("      '{}:{}'\n", command.name, command.summary);
    cases += fmt::format("    {}) {} ;;\n", command.name,
                         is_group ? group : zsh_arguments(command));
  }
  return fmt::format(
      "{}{}() {{\n"
      "  if (( CURRENT == 2 )); then\n    local -a verbs=(\n{}    )\n"
      "    _describe command verbs\n    return\n  fi\n"
      "  local verb=$words[2]\n  shift words\n  (( CURRENT-- ))\n"
      "  case $verb in\n{}  esac\n}}\n",
      before, function, names, cases);
}

std::string zsh_script(const std::vector<CompletionCommand>& commands) {
  return "#compdef assay\n# zsh completion; load with: "
         "source <(assay completion zsh)\n" +
         zsh_function("_assay", commands) + "compdef _assay assay\n";
}

std::string fish_verb(const CompletionCommand& command,
                      const std::string& condition) {
  return fmt::format("complete -c assay -n '{}' -a {} -d '{}'\n", condition,
                     command.name, escaped(command.summary, "'"));
}

std::string fish_options(const CompletionCommand& command,
                         const std::string& condition) {
  std::string script;
  for (const CompletionOption& option : command.options) {
    script += fmt::format("complete -c assay -n '{}'", condition);
    for (const std::string& name : option.names) {
      script += name.starts_with("--") ? " -l " + name.substr(2)
                                       : " -s " + name.substr(1);
    }
    if (option.takes_value) script += " -r";
    const std::string words = words_for(option.completes);
    if (!words.empty()) script += fmt::format(" -f -a '{}'", words);
    script += fmt::format(" -d '{}'\n", escaped(option.help, "'"));
  }
  return script;
}

std::string fish_script(const std::vector<CompletionCommand>& commands) {
  std::string script =
      "# fish completion; load with: assay completion fish | source\n";
  for (const CompletionCommand& command : commands) {
    const std::string here =
        fmt::format("__fish_seen_subcommand_from {}", command.name);
    script += fish_verb(command, "__fish_use_subcommand");
    script += fish_options(command, here);
    const std::string none_yet =
        fmt::format("{}; and not __fish_seen_subcommand_from {}", here,
                    command_names(command.subcommands));
    for (const CompletionCommand& member : command.subcommands) {
      script += fish_verb(member, none_yet);
      script += fish_options(
          member, fmt::format("{}; and __fish_seen_subcommand_from {}", here,
                              member.name));
    }
  }
  return script;
}

class CompletionVerb : public Command {
 public:
  std::string name() const override { return "completion"; }
  std::string summary() const override {
    return "print the completion script of a shell";
  }
  std::string examples() const override {
    return "  source <(assay completion bash)\n"
           "  assay completion fish | source\n";
  }
  void declare(Args& args) override {
    args.positional("SHELL", "bash, zsh or fish", &shell_, Completes::kNothing);
  }
  int run() override {
    const auto commands = describe(all_commands());
    std::string script;
    if (shell_ == "bash") {
      script = bash_script(commands);
    } else if (shell_ == "zsh") {
      script = zsh_script(commands);
    } else if (shell_ == "fish") {
      script = fish_script(commands);
    } else {
      throw Error(Code::kUsage, "completion: unknown shell '" + shell_ +
                                    "', known: bash, zsh, fish");
    }
    std::fputs(script.c_str(), stdout);
    return kExitMatch;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion_command() {
  return std::make_unique<CompletionVerb>();
}

}  // namespace assay
