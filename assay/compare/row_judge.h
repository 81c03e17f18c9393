// Judges one pair of records by the best evidence both sides kept.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/metrics/standard.h"
#include "assay/trace/trace.h"

namespace assay {

// A record and the trace that can load it; both null where there is none.
struct RecordRef {
  const Trace* trace = nullptr;
  const Record* record = nullptr;
  explicit operator bool() const { return record != nullptr; }
};

struct RowTask {
  RecordRef golden, target, baseline;
  std::vector<RecordRef> noise;  // further runs of the golden
  OpClass op = OpClass::kUnknown;
  bool undefined = false;  // memory that nothing has written yet
};

// Fills `row`'s verdict, evidence, reasons and figures; its two sides hold the
// facts of the records already. Never throws for what a file contains: that is
// a row that is incomplete. Thread-safe; uses all threads inside large
// tensors. Tensors are released before it returns. Gives the bytes compared.
struct RowBytes {
  std::int64_t golden = 0, target = 0;
};
RowBytes judge_row(const Standard& standard, const RowTask& task, Row& row);

// Both records have a file that is worth opening.
bool has_tensors(const RecordRef& golden, const RecordRef& target);

// Whether both sides are known to hold the same bits, as far as the dump
// tells: elements, or statistics that no checksum contradicts.
bool is_known_equal(const Row& row);

}  // namespace assay
