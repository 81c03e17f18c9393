// Writes a trace as a directory in msprobe's layout.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/formats/npy_writer.h"
#include "assay/numerics/element.h"
#include "assay/trace/convert.h"
#include "assay/trace/entry_name.h"
#include "assay/trace/json_reader.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

bool is_integer_text(std::string_view text) {
  return !text.empty() && text.find_first_not_of("-0123456789") == text.npos;
}

std::string json_string(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    } else {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    }
  }
  return out + '"';
}

// A leaf path's tree: a list where all keys are numbers, else a dict.
struct Node {
  const Record* record = nullptr;
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> children;

  Node& child(std::string_view key) {
    for (auto& [name, node] : children) {
      if (name == key) return *node;
    }
    children.emplace_back(std::string(key), std::make_unique<Node>());
    return *children.back().second;
  }
};

bool is_index(std::string_view key) {
  return is_integer_text(key) && key[0] != '-' && key.size() < 5;
}

std::string number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  const std::string text = format_double(value);
  return is_integer_text(text) ? text + ".0" : text;
}

std::string value_json(const Record& record) {
  const std::string& text = record.value;
  if (record.type == "int" && is_integer_text(text)) return text;
  if (record.type == "bool") return text == "True" ? "true" : "false";
  if (record.type == "float") {
    if (text == "inf") return "Infinity";
    if (text == "-inf") return "-Infinity";
    if (text == "nan") return "NaN";
    return number_json(json_number(text));
  }
  if (record.type != "str" && !text.empty() && text[0] == '[') return text;
  return json_string(text);
}

// The entries' names in the file. Recomputed calls count on after the first
// runs, as msprobe numbers them.
std::vector<std::string> entry_keys(const Trace& trace) {
  constexpr std::string_view kAgain = ".recompute";
  std::map<std::string, std::int64_t> next;
  for (const Op& op : trace.ops) {
    std::int64_t& index = next[op.prefix + '.' + op.api];
    index = std::max(index, op.call_index + 1);
  }
  std::vector<std::string> keys;
  keys.reserve(trace.ops.size());
  for (const Op& op : trace.ops) {
    const std::string_view name = op.name;
    if (op.direction == Direction::kNone && !name.ends_with(".debug")) {
      keys.push_back(op.name + ".0.debug");
    } else if (name.ends_with(kAgain)) {
      keys.push_back(with_call_index(
          parse_entry_name(name.substr(0, name.size() - kAgain.size())),
          next[op.prefix + '.' + op.api]++));
    } else {
      keys.push_back(op.name);
    }
  }
  return keys;
}

class MsprobeWriter {
 public:
  MsprobeWriter(const Trace& trace, const fs::path& out)
      : trace_(trace),
        keys_(entry_keys(trace)),
        out_(out),
        data_(out / "dump_tensor_data"),
        json_(out / "dump.json") {}

