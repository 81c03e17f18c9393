// What the fuzz targets of the trace readers share: bytes to files in a
// directory of this process, removed at exit.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "assay/base/error.h"
#include "assay/trace/trace.h"

namespace assay::fuzz {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "assay_fuzz_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  void write(const char* name, std::string_view bytes) const {
    // Truncating a file in place waits for the disk on some file systems.
    std::filesystem::remove(path_ / name);
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }

 private:
  std::filesystem::path path_;
};

// Reads the trace; what holds for every trace is checked.
inline void read_and_check(const std::filesystem::path& path) {
  try {
    const Trace trace = read_trace({path, 0, 0, false});
    std::uint64_t records = 0;
    for (const Op& op : trace.ops) {
      if (op.first_record != records) std::abort();
      records += op.record_count;
      if (op.parent >= static_cast<std::int64_t>(trace.ops.size()))
        std::abort();
      if (op.stack >= static_cast<std::int64_t>(trace.stacks.size())) {
        std::abort();
      }
    }
    if (records != trace.records.size()) std::abort();
    for (const Record& record : trace.records) {
      if (record.op >= trace.ops.size()) std::abort();
      trace.name(record);
      for (const std::int64_t size : record.facts.shape) {
        if (size < 0 && record.unreadable.empty()) std::abort();
      }
    }
  } catch (const Error&) {
  }
}

}  // namespace assay::fuzz
