// Keeps operators and leaves that share a name apart.
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "assay/trace/msprobe.h"

namespace assay {
namespace {

// Counts renames and remembers the first.
struct Renames {
  std::int64_t count = 0;
  std::string example;

  void note(const std::string& name) {
    if (count++ == 0) example = name;
  }
};

// A table of names costs ten times their sorted hashes, and names differ in
// nearly every dump. Equal hashes of different names only cost that time.
bool surely_distinct(const std::vector<Op>& ops) {
  std::vector<std::size_t> hashes;
  hashes.reserve(ops.size());
  for (const Op& op : ops) {
    hashes.push_back(std::hash<std::string_view>()(op.name));
  }
  std::sort(hashes.begin(), hashes.end());
  return std::adjacent_find(hashes.begin(), hashes.end()) == hashes.end();
}

void rename_ops(Trace& trace, Renames& renames) {
  if (surely_distinct(trace.ops)) return;
  std::unordered_set<std::string_view> seen;
  seen.reserve(trace.ops.size());
  for (Op& op : trace.ops) {
    if (seen.insert(op.name).second) continue;
    renames.note(op.name);
    const std::string base = op.name;
    for (int copy = 2; !seen.insert(op.name).second; ++copy) {
      op.name = base + '#' + std::to_string(copy);
    }
  }
}

bool repeats(const Record* records, std::uint32_t at) {
  for (std::uint32_t i = 0; i < at; ++i) {
    if (records[i].leaf == records[at].leaf) return true;
  }
  return false;
}

void rename_many(Record* records, std::uint32_t count, Renames& renames) {
  std::unordered_set<std::string> seen;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string& leaf = records[i].leaf;
    if (seen.insert(leaf).second) continue;
    renames.note(leaf);
    const std::string base = leaf;
    for (int copy = 2; !seen.insert(leaf).second; ++copy) {
      leaf = base + '#' + std::to_string(copy);
    }
  }
}

// Most operators have a handful of leaves: looking at all pairs is cheapest.
void rename_leaves(Trace& trace, Renames& renames) {
  constexpr std::uint32_t kFew = 16;
  for (const Op& op : trace.ops) {
    Record* records = trace.records.data() + op.first_record;
    bool any = op.record_count > kFew;
    for (std::uint32_t i = 1; !any && i < op.record_count; ++i) {
      any = repeats(records, i);
    }
    if (any) rename_many(records, op.record_count, renames);
  }
}

}  // namespace

void rename_duplicates(Trace& trace) {
  Renames renames;
  rename_ops(trace, renames);
  rename_leaves(trace, renames);
  if (renames.count == 0) return;
  trace.warnings.push_back(
      std::to_string(renames.count) +
      (renames.count == 1 ? " name occurs" : " names occur") +
      " more than once (" + renames.example +
      "); later ones are shown with #2 and up");
}

void refuse_shared_files(Trace& trace) {
  std::unordered_set<std::string_view> seen;
  std::unordered_set<std::string_view> shared;
  for (const Record& record : trace.records) {
    if (record.file.empty()) continue;
    if (!seen.insert(record.file).second) shared.insert(record.file);
  }
  if (shared.empty()) return;
  for (Record& record : trace.records) {
    if (record.file.empty() || !shared.contains(record.file)) continue;
    record.unreadable = "data file " + record.file +
                        " is named by several leaves: written over";
  }
  trace.warnings.push_back(std::to_string(shared.size()) +
                           " data files are named by more than one leaf");
}

}  // namespace assay
