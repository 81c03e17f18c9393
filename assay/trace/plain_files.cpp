// Traces made of tensor files alone.
#include "assay/trace/plain_files.h"

#include <array>
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

namespace assay {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxDirectoryDepth = 32;
constexpr std::array<std::string_view, 10> kExtensions = {
    ".npy",         ".npz", ".pt",  ".pth", ".ckpt",
    ".safetensors", ".bin", ".raw", ".pb",  ".onnx"};

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
  std::vector<std::string> files;  // relative, natural order
  std::int64_t other = 0, hidden = 0, links = 0, too_deep = 0;
};

void walk(const fs::path& base, const std::string& relative, int depth,
          Found& found) {
  for (const DirectoryEntry& entry : list_directory(base / relative)) {
    const std::string name =
        relative.empty() ? entry.name : relative + '/' + entry.name;
    if (entry.name[0] == '.') {
      ++found.hidden;
    } else if (entry.kind == FileKind::kLink) {
      ++found.links;
    } else if (entry.kind == FileKind::kDirectory) {
      if (depth == kMaxDirectoryDepth) {
        ++found.too_deep;
      } else {
        walk(base, name, depth + 1, found);
      }
    } else if (entry.kind == FileKind::kFile &&
               is_tensor_file_name(entry.name)) {
      found.files.push_back(name);
    } else {
      ++found.other;
    }
  }
}

void warn_skipped(const fs::path& path, const Found& found, Trace& trace) {
  std::string text;
  const auto add = [&text](std::int64_t count, const char* what) {
    if (count == 0) return;
    if (!text.empty()) text += ", ";
    text += std::to_string(count) + ' ' + what;
  };
  add(found.other, "that are no tensor files");
  add(found.hidden, "hidden");
  add(found.links, "symbolic links");
  add(found.too_deep, "directories nested too deep");
  if (text.empty()) return;
  trace.warnings.push_back(path.string() + ": entries skipped: " + text);
}

// One opened file of a directory, or why it could not be opened.
struct Opened {
  std::vector<TensorInfo> tensors;
  std::string error;
};

Opened open_one(const fs::path& path, const ReadOptions& options) {
  Opened opened;
  try {
    opened.tensors = open_tensors(path, options)->tensors();
    if (opened.tensors.empty()) opened.error = path.string() + ": no tensors";
  } catch (const Error& error) {
    opened.error = error.what();
  }
  return opened;
}

void add_file(const std::string& file, std::string name, const Opened& opened,
              Trace& trace) {
  const auto index = static_cast<std::uint32_t>(trace.ops.size());
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

}  // namespace

bool is_tensor_file_name(std::string_view name) {
  for (const std::string_view extension : kExtensions) {
    if (name.size() > extension.size() &&
        iequals(name.substr(name.size() - extension.size()), extension)) {
      return true;
    }
  }
  return false;
}

void read_tensor_file(const fs::path& path, const TraceReadOptions& options,
                      Trace& trace) {
  const auto source = open_tensors(path, formats_options(options));
  const std::string file = path.filename().string();
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
  if (found.files.empty()) {
    throw Error(Code::kUnreadable, path.string() + ": no tensor files in it");
  }
  std::vector<Opened> opened(found.files.size());
  const ReadOptions read = formats_options(options);
  parallel_for(static_cast<std::int64_t>(opened.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    opened[at] = open_one(path / found.files[at], read);
  });
  std::map<std::string, int> stems;
  for (const std::string& file : found.files) ++stems[stem(file)];
  for (std::size_t i = 0; i < opened.size(); ++i) {
    const std::string& file = found.files[i];
    const bool unique = stems[stem(file)] == 1;
    add_file(file, unique ? stem(file) : file, opened[i], trace);
  }
  trace.loader = make_file_loader(path, options, false);
}

}  // namespace assay
