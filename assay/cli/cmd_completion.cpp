// `assay completion SHELL`: the completion script, from the declarations.
#include <fmt/format.h>

#include <cstdio>

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

std::string bash_script(const std::vector<CompletionCommand>& commands) {
  std::string script =
      "# bash completion of assay; load with: "
      "source <(assay completion bash)\n"
      "_assay() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]}\n"
      "  local previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  script += fmt::format(
      "    COMPREPLY=($(compgen -W \"{}--help --version\" -- "
      "\"$current\"))\n    return\n  fi\n  case \"$previous\" in\n",
      command_names(commands));
  for (const Completes completes : {Completes::kStandard, Completes::kDType}) {
    std::string names;
    for (const CompletionCommand& command : commands) {
      for (const CompletionOption& option : command.options) {
        if (option.completes != completes) continue;
        for (const std::string& name : option.names) {
          if (names.find(name) == std::string::npos) names += name + "|";
        }
      }
    }
    if (names.empty()) continue;
    names.pop_back();
    script += fmt::format(
        "    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;\n",
        names, words_for(completes));
  }
  script +=
      "  esac\n  if [[ $current == -* ]]; then\n"
      "    case \"${COMP_WORDS[1]}\" in\n";
  for (const CompletionCommand& command : commands) {
    script += fmt::format(
        "      {}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")) ;;\n",
        command.name, option_names(command));
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

std::string zsh_script(const std::vector<CompletionCommand>& commands) {
  std::string script =
      "#compdef assay\n# zsh completion; load with: "
      "source <(assay completion zsh)\n_assay() {\n"
      "  if (( CURRENT == 2 )); then\n    local -a verbs=(\n";
  for (const CompletionCommand& command : commands) {
    script += fmt::format("      '{}:{}'\n", command.name, command.summary);
  }
  script +=
      "    )\n    _describe command verbs\n    return\n  fi\n"
      "  local verb=$words[2]\n  shift words\n  (( CURRENT-- ))\n"
      "  case $verb in\n";
  for (const CompletionCommand& command : commands) {
    script += fmt::format("    {}) _arguments", command.name);
    for (const CompletionOption& option : command.options) {
      script += zsh_option(option);
    }
    script += " \\\n        '*:file:_files' ;;\n";
  }
  return script + "  esac\n}\ncompdef _assay assay\n";
}

std::string fish_script(const std::vector<CompletionCommand>& commands) {
  std::string script =
      "# fish completion; load with: assay completion fish | source\n";
  for (const CompletionCommand& command : commands) {
    script += fmt::format(
        "complete -c assay -n __fish_use_subcommand -a {} -d '{}'\n",
        command.name, escaped(command.summary, "'"));
    for (const CompletionOption& option : command.options) {
      script +=
          fmt::format("complete -c assay -n '__fish_seen_subcommand_from {}'",
                      command.name);
      for (const std::string& name : option.names) {
        script += name.starts_with("--") ? " -l " + name.substr(2)
                                         : " -s " + name.substr(1);
      }
      if (option.takes_value) script += " -r";
      const std::string words = words_for(option.completes);
      if (!words.empty()) script += fmt::format(" -f -a '{}'", words);
      script += fmt::format(" -d '{}'\n", escaped(option.help, "'"));
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
