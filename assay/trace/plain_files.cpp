// Traces made of tensor files alone.
#include "assay/trace/plain_files.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/base/text.h"
#include "assay/formats/tensor_source.h"
#include "assay/trace/directory.h"
#include "assay/trace/file_loader.h"
#include "assay/trace/tensor_files.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxDirectoryDepth = 32;

ReadOptions formats_options(const TraceReadOptions& options) {
  return {options.raw.dtype, options.raw.shape, options.raw.big_endian};
}

Record make_record(std::uint32_t op, const TensorInfo& info, std::string file,
                   std::size_t entry) {
  Record record;
  record.op = op;
  record.file = std::move(file);
  record.entry = static_cast<std::uint32_t>(entry);
  record.unreadable = info.unsupported;
  if (info.unsupported.empty()) {
    record.facts.dtype = info.dtype;
    record.facts.dtype_text = traits(info.dtype).name;
    record.facts.shape = info.shape;
  }
  return record;
}

Op make_op(std::string name, const Trace& trace) {
  Op op;
  op.api = name;
  op.name = std::move(name);
  op.first_record = static_cast<std::uint32_t>(trace.records.size());
  return op;
}

std::string stem(const std::string& file) {
  const auto slash = file.find_last_of('/');
  const auto dot = file.find_last_of('.');
  if (dot == file.npos || dot == 0) return file;
  if (slash != file.npos && dot <= slash + 1) return file;
  return file.substr(0, dot);
}

// What a walk of a directory found.
struct Found {
  std::vector<TensorEntry> items;  // natural order
  std::int64_t companions = 0, hidden = 0;
};

void walk(const fs::path& base, const std::string& relative, int depth,
          Found& found);

void walk_into(const fs::path& base, const std::string& name, int depth,
               Found& found) {
  const std::string path = (base / name).string();
  if (depth == kMaxDirectoryDepth) {
    found.items.push_back({name, path + ": nested too deep, not read"});
    return;
  }
  try {
    walk(base, name, depth + 1, found);
  } catch (const Error& error) {
    found.items.push_back({name, error.what()});
  }
}

void take(const fs::path& base, const std::string& relative,
          const DirectoryEntry& entry, int depth, Found& found) {
  const std::string name =
      relative.empty() ? entry.name : relative + '/' + entry.name;
  const JudgedEntry judged = judge_entry(base / relative, entry);
  switch (judged.role) {
    case EntryRole::kTensorFile:
      found.items.push_back({name, ""});
      break;
    case EntryRole::kDirectory:
      walk_into(base, name, depth, found);
      break;
    case EntryRole::kUnread:
      found.items.push_back({name, (base / name).string() + ": " + judged.why});
      break;
    case EntryRole::kHidden:
      ++found.hidden;
      break;
    case EntryRole::kCompanion:
      ++found.companions;
      break;
  }
}

void walk(const fs::path& base, const std::string& relative, int depth,
          Found& found) {
  for (const DirectoryEntry& entry : list_directory(base / relative)) {
    take(base, relative, entry, depth, found);
  }
}

void warn_skipped(const fs::path& path, const Found& found, Trace& trace) {
  std::string text;
  if (found.companions > 0) {
    text = std::to_string(found.companions) + " that are no tensor files";
  }
  if (found.hidden > 0) {
    if (!text.empty()) text += ", ";
    text += std::to_string(found.hidden) + " hidden";
  }
  if (text.empty()) return;
  trace.warnings.push_back(path.string() + ": entries skipped: " + text);
}

// One opened file of a directory, or why it could not be opened.
struct Opened {
  std::vector<TensorInfo> tensors;
  std::vector<std::string> notes;  // what of it holds no tensors
  std::string error;
};

Opened open_one(const fs::path& path, const ReadOptions& options) {
  Opened opened;
  try {
    const auto source = open_tensors(path, options);
    opened.tensors = source->tensors();
    opened.notes = source->notes();
    if (opened.tensors.empty()) opened.error = path.string() + ": no tensors";
  } catch (const Error& error) {
    opened.error = error.what();
  }
  return opened;
}

