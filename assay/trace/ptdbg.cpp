// Reader of the text files that the old ptdbg_ascend tool named .pkl.
#include "assay/trace/ptdbg.h"

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"
#include "assay/trace/directory.h"
#include "assay/trace/entry_name.h"
#include "assay/trace/file_loader.h"
#include "assay/trace/json_reader.h"
#include "assay/trace/leftovers.h"
#include "assay/trace/msprobe.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

std::string_view as_text(const MappedFile& file) {
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Records of one op while the rows come in any order.
struct PendingOp {
  std::string name;
  std::vector<Record> records;
  std::int32_t stack = -1;
};

Role role_of(std::string_view leaf) {
  if (leaf.starts_with("input")) return Role::kInput;
  if (leaf.starts_with("output")) return Role::kOutput;
  return Role::kTensor;
}

// "<class 'int'>" gives "int"; nullopt for anything else.
std::optional<std::string> python_class(std::string_view dtype) {
  constexpr std::string_view kBegin = "<class '";
  if (!dtype.starts_with(kBegin)) return {};
  dtype.remove_prefix(kBegin.size());
  if (!dtype.ends_with("'>")) return {};
  dtype.remove_suffix(2);
  return std::string(dtype);
}

class PtdbgReader {
 public:
  PtdbgReader(const fs::path& path, const DataDirectory& data, Trace& trace)
      : path_(path), data_(data), trace_(trace) {}

  void read_line(std::string_view line, std::size_t number) {
    JsonReader json(line, path_.string() + ": line " + std::to_string(number));
    json.expect(JsonToken::kBeginArray, "a row");
    json.expect(JsonToken::kString, "a name");
    const std::string name(json.text());
    const auto parts = parse_ptdbg_name(name);
    if (parts && parts->leaf == "stack_info") {
      read_stack(json, parts->entry);
    } else {
      Record record;
      record.leaf = parts ? parts->leaf : "";
      record.role = role_of(record.leaf);
      read_row(json, record);
      set_file(name, record);
      pending(parts ? parts->entry : name).records.push_back(std::move(record));
    }
    if (json.next() != JsonToken::kEnd) json.refuse("more than one row");
  }

  void finish() {
    for (PendingOp& pending : pending_) {
      add_op(pending);
    }
  }

 private:
  PendingOp& pending(const std::string& name) {
    const auto [it, fresh] = index_.emplace(name, pending_.size());
    if (fresh) pending_.push_back({name, {}, -1});
    return pending_[it->second];
  }

  // Frames are ["file", "line", "function", "code"].
  void read_stack(JsonReader& json, const std::string& entry) {
    std::vector<std::string> frames;
    JsonToken token = json.next();
    if (token != JsonToken::kBeginArray) json.refuse("expected stack frames");
    while ((token = json.next()) != JsonToken::kEndArray) {
      frames.push_back(read_frame(json, token));
    }
    skip_rest(json);
    pending(entry).stack = static_cast<std::int32_t>(trace_.stacks.size());
    trace_.stacks.push_back(std::move(frames));
  }

  std::string read_frame(JsonReader& json, JsonToken token) {
    if (token == JsonToken::kString) return std::string(json.text());
    if (token != JsonToken::kBeginArray) json.refuse("expected a stack frame");
    std::vector<std::string> parts;
    while ((token = json.next()) != JsonToken::kEndArray) {
      if (token == JsonToken::kString || token == JsonToken::kNumber) {
        parts.emplace_back(json.text());
      } else {
        json.skip(token);
      }
    }
    parts.resize(4);
    return "File " + parts[0] + ", line " + parts[1] + ", in " + parts[2] +
           ", \n " + parts[3];
  }

  void skip_rest(JsonReader& json) {
    for (JsonToken token = json.next(); token != JsonToken::kEndArray;
         token = json.next()) {
      json.skip(token);
    }
  }

  void read_row(JsonReader& json, Record& record) {
    json.skip(json.next());  // dump_step
    read_digest(json, json.next(), record);
    json.expect(JsonToken::kString, "a dtype");
    set_dtype(json.text(), record);
    read_shape(json, json.next(), record);
    JsonToken token = json.next();
    if (token == JsonToken::kBeginArray) {
      read_statistics(json, record);
      token = json.next();
    }
    for (; token != JsonToken::kEndArray; token = json.next()) {
      json.skip(token);
    }
  }

  void read_digest(JsonReader& json, JsonToken token, Record& record) {
    if (token == JsonToken::kString) {
      record.digest = json.text();
    } else if (token == JsonToken::kBeginArray) {
      while ((token = json.next()) != JsonToken::kEndArray) {
        if (token == JsonToken::kString) record.digest = json.text();
        json.skip(token);
      }
    } else {
      json.skip(token);
    }
  }

  void set_dtype(std::string_view text, Record& record) {
    if (auto type = python_class(text)) {
      record.is_tensor = false;
      record.type = std::move(*type);
      return;
    }
    record.type = "torch.Tensor";
    record.facts.dtype_text = text;
    record.facts.dtype = parse_dtype(text);
  }

  // A list; the text "[]" for what is no tensor.
  void read_shape(JsonReader& json, JsonToken token, Record& record) {
    bool good = true;
    if (token == JsonToken::kBeginArray) {
      while ((token = json.next()) != JsonToken::kEndArray) {
        std::int64_t size = -1;
        const std::string_view text = json.text();
        if (token == JsonToken::kNumber) {
          const char* end = text.data() + text.size();
          if (std::from_chars(text.data(), end, size).ptr != end) size = -1;
        } else {
          json.skip(token);
        }
        good = good && size >= 0;
        record.facts.shape.push_back(size);
      }
    } else {
      good = token == JsonToken::kString && json.text() == "[]";
      json.skip(token);
    }
    if (!good && record.is_tensor) {
      record.unreadable = "the dump's shape is no list of sizes";
    }
  }

  void read_statistics(JsonReader& json, Record& record) {
    std::optional<double>* slots[] = {&record.stats.max, &record.stats.min,
                                      &record.stats.mean, &record.stats.norm};
    std::size_t at = 0;
    for (JsonToken token = json.next(); token != JsonToken::kEndArray;
         token = json.next(), ++at) {
      if (at == 0 && !record.is_tensor) set_value(json, token, record);
      if (at < 4 && token == JsonToken::kNumber && record.is_tensor) {
        *slots[at] = json.number();
      }
      json.skip(token);
    }
  }

  void set_value(const JsonReader& json, JsonToken token, Record& record) {
    if (token == JsonToken::kNull) {
      record.value = "None";
    } else if (token == JsonToken::kTrue || token == JsonToken::kFalse) {
      record.value = token == JsonToken::kTrue ? "True" : "False";
    } else if (token == JsonToken::kString || token == JsonToken::kNumber) {
      record.value = json.text();
    }
  }

  // Statistics and md5 dumps keep no files at all.
  void set_file(const std::string& name, Record& record) {
    if (!record.is_tensor || !data_.exists()) return;
    record.file = name + ".npy";
    std::string problem = data_.problem(record.file);
    if (!problem.empty() && record.unreadable.empty()) {
      record.unreadable = std::move(problem);
    }
  }

  void add_op(PendingOp& pending) {
    const EntryName name = parse_entry_name(pending.name);
    Op op;
    op.prefix = name.prefix;
    op.api = name.api;
    op.call_index = name.call_index;
    op.direction = name.direction;
    op.name = std::move(pending.name);
    op.stack = pending.stack;
    op.first_record = static_cast<std::uint32_t>(trace_.records.size());
    op.record_count = static_cast<std::uint32_t>(pending.records.size());
    for (Record& record : pending.records) {
      record.op = static_cast<std::uint32_t>(trace_.ops.size());
      trace_.records.push_back(std::move(record));
    }
    trace_.ops.push_back(std::move(op));
  }

  fs::path path_;
  const DataDirectory& data_;
  Trace& trace_;
  std::vector<PendingOp> pending_;
  std::unordered_map<std::string, std::size_t> index_;
};

void read_lines(std::string_view text, PtdbgReader& reader) {
  std::size_t number = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    ++number;
    if (!line.empty()) reader.read_line(line, number);
  }
}

