// What a launch script sets: options of the program that it starts, variables
// that it exports. The script is read, never run.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "assay/env/snapshot.h"

namespace assay::env {

struct ScriptFacts {
  std::map<std::string, Value> hyperparameters;
  std::map<std::string, Value> environment;
  std::vector<std::string> notes;  // what the script leaves open
};

// Of a shell script:
//   --flag value, --flag=value, -flag, name=value and arguments of the commands
//     that start a Python program (python, torchrun, ...); "launcher." before
//     the keys of options in front of the program; where several programs are
//     started, the names of all but the last before theirs
//   NAME=value, NAME+=value, arrays; $NAME, ${NAME}, ${NAME:-default},
//     ${NAME[@]} of variables that the script itself has assigned before, and
//     $((...)) of such; plain variables that nothing expands are
//     hyperparameters of their own
//   export NAME=value, NAME=value before a command: environment
// What depends on anything else (other variables, $(...), branches, loops) is
// Kind::kUnknown with its own text. Keys are as normalised_key() has them.
// Throws Error{kRefused} "run.sh:12: ..." for what is no shell script.
ScriptFacts parse_script(std::string_view text, const std::string& source);
// A file of at most 16 MiB. Throws Error{kUnreadable} too.
ScriptFacts read_script(const std::filesystem::path& path);

// The words of one command line, as the shell has passed them.
std::map<std::string, Value> command_options(
    const std::vector<std::string>& words, const std::string& source);

// "--Hidden-Size" -> "hidden_size".
std::string normalised_key(std::string_view key);

}  // namespace assay::env
