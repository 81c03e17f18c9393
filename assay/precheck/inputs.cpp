#include "assay/precheck/inputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/compare/sidecar.h"
#include "assay/core/philox.h"
#include "assay/numerics/element.h"
#include "assay/precheck/generate.h"
#include "assay/precheck/indices.h"
#include "assay/precheck/list_index.h"
#include "assay/precheck/signature.h"

namespace assay::precheck {
namespace {

using conform::List;
using conform::Object;

// Of the machine's memory: the golden needs the same in float64, and results.
constexpr std::int64_t kShareOfMemory = 4;

std::int64_t physical_bytes() {
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
}

class InputMaker {
 public:
  InputMaker(const Trace& trace, const PlannedCall& planned)
      : trace_(trace), planned_(planned), seed_(seed_of(planned.signature)) {}

  CallInputs run() {
    const ApiCall& call = planned_.call;
    for (const Argument& argument : call.arguments)
      inputs_.arguments[argument.key] = value_of(argument);
    if (is_list_index(trace_, call))
      inputs_.arguments["1"].object()["list"] = true;
    settle_indices(call.api, generated_, seed_, inputs_);
    inputs_.backward = wants_backward(trace_, call);
    if (inputs_.backward && call.backward >= 0) recorded_gradients();
    if (inputs_.backward && inputs_.gradients.empty()) made_gradients();
    inputs_.backward = !inputs_.gradients.empty();
    inputs_.autocast = trace_.ops[call.forward].autocast;
    return std::move(inputs_);
  }

 private:
  conform::Value value_of(const Argument& argument) {
    if (argument.is_container()) return container(argument);
    const Record& record = record_at(argument.record);
    if (record.is_tensor) {
      add_tensor(record.leaf, record);
      Object tensor{
          {"tensor", record.leaf},
          {"requires_grad", record.facts.requires_grad.value_or(false)}};
      if (record.facts.dtype == DType::kC128) tensor["dtype"] = "complex128";
      return tensor;
    }
    // What a trace has of a container without items.
    if (record.type == "list" && record.value == "[]")
      return Object{{"items", List{}}};
    if (record.type == "dict" && record.value == "{}")
      return Object{{"members", Object{}}};
    return Object{{"type", record.type}, {"value", record.value}};
  }

  conform::Value container(const Argument& argument) {
    if (argument.is_sequence()) {
      List items;
      for (const Argument& part : argument.parts)
        items.push_back(value_of(part));
      return Object{{"items", std::move(items)}};
    }
    Object members;
    for (const Argument& part : argument.parts)
      members[part.key] = value_of(part);
    return Object{{"members", std::move(members)}};
  }

  const Record& record_at(std::int32_t index) const {
    return trace_.records[static_cast<std::size_t>(index)];
  }

  std::uint64_t key_of(const std::string& name) const {
    return hash128(name, seed_).low;
  }

  void add_tensor(const std::string& name, const Record& record) {
    Tensor& tensor = inputs_.tensors[name];
    if (record.file.empty()) {
      make_room(*record.facts.dtype, record.facts.shape);
      tensor = generate(record, key_of(name));
      inputs_.generated.push_back(name);
      generated_[name] = &record;
    } else {
      tensor = loaded(record);
    }
    if (tensor.dtype() == DType::kC128) tensor = as_pairs(tensor);
  }

  // A shape is a few bytes of the trace, whatever elements it asks for.
  void make_room(DType dtype, const Shape& shape) {
    const auto count = checked_numel(shape);
    const auto bytes = count ? storage_bytes(dtype, *count) : std::nullopt;
    const std::int64_t most = physical_bytes() / kShareOfMemory;
    if (!bytes || static_cast<std::int64_t>(*bytes) > most - generated_bytes_)
      throw Error(Code::kRefused,
                  fmt::format("inputs of shape {} would have to be generated: "
                              "over a quarter of this machine's memory",
                              to_string(shape)));
    generated_bytes_ += static_cast<std::int64_t>(*bytes);
  }

  // A file that is not what the trace says it is would be another call.
  Tensor loaded(const Record& record) const {
    Tensor tensor = trace_.loader->load(record);
    SideFacts declared = record.facts;
    const SidecarCheck check = check_sidecar("trace", declared, tensor);
    for (const Reason& reason : check.reasons)
      if (!reason.note)
        throw Error(Code::kRefused, record.leaf + ": " + reason.text);
    return tensor;
  }

