// Whether runs of one program computed the same bits, and the first operator
// where they part. Data, and the one function that finds it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/metrics/verdict.h"
#include "assay/trace/trace.h"

namespace assay {

// What one run left: paths of traces.
struct RunTraces {
  std::string steps;
  // What ran before the first call of a module, "" where that is not apart.
  // Memory that nobody reads differs there, so it never decides: it only tells
  // where a difference in the steps comes from.
  std::string setup;
};

// How two runs part.
enum class Parting : std::uint8_t {
  kOperator,  // inputs agree, an output does not
  kRandom,    // the same of an operator that draws random numbers
  kCalls,     // the program makes other calls
  kWeights,   // a parameter differs that no captured operator wrote
  kData,      // an input differs that no captured operator put out
  kArgument,  // a plain argument differs
  kExchange,  // another tensor is used, or it changed unseen
  kUnknown,   // an output differs, not all of its inputs are known
};
std::string_view to_string(Parting parting);  // "operator", "random", ...

struct DeterminismFinding {
  Parting kind = Parting::kUnknown;
  std::int64_t run = 2;  // the run that is not as run 1 is
  bool setup = false;    // before the first call of a module
  std::int64_t step = 0, rank = 0;
  std::string op;             // its name, in run 1 where that has it
  std::string leaf;           // of the tensor or argument, "" for kCalls
  std::string dtype;          // of run 1
  Shape shape;                // of run 1
  std::string first, second;  // kCalls: the call of run 1 and of the other,
                              // "" for none; else hash or text of the leaf
  std::string figures;        // how much it differs, where elements were kept
  std::string cause;          // one line, "" when nothing is known
  std::string reached;        // setup: the record in which it reached the steps
  std::vector<std::string> call_path;  // outermost module first
  std::vector<std::string> stack;      // innermost frame first
};

struct DeterminismCounts {
  std::int64_t match = 0, differ = 0, incomplete = 0, empty = 0;
  std::int64_t total() const { return match + differ + incomplete + empty; }
};

struct DeterminismReport {
  // kMatch: the same bits; kMismatch: they part; kIncomplete: neither is
  // known. Over the steps alone, of all pairs of run 1 and another.
  Verdict verdict = Verdict::kIncomplete;
  std::int64_t runs = 0;
  std::vector<std::int64_t> steps;  // their numbers
  // Of the run that parts first, else of the last.
  DeterminismCounts counts;
  std::optional<DeterminismFinding> first;  // earliest of all runs
  std::vector<std::string> warnings;
  double seconds = 0;  // of comparing
  bool interrupted = false;

  // Whether what the runs were given differs, not what they computed of it.
  bool another_start() const;
};

struct DeterminismOptions {
  // As CompareOptions::progress.
  std::function<void(std::int64_t, std::int64_t, std::int64_t)> progress;
  const std::atomic<bool>* stop = nullptr;
};

// Compares every run with the first, bit for bit. Throws Error where a run's
// steps cannot be read at all, Error{kUsage} for fewer than two runs.
DeterminismReport find_nondeterminism(const std::vector<RunTraces>& runs,
                                      const DeterminismOptions& options = {});

}  // namespace assay
