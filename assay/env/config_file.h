// Hyperparameters from the files that trainings read and write: YAML, JSON,
// INI, the argparse.Namespace of a log, Megatron's list of arguments.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "assay/env/snapshot.h"

namespace assay::env {

// Flat: {"model": {"hidden-size": 8}} is model.hidden_size; a list of scalars
// is one value, "0.9 0.95", as an option with several values is. A key that
// stands twice has its last value. At most 100,000 values, 64 levels, 64 MiB.
//
// By the name's end: .json, .yaml/.yml, .ini/.cfg/.conf/.toml; anything else
// by what is in it: "Namespace(...)", lines of "  hidden_size ...... 4096",
// "{", "[section]" or "key = value". Nothing is executed; YAML tags are
// ignored. Throws Error{kUnreadable}, and Error{kRefused} naming the place for
// what is none of them.
std::map<std::string, Value> read_config(const std::filesystem::path& path);
std::map<std::string, Value> parse_config(std::string_view text,
                                          const std::string& source);

}  // namespace assay::env
