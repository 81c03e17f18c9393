// Tells the rows where a mismatch was born from those that inherited it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/compare/engine.h"

namespace assay {

// A mismatch in the order it came into being: parameters and inputs when the
// operator starts (with its first inner operator), outputs when it ends (with
// its last).
struct Event {
  std::int64_t time = 0;   // index into Group::ops
  std::int32_t order = 0;  // parameter, input, output, output of what encloses
  std::uint32_t op = 0;
  std::size_t row = 0;  // index into Comparison::rows
};

// A call that exchanges data with other ranks.
struct Communication {
  std::uint32_t op = 0;      // index into Group::ops
  std::string channel;       // equal for the calls that belong together
  std::int64_t ordinal = 0;  // how many calls this rank made there before
  std::vector<std::int64_t> members;  // ranks; empty: all ranks there are
  // The ranks whose inputs reach this rank; empty: all members.
  std::vector<std::int64_t> sources;
  bool input_differs = false;  // a tensor this rank contributes
  bool input_unknown = false;  // ... or it was not compared
};

// What later steps of the search need of one group.
struct GroupFindings {
  std::uint32_t group = 0;
  std::vector<Event> mismatches;  // sorted
  std::vector<Communication> communications;
};

// Sets Origin and amplification of the rows of the group that was judged last.
// Within one rank only: what came from other ranks is find_across_ranks' to
// tell. Rules, first that applies:
// - an entry of a plain file has no origin;
// - a parameter that differs, for the first time: kParameterDiffers;
//   kInherited when an earlier step differed, since updates carry it on;
// - an input that differs and that no earlier operator produced:
//   kInputDiffers; else kInherited;
// - an output of an operator with an inner operator that differs, or with an
//   input, parameter, or (backward) forward value that differs: kInherited;
// - an output whose inputs were not all compared: kUndetermined;
// - inputs close but not equal, and an output error of at most 4 times
//   theirs: kInherited, the errors added up;
// - else kBorn.
GroupFindings localise_group(const TracePair& pair, std::uint32_t group,
                             Comparison& result,
                             bool earlier_step_differs = false);

// An input's error as localisation ranks it: normalised L2, or the relative
// difference of the statistics; < 0 when unknown.
double error_of(const Row& row);

}  // namespace assay