void refuse_pickle(std::string_view text, const fs::path& path) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) {
    throw Error(Code::kUnreadable, path.string() + ": empty");
  }
  if (text[first] == '[') return;
  throw Error(Code::kRefused,
              path.string() + ": offset " + std::to_string(first) +
                  ": found '" + printable(text.substr(first, 1)) +
                  "', expected '[' (a text dump of ptdbg); a binary pickle is "
                  "never loaded, save its tensors as .npy or .safetensors");
}

}  // namespace

bool is_ptdbg_text(const fs::path& path) {
  const auto file = MappedFile::open(path);
  const std::string_view text = as_text(*file).substr(0, 4096);
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '[';
}

static void add_unnamed_files(const fs::path& data, Trace& trace) {
  EntryNames named;
  for (const Record& record : trace.records) {
    if (!record.file.empty()) named.insert(record.file);
  }
  add_leftovers(data, data.filename().string() + '/', named, trace);
}

void read_ptdbg(const fs::path& path, const TraceReadOptions& options,
                Trace& trace) {
  const auto file = MappedFile::open(path);
  refuse_pickle(as_text(*file), path);
  const DataDirectory data(path.parent_path() / path.stem());
  trace.framework = "pytorch";
  trace.task = data.exists() ? "tensor" : "statistics";
  PtdbgReader reader(path, data, trace);
  read_lines(as_text(*file), reader);
  file->check_intact();
  reader.finish();
  if (trace.ops.empty()) {
    throw Error(Code::kUnreadable, path.string() + ": holds no rows");
  }
  rename_duplicates(trace);
  if (data.exists()) add_unnamed_files(data.path(), trace);
  trace.loader = make_file_loader(data.path(), options, true);
}

}  // namespace assay
