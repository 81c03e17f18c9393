// The main job: two dumps in, a Comparison out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/metrics/standard.h"
#include "assay/trace/trace.h"

namespace assay {

struct CompareOptions {
  std::shared_ptr<const Standard> standard;  // null: "assay"
  std::string map_file;                      // --map, "" for none
  bool fuzzy = false;
  std::vector<std::string> only;   // globs on record or op names; empty: all
  std::string baseline;            // --baseline path, "" for none
  std::vector<std::string> noise;  // --noise paths
  TraceReadOptions read;
  // Called from any thread, at most a few times a second.
  std::function<void(std::int64_t rows_done, std::int64_t rows_total,
                     std::int64_t bytes_done)>
      progress;
  const std::atomic<bool>* stop = nullptr;  // set by Ctrl-C
};

// Compares two files or two directories. Memory stays bounded by the rows,
// whatever the tensors' sizes. Throws Error when a path cannot be read at all;
// a bad file among many only makes its row incomplete.
Comparison compare_paths(const std::string& golden, const std::string& target,
                         const CompareOptions& options);

// Frees a comparison on all threads: its rows hold millions of strings.
void discard(Comparison comparison);

}  // namespace assay
