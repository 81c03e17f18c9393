#include "assay/report/history/history_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace assay {
namespace {

using Key = std::pair<std::string, std::string>;

Key key_of(const HistoryEntry& entry) { return {entry.group, entry.name}; }

bool was_judged(Verdict verdict) {
  return verdict == Verdict::kMatch || verdict == Verdict::kMismatch;
}

// What became of the verdict; nullopt where it is the same.
std::optional<Change> verdict_change(Verdict before, Verdict after) {
  if (before == after) return std::nullopt;
  if (after == Verdict::kMismatch) return Change::kNewlyFailing;
  if (after == Verdict::kMatch) return Change::kFixed;
  if (was_judged(before)) return Change::kNotCompared;
  return std::nullopt;  // between incomplete and empty
}

double ratio(double before, double after) {
  if (before > 0) return after / before;
  return after > 0 ? std::numeric_limits<double>::infinity() : 1;
}

// False for NaN: what has no figure is not worse.
bool is_worse(const HistoryEntry& a, const HistoryEntry& b, double limit) {
  return b.figure > a.figure && ratio(a.figure, b.figure) >= limit;
}

bool is_slower(const HistoryEntry& a, const HistoryEntry& b,
               const DiffLimits& limits) {
  return a.seconds > 0 && b.seconds >= limits.slower * a.seconds &&
         b.seconds - a.seconds >= limits.least_seconds;
}

void add_common(HistoryDiff& diff, const HistoryEntry& a, const HistoryEntry& b,
                const DiffLimits& limits) {
  const auto changed = verdict_change(a.verdict, b.verdict);
  if (changed) diff.changes.push_back({*changed, a, b, 0});
  const auto fails = [](Verdict v) {
    return v == Verdict::kMismatch || v == Verdict::kIncomplete;
  };
  if (!changed && fails(a.verdict) && fails(b.verdict)) ++diff.still_failing;
  if (!changed && was_judged(b.verdict) && is_worse(a, b, limits.worse))
    diff.changes.push_back({Change::kWorse, a, b, ratio(a.figure, b.figure)});
  if (is_slower(a, b, limits))
    diff.changes.push_back(
        {Change::kSlower, a, b, ratio(a.seconds, b.seconds)});
}

std::map<Key, const HistoryEntry*> index(const HistoryRun& run) {
  std::map<Key, const HistoryEntry*> entries;
  for (const HistoryEntry& entry : run.entries)
    entries.emplace(key_of(entry), &entry);
  return entries;
}

void add_gone(HistoryDiff& diff, const HistoryRun& before,
              const std::map<Key, const HistoryEntry*>& after) {
  std::set<std::string> groups;
  for (const auto& [key, entry] : after) groups.insert(key.first);
  std::map<std::string, std::int64_t> not_run;
  for (const HistoryEntry& entry : before.entries) {
    if (after.contains(key_of(entry))) continue;
    if (groups.contains(entry.group))
      diff.changes.push_back({Change::kGone, entry, {}, 0});
    else
      ++not_run[entry.group];
  }
  diff.groups_not_run.assign(not_run.begin(), not_run.end());
}

}  // namespace

std::string_view to_string(Change change) {
  switch (change) {
    case Change::kNewlyFailing:
      return "newly failing";
    case Change::kNotCompared:
      return "no longer compared";
    case Change::kFixed:
      return "fixed";
    case Change::kWorse:
      return "worse";
    case Change::kSlower:
      return "slower";
    case Change::kNew:
      return "new";
    case Change::kGone:
      return "gone";
  }
  return "?";
}

std::int64_t HistoryDiff::count(Change change) const {
  return std::count_if(changes.begin(), changes.end(),
                       [&](const auto& c) { return c.change == change; });
}

Verdict HistoryDiff::verdict() const {
  // New cases have no past, but a mismatch among them is one.
  for (const HistoryChange& c : changes)
    if (c.change == Change::kNewlyFailing ||
        (c.change == Change::kNew && c.after.verdict == Verdict::kMismatch))
      return Verdict::kMismatch;
  const bool lost = count(Change::kNotCompared) + count(Change::kGone) > 0;
  return lost || !groups_not_run.empty() ? Verdict::kIncomplete
                                         : Verdict::kMatch;
}

HistoryDiff diff(HistoryRun before, HistoryRun after,
                 const DiffLimits& limits) {
  HistoryDiff result;
  const auto old = index(before), now = index(after);
  for (const HistoryEntry& entry : after.entries) {
    const auto found = old.find(key_of(entry));
    if (found == old.end())
      result.changes.push_back({Change::kNew, {}, entry, 0});
    else
      add_common(result, *found->second, entry, limits);
  }
  add_gone(result, before, now);
  std::stable_sort(
      result.changes.begin(), result.changes.end(),
      [](const auto& a, const auto& b) { return a.change < b.change; });
  before.entries.clear();
  after.entries.clear();
  result.before = std::move(before);
  result.after = std::move(after);
  return result;
}

}  // namespace assay
