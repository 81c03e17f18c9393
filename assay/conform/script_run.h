// Runs a training script in a process of its own and captures its steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace assay::conform {

struct ScriptOptions {
  std::string script;
  std::vector<std::string> arguments;
  std::filesystem::path out;  // where `steps` and `setup` are put
  std::int64_t steps = 3;     // the script ends after so many
  std::string level = "mix";  // as assay.capture's
  std::string mode = "hash";
  std::int64_t seed = 0;
  bool seeded = true;          // whether `seed` is set before the script
  bool deterministic = false;  // and kernels that add in a fixed order
  // Called from this thread with the steps done.
  std::function<void(std::int64_t)> progress;
  const std::atomic<bool>* stop = nullptr;
};

struct ScriptRun {
  std::int64_t steps = 0;
  bool failed = false;
  std::string why;  // one line, "" where it did not fail
  std::string log;  // what it printed, its ends where that is much
};

// `python -m assay.determinism`, on $ASSAY_PYTHON or python3: the script sees
// itself as __main__, its folder and not ours among the places of modules.
// Throws Error{kUnreadable} where the interpreter cannot be started.
ScriptRun run_script(const ScriptOptions& options);

}  // namespace assay::conform
