#include "assay/compare/determinism/calls.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace assay {
namespace {

std::vector<std::size_t> forward_calls(const Trace& trace) {
  std::vector<std::size_t> calls;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    if (op.direction <= Direction::kForward && !op.recompute)
      calls.push_back(i);
  }
  return calls;
}

std::string_view parent_name(const Trace& trace, const Op& op) {
  return op.parent < 0 ? std::string_view() : trace.ops[op.parent].name;
}

std::vector<std::string> stack_of(const Trace& trace, const Op& op) {
  return op.stack < 0 ? std::vector<std::string>() : trace.stacks[op.stack];
}

bool same_call(const Trace& a, const Op& x, const Trace& b, const Op& y) {
  return x.name == y.name && parent_name(a, x) == parent_name(b, y) &&
         stack_of(a, x) == stack_of(b, y);
}

}  // namespace

std::optional<CallDifference> first_other_call(const Trace& first,
                                               const Trace& second) {
  const std::vector<std::size_t> a = forward_calls(first);
  const std::vector<std::size_t> b = forward_calls(second);
  std::size_t i = 0;
  while (i < a.size() && i < b.size() &&
         same_call(first, first.ops[a[i]], second, second.ops[b[i]])) {
    ++i;
  }
  if (i == a.size() && i == b.size()) return std::nullopt;
  CallDifference found;
  found.op = static_cast<std::int64_t>(i < a.size() ? a[i] : first.ops.size());
  if (i < b.size()) {
    found.second = second.ops[b[i]].name;
    found.stack = stack_of(second, second.ops[b[i]]);
  }
  if (i < a.size()) {
    found.first = first.ops[a[i]].name;
    found.stack = stack_of(first, first.ops[a[i]]);
  }
  return found;
}

}  // namespace assay
