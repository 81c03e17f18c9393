// The result of a conformance run: data that the reports render, that is kept
// as run.json, and that the history remembers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/cases.h"
#include "assay/metrics/verdict.h"

namespace assay::conform {

// How a case ended, before any number is looked at. All but kCompared are
// never a match: kFailed and kRefused against the contract are mismatches, the
// others incomplete.
enum class Ending : std::uint8_t {
  kCompared,     // outputs were compared (or both sides refused, as they must)
  kRefused,      // one side refused what the other computed
  kFailed,       // the worker answered with an error
  kUnsupported,  // the worker says that it lacks this
  kCrashed,      // signal or exit in the middle
  kTimeout,
  kMemory,   // beyond the limit
  kGarbage,  // an answer that is none, or output files that cannot be read
  kStale,    // the golden was made for another spec, adapter, implementation
             // or policy: `message` names which
  kMissing,  // no golden of this case
  kNotRun,   // interrupted
};
std::string_view to_string(Ending ending);  // "compared", "crashed", ...

// One thing that was compared: an output of a rank, a field of the contract,
// the second run of the determinism check.
struct Check {
  std::string name;  // "y", "grad.weight", "contract.defaults.eps",
                     // "again.y"
  int rank = 0;      // -1: the ranks' parts merged
  Verdict verdict = Verdict::kIncomplete;
  std::string standard;   // that judged it, "" for contract fields
  std::string criterion;  // that decided, "" for a match
  std::string text;       // one line: figure, bound, place
  // Of elements; NaN where none were compared.
  double max_abs = 0, max_rel = 0, norm_l2 = 0, ulp_max = 0;
  std::int64_t index = -1;  // of the worst element
};

struct CaseResult {
  Case subject;
  Ending ending = Ending::kNotRun;
  Verdict verdict = Verdict::kIncomplete;
  std::string message;  // one line: why it is no match
  std::string log;      // file with what the worker wrote to stderr, or ""
  std::vector<Check> checks;
  double golden_seconds = 0, seconds = 0;
  std::int64_t golden_peak_bytes = 0, peak_bytes = 0;
  double slower = 0;  // seconds over those of --perf-baseline; 0 without one
};

struct ModuleResult {
  std::string module;
  Tier tier = Tier::kSmall;
  std::vector<std::string> api;  // that the spec guards
  std::vector<CaseResult> cases;
  Verdict verdict = Verdict::kIncomplete;  // the worst: mismatch, incomplete
};

// What ran, as its hello says.
struct Side {
  std::string implementation, version, device;
  Object environment;
};

struct RunResult {
  Side golden, target;
  std::string store;    // where the goldens are
  std::string command;  // repeats the run
  std::string began;    // UTC, "2026-11-30T01:02:03Z"
  double seconds = 0;
  std::vector<ModuleResult> modules;
  Verdict verdict = Verdict::kIncomplete;
  std::vector<std::string> warnings;
  bool interrupted = false;
};

struct Tally {
  std::int64_t match = 0, mismatch = 0, incomplete = 0, empty = 0;
  std::int64_t total() const { return match + mismatch + incomplete + empty; }
};
Tally tally(const ModuleResult& module);
Tally tally(const RunResult& run);

// The worst of the cases: mismatch before incomplete before match; no case at
// all, or nothing but empty ones, is incomplete.
void conclude(ModuleResult& module);
void conclude(RunResult& run);

// run.json: everything above. docs/conform.md has the schema. The file appears
// complete or not at all. read_run throws Error{kUnreadable, kRefused}.
void write_run(const RunResult& run, const std::filesystem::path& path);
RunResult read_run(const std::filesystem::path& path);

}  // namespace assay::conform
