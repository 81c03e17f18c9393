#include "assay/compare/read_traces.h"

#include <exception>
#include <utility>

#include "assay/base/parallel.h"

namespace assay {
namespace {

void add_failure(const std::string& name, const std::string& why,
                 Trace& trace) {
  Op op;
  op.name = name;
  op.record_count = 1;
  trace.ops.push_back(std::move(op));
  Record record;
  record.leaf = name;
  record.is_tensor = false;
  record.unreadable = why;
  trace.records.push_back(std::move(record));
}

void read_one(const ReadRequest& request, const TraceReadOptions& options) {
  const TraceLocation& location = *request.location;
  try {
    *request.into = read_trace(location, options);
  } catch (const std::exception& error) {
    if (request.only) throw;
    Trace trace;
    trace.path = location.path;
    trace.step = location.step;
    trace.rank = location.rank;
    add_failure(location.path.string(), error.what(), trace);
    *request.into = std::move(trace);
  }
}

}  // namespace

void read_all(const std::vector<ReadRequest>& requests,
              const TraceReadOptions& options) {
  parallel_for(static_cast<std::int64_t>(requests.size()),
               [&](std::int64_t i) { read_one(requests[i], options); });
}

Trace absent_trace(const LocationPair& place) {
  Trace trace;
  trace.step = place.step;
  trace.rank = place.rank;
  return trace;
}

void mark_if_empty(Trace& golden, Trace& target) {
  if (!golden.records.empty() || !target.records.empty()) return;
  const std::string name =
      (golden.path.empty() ? target.path : golden.path).string();
  golden.ops.clear();
  target.ops.clear();
  for (Trace* trace : {&golden, &target}) {
    add_failure(name, "the dump has no records", *trace);
  }
}

}  // namespace assay
