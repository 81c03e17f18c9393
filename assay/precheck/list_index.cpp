#include "assay/precheck/list_index.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace assay::precheck {
namespace {

const Record& record_at(const Trace& trace, const Argument& argument) {
  return trace.records[static_cast<std::size_t>(argument.record)];
}

// The numbers of an index as a tensor of them would have it.
struct Nest {
  Shape shape;
  bool bools = false;
  std::int64_t chosen = 0;  // that are True
};

std::optional<Nest> nest_of(const Trace& trace, const Argument& argument) {
  Nest nest;
  if (!argument.is_container()) {
    const Record& record = record_at(trace, argument);
    if (record.is_tensor) return std::nullopt;
    nest.bools = record.type == "bool";
    nest.chosen = record.value == "True" ? 1 : 0;
    if (record.type == "list" && record.value == "[]") nest.shape = {0};
    if (nest.bools || record.type == "int" || !nest.shape.empty()) return nest;
    return std::nullopt;
  }
  if (!argument.is_sequence() || argument.parts.empty()) return std::nullopt;
  for (std::size_t i = 0; i < argument.parts.size(); ++i) {
    const auto part = nest_of(trace, argument.parts[i]);
    if (!part) return std::nullopt;
    if (i == 0) {
      nest.shape = part->shape;
      nest.bools = part->bools;
    }
    if (part->shape != nest.shape || part->bools != nest.bools)
      return std::nullopt;
    nest.chosen += part->chosen;
  }
  nest.shape.insert(nest.shape.begin(),
                    static_cast<std::int64_t>(argument.parts.size()));
  return nest;
}

// What indexing gives: the dimensions of the index before those that it does
// not count.
std::optional<Shape> indexed(Shape head, const Shape& self,
                             std::size_t counted) {
  if (counted > self.size()) return std::nullopt;
  head.insert(head.end(), self.begin() + static_cast<std::ptrdiff_t>(counted),
              self.end());
  return head;
}

const Record* wanted(const Trace& trace, const ApiCall& call) {
  if (call.api == "Tensor.__setitem__")
    return call.arguments.size() > 2 && !call.arguments[2].is_container()
               ? &record_at(trace, call.arguments[2])
               : nullptr;
  if (call.api != "Tensor.__getitem__") return nullptr;
  const Op& op = trace.ops[call.forward];
  for (std::uint32_t i = 0; i < op.record_count; ++i) {
    const Record& record = trace.records[op.first_record + i];
    if (record.role == Role::kOutput) return &record;
  }
  return nullptr;
}

}  // namespace

bool is_list_index(const Trace& trace, const ApiCall& call) {
  const Record* result = wanted(trace, call);
  if (!result || !result->is_tensor || call.arguments.size() < 2 ||
      call.arguments[1].key != "1" || call.arguments[0].is_container())
    return false;
  const Record& self = record_at(trace, call.arguments[0]);
  const auto nest = nest_of(trace, call.arguments[1]);
  if (!self.is_tensor || !nest || nest->shape.empty()) return false;
  const Shape head = nest->bools ? Shape{nest->chosen} : nest->shape;
  return indexed(head, self.facts.shape,
                 nest->bools ? nest->shape.size() : 1) == result->facts.shape;
}

}  // namespace assay::precheck
