#include "assay/conform/python_side.h"

#include <fmt/format.h>

#include <cstdlib>

#include "assay/base/error.h"
#include "assay/conform/worker_command.h"

namespace assay::conform {
namespace {

bool holds_package(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_directory(folder / "assay", ignored);
}

}  // namespace

std::map<std::string, std::string> PythonSide::environment() const {
  const char* now = std::getenv("PYTHONPATH");
  std::string path = packages.string();
  if (now && *now) path += std::string(":") + now;
  // Modules of the current folder would come before its own (3.11 on).
  return {{"PYTHONPATH", path}, {"PYTHONSAFEPATH", "1"}};
}

PythonSide python_side() {
  PythonSide side;
  const char* chosen = std::getenv("ASSAY_PYTHON");
  side.interpreter = chosen && *chosen ? chosen : "python3";
  const std::filesystem::path folder = this_program().parent_path();
  const std::filesystem::path installed =
      folder.parent_path() / "share/assay/python";
  if (holds_package(installed)) {
    side.packages = installed;
    return side;
  }
  // build/<preset>/bin/assay
  for (std::filesystem::path up = folder; up.has_relative_path();
       up = up.parent_path()) {
    if (!holds_package(up / "python")) continue;
    side.packages = up / "python";
    return side;
  }
  throw Error(Code::kUnreadable,
              fmt::format("{}: the Python side of Assay is not there, nor in a "
                          "source tree around {}",
                          installed.string(), folder.string()));
}

}  // namespace assay::conform
