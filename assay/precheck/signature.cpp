#include "assay/precheck/signature.h"

#include <fmt/format.h>

#include <iterator>

#include "assay/base/hash.h"

namespace assay::precheck {
namespace {

// Lengths before texts: no value can pose as what follows it.
void add_text(const std::string& text, std::string& out) {
  fmt::format_to(std::back_inserter(out), "{}:{}", text.size(), text);
}

void add_record(const Record& record, std::string& out) {
  if (!record.is_tensor) {
    out += 'v';
    add_text(record.type, out);
    add_text(record.value, out);
    return;
  }
  out += 't';
  add_text(record.facts.dtype_text, out);
  out += to_string(record.facts.shape);
  out += record.facts.requires_grad.value_or(false) ? 'g' : '-';
}

void add(const Trace& trace, const Argument& argument, std::string& out) {
  add_text(argument.key, out);
  if (!argument.is_container())
    add_record(trace.records[static_cast<std::size_t>(argument.record)], out);
  out += '(';
  for (const Argument& part : argument.parts) add(trace, part, out);
  out += ')';
}

bool requires_grad(const Record& record) {
  return record.is_tensor && record.facts.requires_grad.value_or(false) &&
         record.facts.dtype && !is_exact(*record.facts.dtype);
}

}  // namespace

bool wants_backward(const Trace& trace, const ApiCall& call) {
  const Op& op = trace.ops[call.forward];
  bool in = false, out = call.backward >= 0;
  for (std::uint32_t i = 0; i < op.record_count; ++i) {
    const Record& record = trace.records[op.first_record + i];
    if (!requires_grad(record)) continue;
    (record.role == Role::kOutput ? out : in) = true;
  }
  return in && out;
}

std::string signature_of(const Trace& trace, const ApiCall& call) {
  std::string text = wants_backward(trace, call) ? "b" : "f";
  add_text(call.api, text);
  add_text(trace.ops[call.forward].autocast, text);
  for (const Argument& argument : call.arguments) add(trace, argument, text);
  add_text(call.problem, text);
  return text;
}

std::uint64_t seed_of(const std::string& signature) {
  return hash128(signature).low;
}

}  // namespace assay::precheck
