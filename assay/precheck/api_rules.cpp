#include "assay/precheck/api_rules.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "assay/base/text.h"
#include "assay/compare/undefined_memory.h"
#include "assay/core/shape.h"

namespace assay::precheck {
namespace {

struct Names {
  Skip skip;
  std::string_view why;
  std::string_view apis;  // without prefix, each between blanks
};

constexpr std::array kNames = {
    Names{Skip::kNoLoss, "asks where a tensor lives or how it lies in memory",
          " data_ptr device get_device is_contiguous is_cuda is_pinned "
          "is_set_to storage storage_offset storage_type stride "
          "untyped_storage __dlpack__ __dlpack_device__ __hash__ __repr__ "
          "__format__ "},
    Names{Skip::kNoLoss,
          "changes the graph, no value; what it starts has rows of its own",
          " backward autograd.backward autograd.grad register_hook "
          "requires_grad_ retain_grad "},
    Names{Skip::kNoLoss, "sets or reads the state of a generator",
          " manual_seed seed initial_seed get_rng_state set_rng_state "
          "random.fork_rng "},
    Names{Skip::kLoss, "takes or gives memory that is not the tensor's own",
          " set_ share_memory_ from_numpy frombuffer from_file from_dlpack "
          "load save "},
};

// "Tensor.nn.init.fill_" -> "nn.init.fill_".
std::string_view bare(std::string_view api) {
  return api.substr(api.find('.') + 1);
}

bool listed(std::string_view list, std::string_view word) {
  return list.find(fmt::format(" {} ", word)) != std::string_view::npos;
}

// All tensors of the result are memory that nothing has written.
bool makes_undefined_memory(const Trace& trace, const Op& op) {
  bool any = false;
  for (std::uint32_t i = 0; i < op.record_count; ++i) {
    const Record& record = trace.records[op.first_record + i];
    if (record.role != Role::kOutput || !record.is_tensor) continue;
    if (!is_undefined_memory(trace, op, record)) return false;
    any = true;
  }
  return any;
}

std::string problem_of_tensor(const Record& record) {
  if (!record.unreadable.empty())
    return "a tensor that could not be recorded: " + record.unreadable;
  if (!record.facts.dtype)
    return fmt::format("an argument of dtype '{}'",
                       printable(record.facts.dtype_text));
  const auto count = checked_numel(record.facts.shape);
  if (!count || !storage_bytes(*record.facts.dtype, *count))
    return "a tensor whose shape has no size";
  return "";
}

// Why a leaf or a container cannot be given to a worker, "" where it can.
std::string problem_of(const Trace& trace, const Argument& argument) {
  for (const Argument& part : argument.parts) {
    std::string problem = problem_of(trace, part);
    if (!problem.empty()) return problem;
  }
  if (argument.is_container()) return "";
  const Record& record =
      trace.records[static_cast<std::size_t>(argument.record)];
  if (!argument.parts.empty())
    return "a tensor that was recorded in part, or as codes and scales";
  if (record.is_tensor) return problem_of_tensor(record);
  if (record.unreadable.empty()) return "";
  return fmt::format("an argument of which only its type is known: {}",
                     record.type.empty() ? record.unreadable : record.type);
}

const Record* raised(const Trace& trace, const Op& op) {
  for (std::uint32_t i = 0; i < op.record_count; ++i) {
    const Record& record = trace.records[op.first_record + i];
    if (record.leaf == "output.raised") return &record;
  }
  return nullptr;
}

SkipRule rule_of_arguments(const Trace& trace, const ApiCall& call) {
  if (!call.problem.empty()) return {Skip::kLoss, call.problem};
  for (const Argument& argument : call.arguments) {
    std::string problem = problem_of(trace, argument);
    if (!problem.empty()) return {Skip::kLoss, std::move(problem)};
  }
  return {};
}

}  // namespace

SkipRule skip_rule(const Trace& trace, const ApiCall& call) {
  const Op& op = trace.ops[call.forward];
  if (op.prefix == "Distributed" || op.collective)
    return {Skip::kLoss,
            "exchanges data with other ranks; `assay compare` of two runs "
            "judges it"};
  if (makes_undefined_memory(trace, op))
    return {Skip::kNoLoss, "makes memory that nothing has written"};
  for (const Names& names : kNames)
    if (listed(names.apis, bare(call.api)))
      return {names.skip, std::string(names.why)};
  if (const Record* error = raised(trace, op))
    return {Skip::kLoss, "raised when it was recorded: " + error->value};
  return rule_of_arguments(trace, call);
}

bool tells_of_dtype(const std::string& api) {
  return listed(
      " element_size itemsize nbytes dtype type is_floating_point is_complex "
      "is_signed can_cast result_type promote_types finfo iinfo "
      "get_default_dtype ",
      bare(api));
}

}  // namespace assay::precheck
