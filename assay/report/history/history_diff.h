// What changed from one run of a history to another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/report/history/history.h"

namespace assay {

enum class Change : std::uint8_t {
  kNewlyFailing,  // a mismatch that was none
  kNotCompared,   // was compared, and now is incomplete or empty
  kFixed,         // a match that was none
  kWorse,         // the same verdict, a larger error
  kSlower,
  kNew,   // was not there
  kGone,  // is not there any more
};
std::string_view to_string(Change change);  // "newly failing", "fixed", ...

struct HistoryChange {
  Change change = Change::kNew;
  HistoryEntry before, after;  // of kNew, kGone one alone
  double ratio = 0;            // of kWorse, kSlower; inf where it was exact
};

struct DiffLimits {
  double worse = 2;             // times the figure
  double slower = 1.5;          // times the seconds, and
  double least_seconds = 0.01;  // that many more: start-up noise is less
};

struct HistoryDiff {
  HistoryRun before, after;            // without entries
  std::vector<HistoryChange> changes;  // by kind, then in the order of the run
  std::int64_t still_failing = 0;      // mismatch or incomplete in both
  // Groups of which the later run has nothing, and how many entries the
  // earlier one had: not asked for, or lost.
  std::vector<std::pair<std::string, std::int64_t>> groups_not_run;

  std::int64_t count(Change change) const;
  // kMismatch where something newly fails, kIncomplete where something is not
  // compared any more or gone, else kMatch. Slower and worse are told, not
  // judged: the standard of the run does that.
  Verdict verdict() const;
};

HistoryDiff diff(HistoryRun before, HistoryRun after,
                 const DiffLimits& limits = {});

}  // namespace assay
