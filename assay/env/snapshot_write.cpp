#include "assay/base/text_out.h"
#include "assay/env/snapshot.h"
#include "assay/report/json_object.h"

namespace assay::env {
namespace {

void append_scalar(std::string& out, const Value& value) {
  switch (value.kind) {
    case Kind::kNumber:
    case Kind::kBool:
    case Kind::kNull:
      out += value.text;
      return;
    case Kind::kText:
    case Kind::kFlag:
    case Kind::kUnknown:
      append_json_string(out, value.text);
  }
}

void append_value(std::string& out, const Value& value) {
  const bool special =
      value.kind == Kind::kFlag || value.kind == Kind::kUnknown;
  if (value.from.empty() && !special) return append_scalar(out, value);
  out += "{\"value\": ";
  append_scalar(out, value);
  if (value.kind == Kind::kFlag) out += ", \"flag\": true";
  if (value.kind == Kind::kUnknown) out += ", \"unknown\": true";
  if (!value.from.empty()) {
    out += ", \"from\": ";
    append_json_string(out, value.from);
  }
  out += '}';
}

void append_section(std::string& out, const SectionFacts& facts,
                    bool has_scope) {
  out += "{\n   \"collected\": ";
  out += facts.collected ? "true" : "false";
  if (has_scope) {
    out += ",\n   \"scope\": \"";
    out.append(kScopeNames[static_cast<std::size_t>(facts.scope)]).append("\"");
  }
  out += ",\n   \"missing\": ";
  append_json_list(out, facts.missing);
  out += ",\n   \"values\": {";
  const char* separator = "\n    ";
  for (const auto& [key, value] : facts.values) {
    out += separator;
    append_json_string(out, key);
    out += ": ";
    append_value(out, value);
    separator = ",\n    ";
  }
  out += facts.values.empty() ? "}\n  }" : "\n   }\n  }";
}

void append_map(std::string& out,
                const std::map<std::string, std::string>& map) {
  JsonScope object(out, '{');
  for (const auto& [key, value] : map) {
    append_json_string(object.element(), key);
    out += ':';
    append_json_string(out, value);
  }
}

void append_print(std::string& out, const TensorPrint& print) {
  JsonScope object(out, '{');
  object.text("name", print.name);
  object.text_unless_empty("role", print.role);
  object.text("dtype", print.dtype);
  {
    JsonScope shape(object.key("shape"), '[');
    for (const std::int64_t size : print.shape)
      append_int(shape.element(), size);
  }
  object.text("hash", print.hash);
  if (!print.as.empty()) append_map(object.key("as"), print.as);
  if (!print.statistics.empty())
    append_map(object.key("statistics"), print.statistics);
  object.text_unless_empty("placement", print.placement);
  object.text_unless_empty("unreadable", print.unreadable);
}

// `item(i)` appends the i-th of n to `out`, each on a line of its own.
template <typename F>
void append_lines(std::string& out, std::size_t n, F&& item) {
  out += '[';
  for (std::size_t i = 0; i < n; ++i) {
    out += i == 0 ? "\n  " : ",\n  ";
    item(i);
  }
  out += n == 0 ? "]" : "\n ]";
}

void append_prints(std::string& out, const std::vector<TensorPrint>& prints) {
  JsonScope array(out, '[');
  for (const TensorPrint& print : prints) append_print(array.element(), print);
}

void append_draws(std::string& out, const Snapshot& snapshot) {
  out += "{\n  \"count\": ";
  append_int(out, snapshot.draw_count);
  out += ",\n  \"hash\": ";
  append_json_string(out, snapshot.draw_hash);
  out += ",\n  \"first\": ";
  append_lines(out, snapshot.draws.size(), [&](std::size_t i) {
    const Draw& draw = snapshot.draws[i];
    JsonScope object(out, '{');
    object.text("function", draw.function);
    object.text("arguments", draw.arguments);
    object.text_unless_empty("result", draw.result);
    if (draw.stack >= 0) object.integer("stack", draw.stack);
  });
  out += ",\n  \"stacks\": ";
  append_lines(out, snapshot.stacks.size(), [&](std::size_t i) {
    append_json_list(out, snapshot.stacks[i]);
  });
  out += "\n }";
}

}  // namespace

std::string to_json(const Snapshot& snapshot) {
  std::string out = "{\n \"format\": \"assay-env\",\n \"version\": 1";
  out += ",\n \"taken\": ";
  append_json_string(out, snapshot.taken);
  out += ",\n \"sections\": {";
  for (std::size_t i = 0; i < kSectionNames.size(); ++i) {
    out += i == 0 ? "\n  \"" : ",\n  \"";
    out.append(kSectionNames[i]).append("\": ");
    append_section(out, snapshot.sections[i],
                   static_cast<Section>(i) == Section::kEnvironment);
  }
  out += "\n }";
  if (!snapshot.weights.empty()) {
    out += ",\n \"weights\": ";
    append_lines(out, snapshot.weights.size(), [&](std::size_t i) {
      append_print(out, snapshot.weights[i]);
    });
  }
  if (!snapshot.batches.empty()) {
    out += ",\n \"batches\": ";
    append_lines(out, snapshot.batches.size(), [&](std::size_t i) {
      append_prints(out, snapshot.batches[i].leaves);
    });
  }
  if (snapshot.draw_count > 0) {
    out += ",\n \"draws\": ";
    append_draws(out, snapshot);
  }
  return out + "\n}\n";
}

}  // namespace assay::env
