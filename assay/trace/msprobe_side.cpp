// Reader of msprobe's stack.json and construct.json.
#include <string>
#include <utility>

#include "assay/base/mapped_file.h"
#include "assay/trace/json_reader.h"
#include "assay/trace/msprobe.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

std::string_view as_text(const MappedFile& file) {
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

using Frames = std::vector<std::string>;

// The strings of an array whose '[' was read; anything else in it is skipped.
Frames read_strings(JsonReader& json) {
  Frames strings;
  for (JsonToken token = json.next(); token != JsonToken::kEndArray;
       token = json.next()) {
    if (token == JsonToken::kString) {
      strings.emplace_back(json.text());
    } else {
      json.skip(token);
    }
  }
  return strings;
}

// The operators an array whose '[' was read names; anything else in it is
// skipped.
std::vector<std::int32_t> read_ops(JsonReader& json, OpFinder& ops) {
  std::vector<std::int32_t> found;
  for (JsonToken token = json.next(); token != JsonToken::kEndArray;
       token = json.next()) {
    if (token == JsonToken::kString) {
      const std::int32_t op = ops.find(json.text());
      if (op >= 0) found.push_back(op);
    } else {
      json.skip(token);
    }
  }
  return found;
}

// One member: [["api", ...], ["File ...", ...]] or "api": ["File ...", ...].
void read_stack(JsonReader& json, const std::string& key, OpFinder& ops,
                Trace& trace) {
  std::vector<std::int32_t> users;
  Frames frames;
  JsonToken token = json.next();
  if (token == JsonToken::kBeginArray) {
    users = read_ops(json, ops);
    token = json.next();
    if (token == JsonToken::kBeginArray) {
      frames = read_strings(json);
      token = json.next();
    }
    for (; token != JsonToken::kEndArray; token = json.next()) {
      json.skip(token);
    }
  } else {
    if (const std::int32_t op = ops.find(key); op >= 0) users.push_back(op);
    for (; token != JsonToken::kEndArray; token = json.next()) {
      if (token == JsonToken::kString) frames.emplace_back(json.text());
      if (token != JsonToken::kString) json.skip(token);
    }
  }
  const auto stack = static_cast<std::int32_t>(trace.stacks.size());
  for (const std::int32_t op : users) {
    trace.ops[static_cast<std::size_t>(op)].stack = stack;
  }
  trace.stacks.push_back(std::move(frames));
}

using Parents = std::unordered_map<std::string, std::string>;

// "" for a root.
std::string read_parent(JsonReader& json, JsonToken token) {
  if (token == JsonToken::kString) return std::string(json.text());
  if (token != JsonToken::kBeginArray) {
    json.skip(token);
    return "";
  }
  Frames strings = read_strings(json);
  return strings.empty() ? "" : std::move(strings.front());
}

// The nearest ancestor of `name` that was dumped, -1 when there is none.
std::int32_t nearest(const std::string& name, const Parents& parents,
                     OpFinder& ops, std::size_t limit) {
  auto it = parents.find(name);
  for (std::size_t hops = 0; it != parents.end() && hops < limit; ++hops) {
    const std::int32_t op = ops.find(it->second);
    if (op >= 0) return op;
    it = parents.find(it->second);
  }
  return -1;
}

// A call tree never contains itself; a file that says so loses those edges.
void cut_cycles(Trace& trace) {
  std::vector<std::uint8_t> done(trace.ops.size(), 0);
  for (std::size_t start = 0; start < trace.ops.size(); ++start) {
    std::vector<std::size_t> chain;
    std::size_t at = start;
    while (done[at] == 0) {
      done[at] = 1;
      chain.push_back(at);
      const std::int32_t parent = trace.ops[at].parent;
      if (parent < 0) break;
      if (done[static_cast<std::size_t>(parent)] == 1) {
        trace.ops[at].parent = -1;
        break;
      }
      at = static_cast<std::size_t>(parent);
    }
    for (const std::size_t op : chain) done[op] = 2;
  }
}

}  // namespace

std::int32_t OpFinder::find(std::string_view name) {
  if (next_ < ops_.size() && ops_[next_].name == name) {
    return static_cast<std::int32_t>(next_++);
  }
  if (index_.empty()) {
    index_.reserve(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      index_.emplace(ops_[i].name, static_cast<std::int32_t>(i));
    }
  }
  const auto it = index_.find(name);
  if (it == index_.end()) return -1;
  next_ = static_cast<std::size_t>(it->second) + 1;
  return it->second;
}

void read_stacks(const fs::path& path, OpFinder& ops, Trace& trace) {
  const auto file = MappedFile::open(path);
  JsonReader json(as_text(*file), path.string());
  json.expect(JsonToken::kBeginObject, "an object");
  while (json.next() == JsonToken::kKey) {
    const std::string key(json.text());
    const JsonToken token = json.next();
    if (token == JsonToken::kBeginArray) {
      read_stack(json, key, ops, trace);
    } else {
      json.skip(token);
    }
  }
  json.next();
  file->check_intact();
}

void read_construct(const fs::path& path, OpFinder& ops, Trace& trace) {
  const auto file = MappedFile::open(path);
  JsonReader json(as_text(*file), path.string());
  Parents parents;
  json.expect(JsonToken::kBeginObject, "an object");
  while (json.next() == JsonToken::kKey) {
    std::string child(json.text());
    parents[std::move(child)] = read_parent(json, json.next());
  }
  json.next();
  file->check_intact();
  constexpr std::size_t kMaxHops = 400;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    trace.ops[i].parent = nearest(trace.ops[i].name, parents, ops, kMaxHops);
  }
  cut_cycles(trace);
}

}  // namespace assay
