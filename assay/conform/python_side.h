// Where the Python half of Assay is, and who runs it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace assay::conform {

struct PythonSide {
  std::string interpreter;         // $ASSAY_PYTHON, or python3
  std::filesystem::path packages;  // the folder that holds assay/

  // PYTHONPATH with `packages` before what it is now.
  std::map<std::string, std::string> environment() const;
};

// Beside an installed program in ../share/assay/python; of a program in a
// build tree, the source tree's python/. Throws Error{kUnreadable} naming both
// where neither is there.
PythonSide python_side();

}  // namespace assay::conform