void add_file(const std::string& file, std::string name, const Opened& opened,
              Trace& trace) {
  const auto index = static_cast<std::uint32_t>(trace.ops.size());
  for (const std::string& note : opened.notes) {
    trace.warnings.push_back(file + ": " + note);
  }
  Op op = make_op(std::move(name), trace);
  for (std::size_t i = 0; i < opened.tensors.size(); ++i) {
    trace.records.push_back(make_record(index, opened.tensors[i], file, i));
    trace.records.back().leaf = opened.tensors[i].name;
  }
  if (!opened.error.empty()) {
    TensorInfo nothing;
    nothing.unsupported = opened.error;
    trace.records.push_back(make_record(index, nothing, file, 0));
  }
  op.record_count =
      static_cast<std::uint32_t>(trace.records.size()) - op.first_record;
  trace.ops.push_back(std::move(op));
}

void add_items(const fs::path& path, const std::vector<TensorEntry>& items,
               const TraceReadOptions& options, Trace& trace) {
  std::vector<Opened> opened(items.size());
  const ReadOptions read = formats_options(options);
  parallel_for(static_cast<std::int64_t>(opened.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    opened[at].error = items[at].error;
    if (items[at].error.empty()) {
      opened[at] = open_one(path / items[at].name, read);
    }
  });
  std::map<std::string, int> stems;
  for (const TensorEntry& item : items) ++stems[stem(item.name)];
  for (std::size_t i = 0; i < opened.size(); ++i) {
    const std::string& file = items[i].name;
    const bool unique = items[i].error.empty() && stems[stem(file)] == 1;
    add_file(file, unique ? stem(file) : file, opened[i], trace);
  }
  trace.loader = make_file_loader(path, options, false);
}

}  // namespace

void read_tensor_file(const fs::path& path, const TraceReadOptions& options,
                      Trace& trace) {
  const auto source = open_tensors(path, formats_options(options));
  const std::string file = path.filename().string();
  for (const std::string& note : source->notes()) {
    trace.warnings.push_back(file + ": " + note);
  }
  for (std::size_t i = 0; i < source->tensors().size(); ++i) {
    const TensorInfo& info = source->tensors()[i];
    Op op = make_op(info.name.empty() ? stem(file) : info.name, trace);
    op.record_count = 1;
    trace.records.push_back(make_record(
        static_cast<std::uint32_t>(trace.ops.size()), info, file, i));
    trace.ops.push_back(std::move(op));
  }
  if (trace.ops.empty()) {
    throw Error(Code::kUnreadable, path.string() + ": holds no tensors");
  }
  trace.loader = make_file_loader(path.parent_path(), options, false);
}

void read_tensor_directory(const fs::path& path,
                           const TraceReadOptions& options, Trace& trace) {
  Found found;
  walk(path, "", 0, found);
  warn_skipped(path, found, trace);
  if (found.items.empty()) {
    throw Error(Code::kUnreadable, path.string() + ": no tensor files in it");
  }
  add_items(path, found.items, options, trace);
}

void read_loose_files(const fs::path& path,
                      const std::vector<std::string>& names,
                      const TraceReadOptions& options, Trace& trace) {
  const auto listing = list_directory(path);
  Found found;
  for (const std::string& name : names) {
    const DirectoryEntry* entry = find_entry(listing, name);
    if (entry != nullptr) take(path, "", *entry, 0, found);
  }
  if (found.items.size() != names.size()) {
    throw Error(Code::kUnreadable, path.string() + ": its files changed");
  }
  add_items(path, found.items, options, trace);
}

std::vector<TensorEntry> list_tensor_entries(const fs::path& path,
                                             const EntryNames& leave_out) {
  Found found;
  for (const DirectoryEntry& entry : list_directory(path)) {
    if (!leave_out.contains(entry.name)) take(path, "", entry, 0, found);
  }
  return std::move(found.items);
}

}  // namespace assay
