// Reader of msprobe's dump.json and debug.json.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/huge_pages.h"
#include "assay/base/mapped_file.h"
#include "assay/trace/directory.h"
#include "assay/trace/entry_name.h"
#include "assay/trace/file_loader.h"
#include "assay/trace/json_reader.h"
#include "assay/trace/leftovers.h"
#include "assay/trace/msprobe.h"
#include "assay/trace/msprobe_leaf.h"
#include "assay/trace/recompute.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

std::string_view as_text(const MappedFile& file) {
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Text between the last separator of `path` and its end.
std::string base_name(std::string path) {
  while (!path.empty() && (path.back() == '/' || path.back() == '\\')) {
    path.pop_back();
  }
  const auto at = path.find_last_of("/\\");
  return at == path.npos ? path : path.substr(at + 1);
}

// The folder beside the JSON, then one named like the producer's; never the
// producer's own path.
DataDirectory find_data(const fs::path& json, const std::string& dump_dir) {
  DataDirectory usual(json.parent_path() / "dump_tensor_data");
  const std::string other = base_name(dump_dir);
  if (usual.exists() || !is_plain_file_name(other)) return usual;
  DataDirectory sibling(json.parent_path() / other);
  return sibling.exists() ? std::move(sibling) : std::move(usual);
}

// dump_data_dir stands before "data" in every dump msprobe writes; where it
// does not, the usual folder is taken.
class DumpReader {
 public:
  DumpReader(const fs::path& path, Trace& trace)
      : path_(path),
        file_(MappedFile::open(path)),
        trace_(trace),
        json_(as_text(*file_), path.string()) {}

  fs::path read() {
    try {
      read_envelope();
    } catch (const Error& error) {
      file_->check_intact();
      throw Error(error.code(), std::string(error.what()) + " (after " +
                                    std::to_string(complete_) +
                                    " complete entries)");
    }
    file_->check_intact();
    if (!data_) throw Error(Code::kRefused, path_.string() + ": no \"data\"");
    return data_->path();
  }

 private:
  void read_envelope() {
    json_.expect(JsonToken::kBeginObject, "an object");
    while (json_.next() == JsonToken::kKey) {
      const std::string key(json_.text());
      const JsonToken token = json_.next();
      if (key == "data" && token == JsonToken::kBeginObject) {
        read_data();
      } else if (token == JsonToken::kString) {
        envelope_text(key);
      } else {
        json_.skip(token);
      }
    }
    json_.next();
  }

  void envelope_text(const std::string& key) {
    const std::string text(json_.text());
    if (key == "task") trace_.task = text;
    if (key == "level") trace_.level = text;
    if (key == "framework") trace_.framework = text;
    if (key == "dump_data_dir") dump_dir_ = text;
  }

  void read_data() {
    if (data_) json_.refuse("a second \"data\"");
    data_ = std::make_unique<DataDirectory>(find_data(path_, dump_dir_));
    leaves_ = std::make_unique<LeafReader>(json_, *data_, trace_.records);
    reserve_records(file_->size() / 300);  // a tensor leaf's text
    while (json_.next() == JsonToken::kKey) {
      read_entry();
      ++complete_;
    }
  }

  void reserve_records(std::size_t more) {
    std::vector<Record>& records = trace_.records;
    records.reserve(records.size() + more);
    prefer_huge_pages(records.data() + records.size(), more * sizeof(Record));
  }

  void read_entry() {
    const auto index = static_cast<std::uint32_t>(trace_.ops.size());
    trace_.ops.emplace_back();
    Op& op = trace_.ops.back();
    op.name = json_.text();
    const EntryName name = parse_entry_name(op.name);
    op.prefix = name.prefix;
    op.api = name.api;
    op.call_index = name.call_index;
    op.direction = name.direction;
    op.first_record = static_cast<std::uint32_t>(trace_.records.size());
    read_body(index, json_.next());
    op.record_count =
        static_cast<std::uint32_t>(trace_.records.size()) - op.first_record;
    op.collective = leaves_->take_collective();
  }

  void read_body(std::uint32_t index, JsonToken token) {
    const Direction direction = trace_.ops[index].direction;
    if (direction == Direction::kNone) {
      leaves_->begin(index, Role::kTensor, "");
      leaves_->read(token);
    } else if (token != JsonToken::kBeginObject) {
      json_.skip(token);
      // A structure dump keeps names alone.
      if (token == JsonToken::kNull && trace_.task == "structure") return;
      Record& record = trace_.records.emplace_back();
      record.op = index;
      record.is_tensor = false;
      record.unreadable = "entry is no object";
    } else if (direction == Direction::kParametersGrad) {
      leaves_->begin(index, Role::kGradient, "", false);
      leaves_->read(token);
    } else {
      while (json_.next() == JsonToken::kKey) read_group(index);
    }
  }

  void read_group(std::uint32_t index) {
    const std::string key(json_.text());
    const JsonToken token = json_.next();
    if (key == "is_recompute") {
      trace_.ops[index].recompute = token == JsonToken::kTrue;
      json_.skip(token);
      return;
    }
    if (key == "input_args" || key == "input_kwargs" || key == "input") {
      leaves_->begin(index, Role::kInput, "input");
    } else if (key == "output") {
      leaves_->begin(index, Role::kOutput, "output");
    } else if (key == "parameters") {
      leaves_->begin(index, Role::kParameter, "parameters");
    } else {
      leaves_->begin(index, Role::kTensor, key);
    }
    leaves_->read(token);
  }

  fs::path path_;
  std::shared_ptr<const MappedFile> file_;
  Trace& trace_;
  JsonReader json_;
  std::string dump_dir_;
  std::unique_ptr<DataDirectory> data_;
  std::unique_ptr<LeafReader> leaves_;
  std::int64_t complete_ = 0;
};

// Whoever names the JSON alone asks for no more than its own data.
void add_unnamed_files(const fs::path& path, const fs::path& data,
                       Trace& trace) {
  const bool has_data = DataDirectory(data).exists();
  EntryNames named;
  for (const Record& record : trace.records) {
    if (!record.file.empty()) named.insert(record.file);
  }
  if (fs::is_directory(path)) {
    EntryNames own = {"dump.json", "debug.json", "stack.json",
                      "construct.json"};
    if (has_data) own.insert(data.filename().string());
    add_leftovers(path, "", own, trace);
  }
  if (!has_data) return;
  add_leftovers(data, data.filename().string() + '/', named, trace);
}

// Side files help to explain; a comparison does not need them.
template <typename Read>
void read_side(const fs::path& file, Trace& trace, Read read) {
  std::error_code ignored;
  const auto size = fs::file_size(file, ignored);
  if (ignored || size == 0) {
    trace.warnings.push_back(file.string() +
                             (ignored ? ": absent" : ": empty"));
    return;
  }
  try {
    read();
  } catch (const Error& error) {
    trace.warnings.push_back(error.what());
  }
}

void read_side_files(const fs::path& directory, Trace& trace) {
  const fs::path stack = directory / "stack.json";
  const fs::path construct = directory / "construct.json";
  OpFinder ops(trace.ops);
  read_side(stack, trace, [&] { read_stacks(stack, ops, trace); });
  read_side(construct, trace, [&] { read_construct(construct, ops, trace); });
}

std::vector<fs::path> json_files(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const char* name : {"dump.json", "debug.json"}) {
    if (fs::exists(path / name)) files.push_back(path / name);
  }
  if (files.empty()) {
    throw Error(Code::kUnreadable,
                path.string() + ": neither dump.json nor debug.json in it");
  }
  return files;
}

}  // namespace

bool is_msprobe_json(const fs::path& path) {
  const auto file = MappedFile::open(path);
  JsonReader json(as_text(*file).substr(0, 4096), path.string());
  try {
    if (json.next() != JsonToken::kBeginObject) return false;
    for (int members = 0; members < 8; ++members) {
      if (json.next() != JsonToken::kKey) return false;
      if (json.text() == "dump_data_dir") return true;
      json.skip(json.next());
    }
  } catch (const Error&) {
    return false;
  }
  return false;
}

void read_msprobe(const fs::path& path, const TraceReadOptions& options,
                  Trace& trace) {
  const auto files = json_files(path);
  fs::path data;
  for (const fs::path& file : files) data = DumpReader(file, trace).read();
  rename_duplicates(trace);
  refuse_shared_files(trace);
  read_side_files(files.front().parent_path(), trace);
  normalize_recompute(trace);
  add_unnamed_files(path, data, trace);
  trace.loader = make_file_loader(data, options, true);
}

}  // namespace assay
