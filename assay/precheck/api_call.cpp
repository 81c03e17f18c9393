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

constexpr std::size_t kMaxLeaves = 10'000;
constexpr std::ptrdiff_t kMaxDepth = 32;

// "#2" of the second operator of a name, "" of the first.
std::string_view copy_of(std::string_view name) {
  const std::size_t at = name.rfind('#');
  if (at == std::string_view::npos || at + 1 == name.size() ||
      name.find_first_not_of("0123456789", at + 1) != std::string_view::npos)
    return {};
  return name.substr(at);
}

// "Functional.linear.0.forward" without its direction; "" where it has another.
std::string stem(std::string_view name, std::string_view direction) {
  const std::string_view copy = copy_of(name);
  name.remove_suffix(copy.size());
  if (!name.ends_with(direction)) return {};
  name.remove_suffix(direction.size());
  return name.empty() ? "" : std::string(name).append(copy);
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

bool too_deep(std::string_view leaf) {
  return std::count(leaf.begin(), leaf.end(), '.') > kMaxDepth;
}

// Whoever wrote the trace decides how many leaves there are, and how deep.
std::string problem_of(const std::vector<std::uint32_t>& leaves,
                       const Trace& trace) {
  if (leaves.size() > kMaxLeaves) return "more than 10,000 arguments";
  const bool deep = std::any_of(
      leaves.begin(), leaves.end(),
      [&](std::uint32_t at) { return too_deep(trace.records[at].leaf); });
  return deep ? "an argument that is nested more than 32 deep" : "";
}

void read_arguments(const Trace& trace, const Op& op, ApiCall& call) {
  std::vector<std::uint32_t> leaves;
  for (std::uint32_t i = 0; i < op.record_count; ++i) {
    const std::uint32_t at = op.first_record + i;
    const Record& record = trace.records[at];
    if (record.role == Role::kInput && record.leaf.starts_with(kInput))
      leaves.push_back(at);
  }
  call.problem = problem_of(leaves, trace);
  if (!call.problem.empty()) return;
  for (const std::uint32_t at : leaves)
    place(call.arguments,
          std::string_view(trace.records[at].leaf).substr(kInput.size()),
          static_cast<std::int32_t>(at));
}

// The indices of operators by what their calls are named.
std::unordered_map<std::string, std::int32_t> stems(
    const Trace& trace, std::string_view direction) {
  std::unordered_map<std::string, std::int32_t> found;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    std::string name = stem(trace.ops[i].name, direction);
    if (!name.empty())
      found.emplace(std::move(name), static_cast<std::int32_t>(i));
  }
  return found;
}

bool is_of_a_call(const Op& op, Direction direction) {
  return op.direction == direction && !op.recompute &&
         !encloses_others(op.prefix);
}

bool has_tensors(const Trace& trace, const Op& op) {
  const Record* first = trace.records.data() + op.first_record;
  return std::any_of(first, first + op.record_count,
                     [](const Record& record) { return record.is_tensor; });
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
  const auto backward = stems(trace, kBackward);
  std::vector<ApiCall> calls;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    std::string name = stem(op.name, kForward);
    if (name.empty() || !is_of_a_call(op, Direction::kForward)) continue;
    ApiCall call;
    const auto found = backward.find(name);
    if (found != backward.end()) call.backward = found->second;
    call.name = std::move(name);
    call.api = op.prefix + "." + op.api;
    call.forward = static_cast<std::uint32_t>(i);
    read_arguments(trace, op, call);
    calls.push_back(std::move(call));
  }
  return calls;
}

std::vector<LeftOut> left_out(const Trace& trace) {
  const auto forward = stems(trace, kForward);
  std::vector<LeftOut> found;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    const auto at = static_cast<std::uint32_t>(i);
    if (is_of_a_call(op, Direction::kForward)) {
      if (stem(op.name, kForward).empty())
        found.push_back({at,
                         "not replayed: no name of a call, expected "
                         "PREFIX.API.NUMBER.forward"});
    } else if (is_of_a_call(op, Direction::kBackward) &&
               has_tensors(trace, op) &&
               !forward.contains(stem(op.name, kBackward))) {
      found.push_back({at,
                       "not replayed: gradients of a call that the trace does "
                       "not have"});
    }
  }
  return found;
}

}  // namespace assay::precheck
