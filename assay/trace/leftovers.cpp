// Tensor files beside a dump that no entry of it names.
#include "assay/trace/leftovers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "assay/trace/plain_files.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxRows = 100;

void add_unread(std::string name, std::string why, Trace& trace) {
  Record& record = trace.records.emplace_back();
  record.op = static_cast<std::uint32_t>(trace.ops.size());
  record.unreadable = std::move(why);
  Op& op = trace.ops.emplace_back();
  op.api = name;
  op.name = std::move(name);
  op.first_record = static_cast<std::uint32_t>(trace.records.size() - 1);
  op.record_count = 1;
}

}  // namespace

void add_leftovers(const fs::path& directory, const std::string& prefix,
                   const EntryNames& known, Trace& trace) {
  const auto entries = list_tensor_entries(directory, known);
  const std::size_t rows = std::min(entries.size(), kMaxRows);
  for (std::size_t i = 0; i < rows; ++i) {
    const TensorEntry& entry = entries[i];
    add_unread(prefix + entry.name,
               entry.error.empty()
                   ? (directory / entry.name).string() +
                         ": not part of the dump: pass it by itself"
                   : entry.error,
               trace);
  }
  if (rows == entries.size()) return;
  add_unread(prefix + "(further files)",
             directory.string() + ": " + std::to_string(entries.size() - rows) +
                 " further files are not part of the dump",
             trace);
}

}  // namespace assay
