// Where the Python half of Assay is, and who runs it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace assay::conform {

struct PythonSide {
  std::string interpreter;         // $ASSAY_PYTHON, or python3
  std::filesystem::path packages;  // the folder that holds assay/
  std::filesystem::path shared;    // the folder that holds specs/

  // PYTHONPATH with `packages` before what it is now.
  std::map<std::string, std::string> environment() const;
};

// Of a program of `make install`, ../share/assay; of one in a Python package
// (`pip install`), the package around it; in a build tree, the source tree
// around that. Throws Error{kUnreadable} where none is there.
PythonSide python_side();

}  // namespace assay::conform
