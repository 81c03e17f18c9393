// Reads the traces of a comparison; one that cannot be read becomes a row.
#pragma once

#include <string>
#include <vector>

#include "assay/compare/compare.h"
#include "assay/compare/pair_locations.h"

namespace assay {

// One tree of dumps.
struct TraceTree {
  std::string path;
  std::vector<TraceLocation> locations;

  explicit TraceTree(const std::string& where)
      : path(where), locations(locate_traces(where)) {}
};

// A trace to read and where to put it. A read that throws leaves a trace with
// one record that cannot be read, so that its row is incomplete; `only` traces
// (nothing else to compare) throw on.
struct ReadRequest {
  const TraceLocation* location = nullptr;
  Trace* into = nullptr;
  bool only = false;
};

// In parallel. Throws Error.
void read_all(const std::vector<ReadRequest>& requests,
              const TraceReadOptions& options);

// A trace without operators, for a step or rank that a side lacks.
Trace absent_trace(const LocationPair& place);

// Gives both traces one record that says so, where neither has any: nothing
// was compared, and that must show.
void mark_if_empty(Trace& golden, Trace& target);

}  // namespace assay
