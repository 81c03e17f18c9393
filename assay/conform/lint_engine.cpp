// The rule of lint that asks the engine's adapter what a spec really gives.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <set>

#include "assay/base/text.h"
#include "assay/conform/adapter.h"
#include "assay/conform/lint_rules.h"
#include "assay/conform/tensor_file.h"

namespace assay::conform {
namespace {

constexpr int kCases = 4;

AdapterCall call_of(const Spec& spec, const Case& c) {
  AdapterCall call;
  call.module = c.module;
  call.parameters = c.parameters;
  call.inputs = make_inputs(spec, c);
  for (const std::string& name : strided_inputs(spec, c))
    call.inputs[name] = strided_view(call.inputs[name]);
  call.steps = c.steps;
  call.seed = c.seed;
  return call;
}

// Nullopt where the engine refuses: not the spec's fault here.
std::optional<AdapterResult> run(const Adapter& adapter,
                                 const AdapterCall& call) {
  try {
    return adapter.run(call);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::set<std::string> declared(const Spec& spec, const Case& c) {
  std::set<std::string> names;
  for (const Output& output : spec.outputs) {
    if (output.when && !output.when->holds(c.parameters)) continue;
    // One step has no suffix.
    if (!output.each_step || c.steps == 1) {
      names.insert(output.name);
      continue;
    }
    for (int step = 1; step <= c.steps; ++step)
      names.insert(fmt::format("{}.step{}", output.name, step));
  }
  return names;
}

std::string declared_key(const Spec& spec, const std::string& output) {
  std::string name = output;
  if (!spec.lines.count("outputs." + name))
    name = name.substr(0, name.rfind(".step"));
  return "outputs." + name;
}

void lint_outputs_of(Linting& lint, const Case& c,
                     const AdapterResult& result) {
  const std::set<std::string> wanted = declared(lint.spec, c);
  for (const std::string& name : wanted)
    if (!result.outputs.count(name))
      lint.error(
          declared_key(lint.spec, name),
          fmt::format("case {}: the engine's adapter gives no {}", c.id, name));
  for (const auto& [name, tensor] : result.outputs)
    if (!wanted.count(name))
      lint.warn("outputs", fmt::format("case {}: the engine's adapter gives "
                                       "{}, which is not declared",
                                       c.id, printable(name)));
}

void lint_contract_of(Linting& lint, const Case& c,
                      const AdapterResult& result) {
  Spec other = lint.spec;
  ++other.seed;  // the same case of other data
  const std::optional<AdapterResult> again =
      run(*find_adapter(c.module), call_of(other, c));
  for (const std::string& field : lint.spec.contract) {
    const auto found = result.contract.find(field);
    if (found == result.contract.end()) {
      lint.error("contract",
                 fmt::format("the engine's adapter gives no field {}",
                             printable(field)));
    } else if (again && again->contract.count(field) &&
               again->contract.at(field) != found->second) {
      lint.error("contract",
                 fmt::format("field {} depends on the data: compare it as an "
                             "output",
                             printable(field)));
    }
  }
}

std::set<std::string> named_parameters(const Spec& spec) {
  std::set<std::string> names = {"ranks"};
  const auto add = [&names](const Expression& expression) {
    names.merge(expression.names());
  };
  const auto add_if = [&add](const std::optional<Expression>& expression) {
    if (expression) add(*expression);
  };
  std::for_each(spec.constraints.begin(), spec.constraints.end(), add);
  for (const Input& input : spec.inputs) {
    std::for_each(input.shape.begin(), input.shape.end(), add);
    add(input.dtype);
    add(input.values.kind);
    for (const auto& [name, option] : input.values.options) add(option);
    add_if(input.when);
    add_if(input.strided);
  }
  for (const Output& output : spec.outputs) {
    std::for_each(output.shape.begin(), output.shape.end(), add);
    add_if(output.dtype);
    add_if(output.when);
  }
  for (const StandardRule& rule : spec.standard) add_if(rule.when);
  return names;
}

}  // namespace

void lint_engine(Linting& lint) {
  const Adapter* adapter = find_adapter(lint.spec.module);
  if (!adapter) return;
  std::set<std::string> unused;
  const std::set<std::string> named = named_parameters(lint.spec);
  for (const Parameter& parameter : lint.spec.parameters)
    if (!named.count(parameter.name)) unused.insert(parameter.name);
  int asked = 0;
  for (const Case& c : lint.small) {
    if (c.invalid || c.ranks > 1 || asked == kCases) continue;
    const AdapterCall call = call_of(lint.spec, c);
    const std::optional<AdapterResult> result = run(*adapter, call);
    if (!result) continue;
    ++asked;
    lint_outputs_of(lint, c, *result);
    lint_contract_of(lint, c, *result);
    std::erase_if(unused, [&](const std::string& name) {
      AdapterCall without = call;
      without.parameters[name] = Value();  // throws where it is read
      return !run(*adapter, without);
    });
  }
  if (asked == 0) return;
  for (const std::string& name : unused)
    lint.warn("parameters." + name,
              fmt::format("parameter {} is in no expression, and the engine's "
                          "adapter never reads it",
                          name));
}

}  // namespace assay::conform
