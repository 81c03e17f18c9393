// Runs a user's training script in a process of its own, under a Python module
// that watches it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace assay::conform {

struct ScriptOptions {
  // Whose main() runs the script: "assay.determinism.script". It speaks as
  // python/assay/script.py does.
  std::string module;
  std::vector<std::string> flags;                  // for it, "--steps=3"
  std::map<std::string, std::string> environment;  // besides ours
  std::string script;
  std::vector<std::string> arguments;
  // Called from this thread with the steps done.
  std::function<void(std::int64_t)> progress;
  const std::atomic<bool>* stop = nullptr;
};

// The seed that a flag was given: 0 to 2^32 - 1, what numpy and PYTHONHASHSEED
// take. Throws Error{kUsage}.
std::int64_t checked_seed(const std::string& text);

// The flags and variables of a script whose generators are seeded; nothing for
// those that are left alone. `deterministic`: kernels that add in a fixed
// order, and a fixed order of sets.
void add_seed(ScriptOptions& options, bool seeded, std::int64_t seed,
              bool deterministic);

struct ScriptRun {
  std::int64_t steps = 0;
  bool failed = false;
  std::string why;  // one line, "" where it did not fail
  std::string log;  // what it printed, its ends where that is much
};

// On $ASSAY_PYTHON or python3: the script sees itself as __main__, its folder
// and not ours among the places of modules. Throws Error{kUnreadable} where the
// interpreter cannot be started.
ScriptRun run_script(const ScriptOptions& options);

}  // namespace assay::conform
