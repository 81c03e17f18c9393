#include "assay/trace/capture_lines.h"

#include <array>
#include <cmath>

#include "assay/base/text_out.h"
#include "assay/trace/capture_names.h"

namespace assay {
namespace {

constexpr std::array<std::string_view, 3> kModeWords = {"tensor", "statistics",
                                                        "hash"};

void add_key(std::string& line, std::string_view key) {
  line += ",\"";
  line += key;
  line += "\":";
}

void add_collective(std::string& line, const Collective& c) {
  line += ",\"collective\":{\"group\":";
  append_json_string(line, c.group_id);
  add_integers(line, "ranks", c.group_ranks);
  if (c.peer) add_integer(line, "peer", *c.peer);
  line += '}';
}

}  // namespace

std::string_view to_string(CaptureMode mode) {
  return word_of(kModeWords, mode);
}

void add_text(std::string& line, std::string_view key, std::string_view text) {
  add_key(line, key);
  append_json_string(line, text);
}

void add_text_unless_empty(std::string& line, std::string_view key,
                           std::string_view text) {
  if (!text.empty()) add_text(line, key, text);
}

void add_integer(std::string& line, std::string_view key, std::int64_t value) {
  add_key(line, key);
  append_int(line, value);
}

void add_integer_unless_zero(std::string& line, std::string_view key,
                             std::int64_t value) {
  if (value != 0) add_integer(line, key, value);
}

void add_number(std::string& line, std::string_view key, double value) {
  if (std::isnan(value)) return;  // no finite element: nothing to say
  add_key(line, key);
  append_json_double(line, value);
}

void add_integers(std::string& line, std::string_view key,
                  const std::vector<std::int64_t>& values) {
  add_key(line, key);
  line += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) line += ',';
    append_int(line, values[i]);
  }
  line += ']';
}

std::string header_line(const CaptureOptions& o) {
  std::string line = "{\"assay_trace\":" + std::to_string(kCaptureVersion);
  add_text(line, "task", to_string(o.mode));
  add_integer(line, "step", o.step);
  add_integer(line, "rank", o.rank);
  add_integer(line, "world_size", o.world_size);
  add_text_unless_empty(line, "framework", o.framework);
  add_text_unless_empty(line, "framework_version", o.framework_version);
  add_text_unless_empty(line, "level", o.level);
  add_text_unless_empty(line, "device", o.device);
  return line + "}\n";
}

std::string leaf_begin(const CaptureLeaf& leaf) {
  std::string line = "{\"of\":" + std::to_string(leaf.op);
  add_text(line, "role", word_of(kRoleWords, leaf.role));
  add_text_unless_empty(line, "leaf", leaf.leaf);
  add_text_unless_empty(line, "type", leaf.type);
  return line;
}

std::string op_line(const Op& op, std::string_view autocast) {
  std::string line = "{\"op\":";
  append_json_string(line, op.name);
  add_text(line, "api", op.api);
  add_text_unless_empty(line, "prefix", op.prefix);
  add_integer(line, "call", op.call_index);
  add_text_unless_empty(line, "direction",
                        word_of(kDirectionWords, op.direction));
  if (op.parent >= 0) add_integer(line, "parent", op.parent);
  if (op.stack >= 0) add_integer(line, "stack", op.stack);
  if (op.recompute) line += ",\"recompute\":true";
  add_text_unless_empty(line, "autocast", autocast);
  if (op.collective) add_collective(line, *op.collective);
  return line + "}\n";
}

std::string stack_line(const std::vector<std::string>& frames) {
  std::string line = "{\"stack\":[";
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (i > 0) line += ',';
    append_json_string(line, frames[i]);
  }
  return line + "]}\n";
}

}  // namespace assay
