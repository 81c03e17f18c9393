#include "assay/precheck/api_call.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>

namespace assay::precheck {
namespace {

constexpr std::string_view kForward = ".forward";
constexpr std::string_view kBackward = ".backward";
constexpr std::string_view kInput = "input.";

// "Functional.linear.0.forward" without its direction; "" where it has another.
std::string_view stem(std::string_view name, std::string_view direction) {
  if (!name.ends_with(direction)) return {};
  return name.substr(0, name.size() - direction.size());
}

// A step of an optimizer, like a module, runs operators that have entries of
// their own.
bool encloses_others(std::string_view prefix) {
  return prefix == "Module" || prefix == "Cell" || prefix == "Optimizer";
}

// The part of that key, made at the end where it is new.
Argument& part(std::vector<Argument>& parts, std::string_view key) {
  const auto found =
      std::find_if(parts.rbegin(), parts.rend(),
                   [&](const Argument& each) { return each.key == key; });
  if (found != parts.rend()) return *found;
  return parts.emplace_back(Argument{std::string(key), -1, {}});
}

// Puts a leaf of the path "0.1.name" where it belongs.
void place(std::vector<Argument>& arguments, std::string_view path,
           std::int32_t record) {
  std::vector<Argument>* parts = &arguments;
  for (;;) {
    const std::size_t dot = path.find('.');
    Argument& here = part(*parts, path.substr(0, dot));
    if (dot == std::string_view::npos) {
      here.record = record;
      return;
    }
    parts = &here.parts;
    path.remove_prefix(dot + 1);
  }
}

std::vector<Argument> arguments_of(const Trace& trace, const Op& op) {
  std::vector<Argument> arguments;
  for (std::uint32_t i = 0; i < op.record_count; ++i) {
    const std::uint32_t at = op.first_record + i;
    const Record& record = trace.records[at];
    if (record.role != Role::kInput || !record.leaf.starts_with(kInput))
      continue;
    place(arguments, std::string_view(record.leaf).substr(kInput.size()),
          static_cast<std::int32_t>(at));
  }
  return arguments;
}

}  // namespace

bool Argument::is_sequence() const {
  std::size_t expected = 0;
  for (const Argument& each : parts) {
    std::size_t number = 0;
    const char* end = each.key.data() + each.key.size();
    const auto parsed = std::from_chars(each.key.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end || number != expected++)
      return false;
  }
  return is_container();
}

std::vector<ApiCall> read_calls(const Trace& trace) {
  std::unordered_map<std::string_view, std::int32_t> backward;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const std::string_view name = stem(trace.ops[i].name, kBackward);
    if (!name.empty()) backward.emplace(name, static_cast<std::int32_t>(i));
  }
  std::vector<ApiCall> calls;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    const std::string_view name = stem(op.name, kForward);
    if (name.empty() || encloses_others(op.prefix) ||
        op.direction != Direction::kForward || op.recompute)
      continue;
    ApiCall call;
    call.name = name;
    call.api = op.prefix + "." + op.api;
    call.forward = static_cast<std::uint32_t>(i);
    const auto found = backward.find(name);
    if (found != backward.end()) call.backward = found->second;
    call.arguments = arguments_of(trace, op);
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace assay::precheck