  // Inputs of the backward pass are the gradients of the results.
  void recorded_gradients() {
    const Op& op = trace_.ops[static_cast<std::size_t>(planned_.call.backward)];
    for (std::uint32_t i = 0; i < op.record_count; ++i) {
      const Record& record = trace_.records[op.first_record + i];
      if (record.role != Role::kInput || !record.is_tensor) continue;
      const Record* result = result_named(
          "output" + record.leaf.substr(std::string("input").size()));
      if (!result || result->facts.shape != record.facts.shape ||
          !record.unreadable.empty() || !record.facts.dtype)
        continue;
      add_tensor("gradient." + result->leaf, record);
      inputs_.gradients.push_back(result->leaf);
    }
  }

  const Record* result_named(const std::string& leaf) const {
    const Op& op = trace_.ops[planned_.call.forward];
    for (std::uint32_t i = 0; i < op.record_count; ++i) {
      const Record& record = trace_.records[op.first_record + i];
      if (record.role == Role::kOutput && record.is_tensor &&
          record.leaf == leaf)
        return &record;
    }
    return nullptr;
  }

  void made_gradients() {
    const Op& op = trace_.ops[planned_.call.forward];
    for (std::uint32_t i = 0; i < op.record_count; ++i) {
      const Record& record = trace_.records[op.first_record + i];
      if (record.role != Role::kOutput || !record.is_tensor ||
          !record.unreadable.empty() || !record.facts.dtype ||
          is_exact(*record.facts.dtype) ||
          !record.facts.requires_grad.value_or(false))
        continue;
      const std::string name = "gradient." + record.leaf;
      make_room(*record.facts.dtype, record.facts.shape);
      inputs_.tensors[name] =
          generate_unit(*record.facts.dtype, record.facts.shape, key_of(name));
      inputs_.generated.push_back(name);
      inputs_.gradients.push_back(record.leaf);
    }
  }

  const Trace& trace_;
  const PlannedCall& planned_;
  const std::uint64_t seed_;
  Generated generated_;
  std::int64_t generated_bytes_ = 0;
  CallInputs inputs_;
};

}  // namespace

CallInputs make_inputs(const Trace& trace, const PlannedCall& planned) {
  return InputMaker(trace, planned).run();
}

conform::Object parameters_of(const PlannedCall& planned,
                              const CallInputs& inputs,
                              const std::string& precision, int runs) {
  List gradients(inputs.gradients.begin(), inputs.gradients.end());
  return Object{{"api", planned.call.api},
                {"arguments", inputs.arguments},
                {"precision", precision},
                {"backward", inputs.backward},
                {"gradients", std::move(gradients)},
                {"autocast", inputs.autocast},
                {"runs", runs}};
}

Tensor as_pairs(const Tensor& tensor) {
  Tensor pairs = contiguous(tensor);
  pairs.view.dtype = DType::kF64;
  pairs.view.shape.push_back(2);
  return pairs;
}

Tensor as_complex(const Tensor& pairs) {
  const Shape& shape = pairs.shape();
  if (pairs.dtype() != DType::kF64 || shape.empty() || shape.back() != 2)
    throw Error(Code::kRefused,
                fmt::format("{} of shape {}, expected pairs of float64",
                            traits(pairs.dtype()).name, to_string(shape)));
  Tensor tensor = contiguous(pairs);
  tensor.view.dtype = DType::kC128;
  tensor.view.shape.pop_back();
  return tensor;
}

conform::TensorMap perturbed(const conform::TensorMap& tensors,
                             std::uint64_t seed,
                             std::optional<DType> autocast) {
  conform::TensorMap moved;
  for (const auto& [name, tensor] : tensors) {
    const DType dtype = tensor.dtype();
    if (!is_float(dtype)) {
      moved[name] = tensor;
      continue;
    }
    const Tensor from = contiguous(tensor);
    Tensor& to = moved[name];
    to = Tensor::empty(DType::kF64, from.shape());
    const std::int64_t count = from.numel();
    const double u = std::max(unit_roundoff(dtype),
                              autocast ? unit_roundoff(*autocast) : 0.0);
    PhiloxStream stream(hash128(name, seed).low);
    std::byte* out = to.mutable_data();
    for (std::int64_t i = 0; i < count; ++i) {
      const double delta = u * (2 * stream.next_uniform() - 1);
      store_from_double(DType::kF64,
                        load_as_double(dtype, from.view.data, i) * (1 + delta),
                        out, i);
    }
  }
  return moved;
}

}  // namespace assay::precheck
