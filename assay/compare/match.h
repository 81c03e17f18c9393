// Pairs the records of two traces: by name, by declared rules, and with
// --fuzzy without call indices. No record of either side is ever dropped.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/map_rules.h"
#include "assay/trace/trace.h"

namespace assay {

enum class PairedBy : std::uint8_t {
  kNothing,    // this operator has no counterpart
  kName,       // equal names, or a rule of the map file
  kFuzzy,      // same layer, API and order, other index
  kAmbiguous,  // as kFuzzy, but the sides call it a different number of times
};

// One row: record indices, -1 where a side has none.
struct RecordPair {
  std::int32_t golden = -1;
  std::int32_t target = -1;
};

// One operator of the report. Its rows may pair a golden record with a record
// of another target operator where a rule says so.
struct OpPair {
  std::int32_t golden = -1;  // index into Trace::ops
  std::int32_t target = -1;
  std::int32_t parent = -1;  // index into Matching::ops
  std::uint32_t first = 0;   // index into Matching::pairs
  std::uint32_t count = 0;
  PairedBy by = PairedBy::kNothing;
};

// Operators in the execution order of the golden; an operator that only the
// target has follows the one it follows there. Every record of both traces is
// in exactly one pair.
struct Matching {
  std::vector<OpPair> ops;
  std::vector<RecordPair> pairs;
  std::vector<bool> rule_used;  // parallel to MapRules::rules
};

// Linear in the number of records. Thread-safe. `rules` may be empty.
Matching match_traces(const Trace& golden, const Trace& target,
                      const MapRules& rules, bool fuzzy);

}  // namespace assay
