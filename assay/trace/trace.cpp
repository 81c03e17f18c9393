// Dispatch from a located dump to its reader.
#include "assay/trace/trace.h"

#include <system_error>

#include "assay/base/error.h"
#include "assay/trace/capture_reader.h"
#include "assay/trace/msprobe.h"
#include "assay/trace/plain_files.h"
#include "assay/trace/ptdbg.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

bool holds_msprobe(const fs::path& directory) {
  return fs::exists(directory / "dump.json") ||
         fs::exists(directory / "debug.json");
}

void read_into(const fs::path& path, const TraceReadOptions& options,
               Trace& trace) {
  if (fs::is_directory(path)) {
    if (is_capture(path)) {
      read_capture(path, trace);
    } else if (holds_msprobe(path)) {
      read_msprobe(path, options, trace);
    } else {
      read_tensor_directory(path, options, trace);
    }
  } else if (path.extension() == ".pkl") {
    read_ptdbg(path, options, trace);
  } else if (path.extension() == ".json" && is_msprobe_json(path)) {
    read_msprobe(path, options, trace);
  } else {
    read_tensor_file(path, options, trace);
  }
}

}  // namespace

std::string Trace::name(const Record& record) const {
  const std::string& op = ops[record.op].name;
  if (record.leaf.empty()) return op;
  std::string name;
  name.reserve(op.size() + 1 + record.leaf.size());
  return name.append(op).append(1, '.').append(record.leaf);
}

Trace read_trace(const TraceLocation& location,
                 const TraceReadOptions& options) {
  Trace trace;
  trace.path = location.path;
  trace.step = location.step;
  trace.rank = location.rank;
  try {
    if (!location.only.empty()) {
      read_loose_files(location.path, location.only, options, trace);
      return trace;
    }
    if (location.numbered && fs::is_symlink(location.path)) {
      throw Error(Code::kRefused,
                  location.path.string() + ": a symbolic link inside a dump");
    }
    read_into(location.path, options, trace);
  } catch (const fs::filesystem_error& error) {
    throw Error(Code::kUnreadable,
                location.path.string() + ": " + error.code().message());
  }
  return trace;
}

}  // namespace assay
