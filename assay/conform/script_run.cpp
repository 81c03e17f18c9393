#include "assay/conform/script_run.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/process.h"
#include "assay/conform/python_side.h"
#include "assay/conform/value.h"
#include "assay/conform/worker_command.h"

namespace assay::conform {
namespace {

using namespace std::chrono_literals;

// Only `assay` comes from our folder: what else lies there must not come
// before the modules of the script.
constexpr const char* kBootstrap =
    "import importlib, importlib.util, os, sys\n"
    "folder = os.path.join(sys.argv.pop(1), 'assay')\n"
    "spec = importlib.util.spec_from_file_location(\n"
    "    'assay', os.path.join(folder, '__init__.py'),\n"
    "    submodule_search_locations=[folder])\n"
    "package = importlib.util.module_from_spec(spec)\n"
    "sys.modules['assay'] = package\n"
    "spec.loader.exec_module(package)\n"
    "main = importlib.import_module(sys.argv.pop(1)).main\n"
    "sys.exit(main())\n";

// In a build tree the package that has the C++ library is the build's own.
std::filesystem::path package_folder(const PythonSide& side) {
  const auto built = this_program().parent_path().parent_path() / "python";
  std::error_code ignored;
  return std::filesystem::exists(built / "assay/__init__.py", ignored)
             ? built
             : side.packages;
}

ProcessOptions process_of(const ScriptOptions& options) {
  const PythonSide side = python_side();
  ProcessOptions process;
  process.arguments = {side.interpreter, "-c", kBootstrap,
                       package_folder(side).string(), options.module};
  const auto add = [&](const std::vector<std::string>& words) {
    process.arguments.insert(process.arguments.end(), words.begin(),
                             words.end());
  };
  add(options.flags);
  add({"--", options.script});
  add(options.arguments);
  process.environment = options.environment;
  return process;
}

// A line of the runner: {"step":3} or {"ended":"error","why":...,"steps":3}.
class Listener {
 public:
  explicit Listener(const ScriptOptions& options) : options_(options) {}

  void hear(const std::string& line) {
    const Value message = parse_json(line, "the script's process");
    if (const Value* step = message.find("step")) {
      steps = step->integer();
      if (options_.progress) options_.progress(steps);
    }
    if (const Value* end = message.find("ended")) ended = end->text();
    if (const Value* end = message.find("why")) why = end->text();
  }

  std::int64_t steps = 0;
  std::string ended, why;

 private:
  const ScriptOptions& options_;
};

bool stopped(const ScriptOptions& options) {
  return options.stop && options.stop->load();
}

}  // namespace

std::int64_t checked_seed(const std::string& text) {
  constexpr std::int64_t kMostSeed = 0xffffffff;
  std::int64_t seed = -1;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, seed);
  if (parsed.ec == std::errc() && parsed.ptr == end && seed >= 0 &&
      seed <= kMostSeed) {
    return seed;
  }
  throw Error(Code::kUsage, fmt::format("--seed: {}, expected 0 to {}",
                                        printable(text), kMostSeed));
}

void add_seed(ScriptOptions& options, bool seeded, std::int64_t seed,
              bool deterministic) {
  if (seeded) options.flags.push_back("--seed=" + std::to_string(seed));
  if (!deterministic) return;
  options.flags.emplace_back("--deterministic");
  // Read when the interpreter, or cuBLAS, starts.
  options.environment["PYTHONHASHSEED"] = std::to_string(seed);
  options.environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8";
}

ScriptRun run_script(const ScriptOptions& options) {
  Process process(process_of(options));
  Listener listener(options);
  std::string line;
  Process::Read read = Process::Read::kTimeout;
  while (read != Process::Read::kEnd && read != Process::Read::kTooLong &&
         !stopped(options)) {
    read = process.read_line(line, Process::Clock::now() + 200ms);
    if (read == Process::Read::kLine) listener.hear(line);
  }
  ScriptRun run;
  run.steps = listener.steps;
  if (stopped(options)) {
    process.kill();
    run.failed = true;
    run.why = "interrupted";
    return run;
  }
  const std::string ending = process.ending();
  run.log = process.log().text();
  if (listener.ended == "steps" || listener.ended == "exit") return run;
  run.failed = true;
  run.why = printable(!listener.why.empty() ? listener.why
                      : process.log().empty()
                          ? ending
                          : ending + ": " + process.log().last_line());
  return run;
}

}  // namespace assay::conform
