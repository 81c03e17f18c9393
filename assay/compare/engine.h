// Judges every row of one pair of traces, within bounded memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "assay/compare/compare.h"
#include "assay/compare/match.h"

namespace assay {

// A further run and which of its records belongs to each golden record.
struct CompanionTrace {
  Trace trace;
  std::vector<std::int32_t> record_of;  // -1 where it has none
};

struct TracePair {
  Trace golden, target;
  Matching matching;
  std::vector<CompanionTrace> baseline;  // none or one
  std::vector<CompanionTrace> noise;
};

// Counts rows over all groups and calls back at most a few times a second.
class ProgressMeter {
 public:
  explicit ProgressMeter(const CompareOptions& options) : options_(options) {}
  void expect(std::int64_t rows) { total_ += rows; }
  void add(std::int64_t rows, std::int64_t bytes);

 private:
  const CompareOptions& options_;
  std::atomic<std::int64_t> done_{0}, bytes_{0}, total_{0}, last_ms_{0};
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

// Keeps the rows whose record or operator name fits one of the globs.
void keep_only(const std::vector<std::string>& globs, const Trace& golden,
               const Trace& target, Matching& matching);

// Appends a Group with its operators and judged rows to `out`. Strings move
// out of the traces into the rows; what load() needs stays. Rows come out in
// the same order and with the same figures for any number of threads. At most
// one pair of large tensors, or one batch of small ones per thread, is in
// memory at a time.
void judge_pair(TracePair& pair, const Standard& standard,
                const CompareOptions& options, ProgressMeter& progress,
                Comparison& out);

}  // namespace assay
