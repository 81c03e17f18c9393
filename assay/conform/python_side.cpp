#include "assay/conform/python_side.h"

#include <fmt/format.h>

#include <cstdlib>

#include "assay/base/error.h"
#include "assay/conform/worker_command.h"

namespace assay::conform {
namespace {

using std::filesystem::path;

bool is_folder(const path& folder) {
  std::error_code ignored;
  return std::filesystem::is_directory(folder, ignored);
}

bool holds_package(const path& folder) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder / "assay/__init__.py",
                                          ignored);
}

// PREFIX/bin/assay, with PREFIX/share/assay/{python,specs}.
bool find_installed(const path& folder, PythonSide& side) {
  const path share = folder.parent_path() / "share/assay";
  if (!holds_package(share / "python")) return false;
  side.packages = share / "python";
  side.shared = share;
  return true;
}

// site-packages/assay/bin/assay, with the package around it.
bool find_package(const path& folder, PythonSide& side) {
  const path package = folder.parent_path();
  if (package.filename() != "assay" || !holds_package(package.parent_path()))
    return false;
  side.packages = package.parent_path();
  side.shared = package;
  return true;
}

// build/<preset>/bin/assay, somewhere inside the source tree. The build has a
// package of its own, but not what is beside it.
bool find_source_tree(const path& folder, PythonSide& side) {
  for (path up = folder; up.has_relative_path(); up = up.parent_path()) {
    if (!holds_package(up / "python") || !is_folder(up / "specs")) continue;
    side.packages = up / "python";
    side.shared = up;
    return true;
  }
  return false;
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
  const path folder = this_program().parent_path();
  if (find_installed(folder, side) || find_package(folder, side) ||
      find_source_tree(folder, side))
    return side;
  throw Error(Code::kUnreadable,
              fmt::format("{}: the Python side of Assay is not there, nor "
                          "around {}",
                          (folder.parent_path() / "share/assay").string(),
                          folder.string()));
}

}  // namespace assay::conform
