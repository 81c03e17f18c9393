// Holds the parameters of a function, or the fields of a dataclass, against
// the golden ones.
#pragma once

#include <string>
#include <vector>

#include "assay/conform/api/manifest_compare.h"

namespace assay::conform {

// Where findings go: of one symbol.
struct FindingSink {
  std::string symbol;
  ContractCheck* check;
  void add(Change change, std::string what, std::string expected,
           std::string found) const;
};

// Every call that the golden parameters allow must mean the same: names,
// kinds, defaults, and the order of positional ones. More optional parameters
// behind them are a note. `what` is "parameter" or "field", `of` names the
// function for messages ("" of the symbol itself). `env_is_known` is false
// where the target cannot say which variable changes a default.
void compare_parameters(const FindingSink& sink, const std::string& what,
                        const std::string& of, const ApiParameters& golden,
                        const ApiParameters& target, bool env_is_known);

// Whether a text stands for something that cannot be compared.
bool is_opaque(const std::string& text);

}  // namespace assay::conform