  ConvertSummary write() {
    json_.write(
        "{\n \"task\": " + json_string(task()) +
        ",\n \"level\": " + json_string(trace_.level) + ",\n \"framework\": " +
        json_string(trace_.framework.empty() ? "pytorch" : trace_.framework) +
        ",\n \"dump_data_dir\": \"dump_tensor_data\",\n \"data\": {");
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      json_.write(i == 0 ? "\n" : ",\n");
      write_op(trace_.ops[i]);
    }
    json_.write("\n }\n}\n");
    write_stacks();
    write_construct();
    json_.commit();
    return std::move(summary_);
  }

 private:
  std::string task() const {
    return trace_.task.empty() ? "tensor" : trace_.task;
  }

  const std::string& key(const Op& op) const {
    return keys_[static_cast<std::size_t>(&op - trace_.ops.data())];
  }

  void write_op(const Op& op) {
    Node root;
    for (std::uint32_t i = 0; i < op.record_count; ++i) {
      const Record& record = trace_.records[op.first_record + i];
      Node* node = &root;
      if (!record.leaf.empty()) {
        for (const std::string_view part : split(record.leaf, '.')) {
          node = &node->child(part);
        }
      }
      node->record = &record;
    }
    json_.write("  " + json_string(key(op)) + ": ");
    if (op.direction == Direction::kForward) {
      json_.write(forward_body(op, root));
    } else if (op.direction == Direction::kParametersGrad) {
      json_.write(grad_body(root));
    } else {
      json_.write(tree(root));
    }
  }

  std::string forward_body(const Op& op, Node& root) {
    Node args;
    Node kwargs;
    std::string rest;
    for (auto& [name, node] : root.children) {
      if (name != "input") {
        rest += ", " + json_string(name) + ": " + tree(*node);
        continue;
      }
      for (auto& [key, leaf] : node->children) {
        (is_index(key) ? args : kwargs)
            .children.emplace_back(key, std::move(leaf));
      }
    }
    return "{\"input_args\": " + list(args) +
           ", \"input_kwargs\": " + dict(kwargs) +
           ", \"is_recompute\": " + (op.recompute ? "true" : "false") + rest +
           "}";
  }

  // {"weight": [leaf]}; a parameter's dotted name is one key.
  std::string grad_body(Node& root) {
    std::string text = "{";
    collect_grads(root, "", text);
    return text + "}";
  }

  void collect_grads(Node& node, const std::string& path, std::string& text) {
    if (node.record != nullptr) {
      if (text.size() > 1) text += ", ";
      text += json_string(path) + ": [" + leaf(*node.record) + "]";
    }
    for (auto& [key, child] : node.children) {
      collect_grads(*child, path.empty() ? key : path + '.' + key, text);
    }
  }

  std::string tree(Node& node) {
    if (node.record != nullptr) return leaf(*node.record);
    for (auto& [key, child] : node.children) {
      if (!is_index(key)) return dict(node);
    }
    return node.children.empty() ? "{}" : list(node);
  }

  std::string dict(Node& node) {
    std::string text = "{";
    for (auto& [key, child] : node.children) {
      if (text.size() > 1) text += ", ";
      text += json_string(key) + ": " + tree(*child);
    }
    return text + "}";
  }

  // An index that has no leaf was an empty list: it is one again.
  std::string list(Node& node) {
    std::map<int, Node*> by_index;
    for (auto& [key, child] : node.children) {
      by_index[std::stoi(key)] = child.get();
    }
    std::string text = "[";
    int next = 0;
    for (auto& [index, child] : by_index) {
      for (; next < index; ++next) text += next == 0 ? "[]" : ", []";
      text += next++ == 0 ? "" : ", ";
      text += tree(*child);
    }
    return text + "]";
  }

  std::string leaf(const Record& record) {
    if (record.is_tensor) return tensor_leaf(record);
    if (record.type == "NoneType") return "null";
    std::string text = "{\"type\": " + json_string(record.type);
    if (!record.value.empty() && record.value[0] == '{' &&
        record.type != "str") {
      return text + "," + record.value.substr(1);
    }
    const char* name =
        record.type.ends_with("memory_format") ? "format" : "value";
    return text + ", \"" + name + "\": " + value_json(record) + "}";
  }

  std::string tensor_leaf(const Record& record) {
    const std::string file = write_tensor(record);
    std::string text =
        "{\"type\": " +
        json_string(record.type.empty() ? "torch.Tensor" : record.type);
    text += ", \"dtype\": " + json_string(dtype_text(record)) +
            ", \"shape\": " + to_string(record.facts.shape);
    text += statistic("Max", record.stats.max, record) +
            statistic("Min", record.stats.min, record) +
            statistic("Mean", record.stats.mean, record) +
            statistic("Norm", record.stats.norm, record);
    if (record.facts.requires_grad) {
      text += std::string(", \"requires_grad\": ") +
              (*record.facts.requires_grad ? "true" : "false");
    }
    if (!record.digest.empty())
      text += ", \"md5\": " + json_string(record.digest);
    if (!file.empty()) text += ", \"data_name\": " + json_string(file);
    if (!record.value.empty() && record.value[0] == '{') {
      return text + "," + record.value.substr(1);
    }
    return text + "}";
  }

  // "torch.float32", whatever the source called it.
  static std::string dtype_text(const Record& record) {
    const std::string& text = record.facts.dtype_text;
    if (!record.type.empty() || !record.facts.dtype) return text;
    return "torch." + std::string(traits(*record.facts.dtype).name);
  }

  // Exact big integers travel among the further members instead.
  static std::string statistic(const char* name, std::optional<double> value,
                               const Record& record) {
    const std::string member = '"' + std::string(name) + "\":";
    if (record.value.find(member) != record.value.npos) return "";
    return ", \"" + std::string(name) +
           "\": " + (value ? number_json(*value) : "null");
  }

  // The file's name, "" when the tensor cannot be had.
  std::string write_tensor(const Record& record) {
    if (record.file.empty() && record.unreadable.empty()) return "";
    const std::string name = trace_.name(record);
    try {
      const Tensor tensor = trace_.loader->load(record);
      const std::string file = file_name(name);
      write_payload(tensor, data_ / file);
      ++summary_.tensors;
      summary_.bytes +=
          storage_bytes(tensor.view.dtype, tensor.view.numel()).value_or(0);
      return file;
    } catch (const Error& error) {
      summary_.left_out.push_back(name + ": " + error.what());
      return "";
    }
  }

  void write_payload(const Tensor& tensor, const fs::path& path) {
    if (!data_made_) fs::create_directories(data_);
    data_made_ = true;
    if (!traits(tensor.view.dtype).numpy.empty()) {
      write_npy(path, tensor.view);
      return;
    }
    const Tensor source = contiguous(tensor);
    Tensor wide = Tensor::zeros(DType::kF32, source.view.shape);
    const std::int64_t count = source.view.numel();
    for (std::int64_t i = 0; i < count; ++i) {
      store_from_double(DType::kF32,
                        load_as_double(source.view.dtype, source.view.data, i),
                        wide.mutable_data(), i);
    }
    write_npy(path, wide.view);
  }

  std::string file_name(const std::string& name) {
    constexpr std::size_t kLongest = 240;
    std::string file = name;
    for (char& c : file) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                         c == '-' || c == ':';
      if (!plain) c = '_';
    }
    if (file.size() > kLongest) file.resize(kLongest);
    const std::string base = file;
    for (int copy = 2; !files_.insert(file).second; ++copy) {
      file = base + '_' + std::to_string(copy);
    }
    return file + ".npy";
  }

  // The 26.x form: one entry per stack, with the calls that share it.
  void write_stacks() {
    std::vector<std::string> names(trace_.stacks.size());
    for (const Op& op : trace_.ops) {
      if (op.stack < 0) continue;
      std::string& list = names[static_cast<std::size_t>(op.stack)];
      list += (list.empty() ? "" : ", ") + json_string(key(op));
    }
    AtomicFile file(out_ / "stack.json");
    file.write("{");
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::string frames;
      for (const std::string& frame : trace_.stacks[i]) {
        frames += (frames.empty() ? "" : ", ") + json_string(frame);
      }
      file.write((i == 0 ? "\n \"" : ",\n \"") + std::to_string(i) + "\": [[" +
                 names[i] + "], [" + frames + "]]");
    }
    file.write("\n}\n");
    file.commit();
  }

  void write_construct() {
    AtomicFile file(out_ / "construct.json");
    file.write("{");
    bool first = true;
    for (const Op& op : trace_.ops) {
      if (op.direction == Direction::kNone) continue;
      file.write((first ? "\n " : ",\n ") + json_string(key(op)) + ": " +
                 (op.parent < 0
                      ? "null"
                      : json_string(key(
                            trace_.ops[static_cast<std::size_t>(op.parent)]))));
      first = false;
    }
    file.write("\n}\n");
    file.commit();
  }

  const Trace& trace_;
  std::vector<std::string> keys_;
  fs::path out_, data_;
  AtomicFile json_;
  bool data_made_ = false;
  std::set<std::string> files_;
  ConvertSummary summary_;
};

}  // namespace

ConvertSummary write_msprobe(const Trace& trace, const fs::path& out) {
  try {
    if (fs::exists(out / "dump.json")) {
      throw Error(Code::kUsage, out.string() + ": holds a dump already");
    }
    fs::create_directories(out);
    return MsprobeWriter(trace, out).write();
  } catch (const fs::filesystem_error& error) {
    throw Error(Code::kUnreadable,
                out.string() + ": " + error.code().message());
  }
}

}  // namespace assay
