#include "assay/conform/api/python_call.h"

#include <chrono>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/process.h"
#include "assay/conform/python_side.h"

namespace assay::conform {
namespace {

// A manifest of a large framework is tens of megabytes.
constexpr std::size_t kMostOutput = std::size_t{1} << 30;
constexpr std::chrono::hours kPatience{24};

// -I keeps the current folder, PYTHONPATH and user packages out while our own
// modules are imported; PYTHONPATH then says where packages to read are.
constexpr const char* kBootstrap =
    "import os, sys\n"
    "sys.path.insert(0, sys.argv.pop(1))\n"
    "from assay.api.__main__ import main\n"
    "sys.path += filter(None, os.environ.get('PYTHONPATH', '')"
    ".split(os.pathsep))\n"
    "sys.exit(main())\n";

}  // namespace

std::filesystem::path shared_folder() { return python_side().shared; }

Value call_python_api(const std::vector<std::string>& arguments) {
  const PythonSide side = python_side();
  ProcessOptions options;
  options.arguments = {side.interpreter, "-I", "-c", kBootstrap,
                       side.packages.string()};
  options.arguments.insert(options.arguments.end(), arguments.begin(),
                           arguments.end());
  options.line_limit = kMostOutput;
  Process process(options);
  std::string document;
  const Process::Read read =
      process.read_line(document, Process::Clock::now() + kPatience);
  if (read == Process::Read::kTooLong) {
    throw Error(Code::kRefused, side.interpreter + ": more than 1 GiB");
  }
  const std::string ending = process.ending();
  if (read != Process::Read::kLine || ending != "exit 0") {
    const std::string line = process.log().last_line();
    throw Error(Code::kUnreadable, line.empty()
                                       ? side.interpreter + ": " + ending
                                       : printable(line));
  }
  return parse_json(document, "document of " + side.interpreter);
}

}  // namespace assay::conform
