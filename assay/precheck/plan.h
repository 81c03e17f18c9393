// Which calls of a trace are replayed, which are not and why.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "assay/precheck/api_call.h"
#include "assay/precheck/api_rules.h"

namespace assay::precheck {

struct PlanOptions {
  // Globs over calls ("Functional.linear.3"), over their operators
  // ("Functional.linear.3.backward") or APIs ("Functional.linear"); all where
  // it is empty.
  std::vector<std::string> only;
  // Which steps and ranks; null: all.
  std::function<bool(std::int64_t step)> step;
  std::function<bool(std::int64_t rank)> rank;
  bool every_call = false;  // not only the first of each signature
};

struct PlannedCall {
  std::size_t trace = 0;  // index into Plan::traces
  ApiCall call;
  std::string signature;
  std::int64_t stands_for = 1;  // calls of its signature that were chosen
  SkipRule rule;
};

// What the trace says was not recorded, and what it recorded that is no call.
struct Unrecorded {
  std::size_t trace = 0;
  std::string name, why;
};

struct Plan {
  std::string path;
  std::vector<Trace> traces;       // the chosen steps and ranks
  std::vector<PlannedCall> calls;  // in the order of the traces
  std::vector<Unrecorded> unrecorded;
  std::int64_t chosen = 0;  // calls that `only` fits
  std::vector<std::string> warnings;
};

// Reads every chosen step and rank; one that cannot be read is Unrecorded
// where there are others. Throws Error where nothing can be read, and
// Error{kUsage} where step, rank or `only` choose nothing.
Plan make_plan(const std::string& path, const PlanOptions& options);

}  // namespace assay::precheck
