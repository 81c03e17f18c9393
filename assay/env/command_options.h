// From the words of a command line to options by name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "assay/env/snapshot.h"

namespace assay::env {

// A word of a command; unknown: it holds what only a running shell knows.
struct CommandWord {
  std::string text;
  bool unknown = false;
  int line = 0;  // where it was written; 0: nowhere
};

// The place of the Python program: of the first word that ends with .py, or
// behind -m; words.size() where there is none.
std::size_t program_place(const std::vector<CommandWord>& words);

// Whether the command starts a Python program.
bool starts_python(const std::vector<CommandWord>& words);

// The options among `words`. One that is given twice has its last value, as
// argparse has it. `source` names the script, for Value::from.
std::map<std::string, Value> options_of(const std::vector<CommandWord>& words,
                                        const std::string& source);

// Those of several commands that start the same program, of which any may be
// the one that runs: what they do not agree on is unknown.
std::map<std::string, Value> merged_options(
    const std::vector<std::map<std::string, Value>>& commands);

}  // namespace assay::env
